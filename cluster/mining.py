"""`foil mine`: mines a run into a new one, and prints what was taken and refused."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from foil.cluster.catalog import open_seeds
from foil.cluster.job import load_job, settings_beside_job
from foil.cluster.terminal import print_json, say, show
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.engine.topic import Intent, Passage
from foil.prompts.constraints.constraint import all_hold, constraints_of
from foil.trainer.train.mining.mined_run import mine_snapshot
from foil.trainer.train.mining.scorers import ScorerSource, bm25_source
from foil.trainer.train.mining.settings import MineSettings


def mine_run(
    out: Path, into: Path, overrides: Sequence[str], job_file: Path | None, snapshot: str | None, *, as_json: bool
) -> None:
    """Mines a run into a new one, and prints the counts."""
    job = load_job(job_file) if job_file else None
    settings = settings_beside_job(overrides, MineSettings, job, "split")
    source = load_snapshot(out, snapshot, verify=True)
    seeds = partial(open_seeds, job.seeds) if job else None
    mined = mine_snapshot(source, into, settings, scorer_source(settings), satisfies, open_seeds=seeds)
    counts = dict(sorted(mined.counts.items()))
    if as_json:
        print_json({"snapshot": mined.snapshot.digest, "out": str(into), **counts})
        return
    show(["of what", "how many"], [(name, f"{count:,}") for name, count in counts.items()], f"mined into {into}")
    say(f"{into} is a run of {mined.snapshot.rows('topics'):,} topics, snapshot {mined.snapshot.name}")


def satisfies(intent: Intent, passage: Passage) -> bool:
    """Whether the passage satisfies the constraints of the intent; False where it has none that can be checked."""
    constraints = constraints_of(intent)
    return bool(constraints) and all_hold(constraints, passage)


def scorer_source(settings: MineSettings) -> ScorerSource:
    """What the settings name as the miner; a model tells its progress on the terminal."""
    if settings.miner == "bm25":
        return bm25_source(settings)
    from foil.trainer.train.mining.model_scorer import model_source

    return model_source(settings, lambda count, texts: say(f"encoded {count:,} of {texts:,} passages"))
