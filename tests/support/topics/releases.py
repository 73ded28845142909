"""A real run for the tests of releases, made by rule, and what its splits may and may not hold."""

from pathlib import Path

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView, text_key

JOB = """
seeds: {{kind: python_docs, libraries: [sklearn]}}
recipe: {{kind: verifiable}}
out: {out}
limits: {{seeds: {seeds}, partition_seeds: 40}}
train: {{split: {{heldout_share: 0.2, dev_share: 0.1}}}}
"""
SPLIT = SplitSettings(heldout_share=0.2, dev_share=0.1)
SHARES = ["--set", "split.heldout_share=0.2", "--set", "split.dev_share=0.1"]


def make_run(folder: Path, seeds: int = 160) -> Path:
    """A finished run of documented functions, many of whose passages answer several queries."""
    job = folder / "job.yaml"
    job.write_text(JOB.format(out=folder / "out", seeds=seeds))
    assert run_job(load_job(job)).complete
    return folder / "out"


def view_of(out: Path) -> TrainingView:
    return TrainingView([TopicSource(load_snapshot(out, None))], SPLIT)


def keys_of(out: Path, split: str) -> set[int]:
    """The keys of all queries and passages that a trainer reads in a split."""
    groups = view_of(out).read_all(split)
    return {key for group in groups for _, query in group.intents for key in [text_key(query, kind="query")]} | {
        text_key(text, kind="passage") for group in groups for _, text in group.passages
    }
