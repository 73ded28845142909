"""A run with mined negatives: opens the corpus that the settings name, mines every partition, and writes the new run.

    topics of a snapshot, or a corpus --> CandidatePool --> Miner --> write_mined

The caller passes in what `trainer` may not import: the check of constraints, and the seeds of a job.
"""

from collections.abc import Callable, Iterable, Iterator
from logging import getLogger
from pathlib import Path

from foil.datasets_out.commits.snapshot import Snapshot, read_partitions
from foil.datasets_out.training.candidate_pool import CandidatePassage, CandidatePool
from foil.datasets_out.training.mined_negatives import MinedRun, write_mined
from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.beir import row_id
from foil.engine.seeds.files.ledger import Ledger, ledger_lines
from foil.engine.seeds.files.rows import read_rows
from foil.engine.seeds.files.unique import UniqueRecords
from foil.engine.topic import Passage, Seed
from foil.trainer.train.mining.miner import Miner, Satisfies
from foil.trainer.train.mining.scorers import ScorerSource
from foil.trainer.train.mining.settings import MINING_VERSION, MineSettings

LOG = getLogger(__name__)
OpenSeeds = Callable[[], Iterable[Seed]]
_MAX_ROW_BYTES = 8 << 20
_NOT_IDENTITY = {"model", "template", "file"}
"""Settings that enter a run's identity by their content, not by their text."""


def mine_snapshot(
    source: Snapshot,
    into: Path,
    settings: MineSettings,
    scorers: ScorerSource,
    satisfies: Satisfies,
    *,
    open_seeds: OpenSeeds | None = None,
) -> MinedRun:
    """Writes or completes the run of `source` with mined negatives; the same call once more changes nothing.

    `open_seeds` opens the seeds of a job, for `corpus: seeds`.
    """
    accepted = (topic for topics in read_partitions(source) for topic in topics if topic.status == "accepted")
    pool = CandidatePool(accepted, settings.split, _corpus(settings, open_seeds))
    identity = {
        **settings.model_dump(mode="json", exclude=_NOT_IDENTITY),
        "by": scorers.identity,
        "pool": pool.digest,
        "version": MINING_VERSION,
    }
    return write_mined(source, into, scorers.name, identity, Miner(pool, scorers.open_scorer, settings, satisfies))


def _corpus(settings: MineSettings, open_seeds: OpenSeeds | None) -> Iterator[CandidatePassage] | None:
    if settings.corpus == "run":
        return None
    if settings.file is not None:
        return _candidates_of_file(settings.file, settings)
    if open_seeds is None:
        raise UsageError("`corpus: seeds` mines the seeds of a job; give it with --job JOB")
    return (candidate for seed in open_seeds() for candidate in _candidates_of_seed(seed))


def _candidates_of_seed(seed: Seed) -> Iterator[CandidatePassage]:
    for passages, answered in ((seed.positives, seed.query), (seed.negatives, "")):
        for passage in passages:
            yield CandidatePassage(passage, seed.licence, seed.redistributable, seed.id, answered)


def _candidates_of_file(file: Path, settings: MineSettings) -> Iterator[CandidatePassage]:
    ledger = Ledger()
    ids = UniqueRecords[str]("document", ledger)
    for row in read_rows(file, _MAX_ROW_BYTES):
        if isinstance(row, SeedFormatError):
            raise row
        passage = Passage(row.text("text").strip(), "mined_negative", row.title().strip(), row_id(row))
        if ids.take(passage.source_id, passage.id, row.path, row.line):
            yield CandidatePassage(passage, settings.licence, settings.redistributable, passage.id)
    for line in ledger_lines(ledger.plain()):
        LOG.warning("%s: %s", file, line)
