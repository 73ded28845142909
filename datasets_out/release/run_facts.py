"""What a run says of itself to whoever gets its release: its counts, prompts, models and digests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.release.ancestry import AncestorRun, read_ancestors
from foil.datasets_out.sql.views import dataset
from foil.engine.flow.progress import Counts


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a snapshot. `templates`: (name@hash, calls); `models`: (name, calls, tokens, US dollars)."""

    fingerprint: str
    schema_version: int
    digest: str
    snapshot: str
    job: Mapping[str, Any]
    counts: Counts
    planned: int | None
    templates: tuple[tuple[str, int], ...]
    models: tuple[tuple[str, int, int, float], ...]
    corpora: tuple[str, ...]
    licences: tuple[tuple[str, bool, int], ...]
    ancestors: tuple[AncestorRun, ...]


def run_facts(snapshot: Snapshot) -> RunFacts:
    """Reads them from the commit entries and two tables of the snapshot."""
    log = CommitLog(snapshot.out)
    run, counts = log.run(), snapshot.sums().counts
    calls = dataset("calls", snapshot).to_table(
        columns=["template", "model", "prompt_tokens", "completion_tokens", "cost_usd"]
    )
    templates = calls.group_by("template").aggregate([([], "count_all")]).to_pylist()
    sums: list[Any] = [
        ([], "count_all"),
        *((name, "sum") for name in ("prompt_tokens", "completion_tokens", "cost_usd")),
    ]
    models = calls.group_by("model").aggregate(sums).to_pylist()
    topics = dataset("topics", snapshot).to_table(
        columns=["corpus", "licence", "redistributable"], filter=pc.field("status") == "accepted"
    )
    licences = topics.group_by(["licence", "redistributable"]).aggregate([([], "count_all")]).to_pylist()
    return RunFacts(
        run["fingerprint"], run["schema_version"], snapshot.digest, snapshot.name, run["job"], counts,
        (log.plan() or {}).get("seeds"),
        tuple(sorted((row["template"], row["count_all"]) for row in templates)),
        tuple(sorted((row["model"], row["count_all"], row["prompt_tokens_sum"] + row["completion_tokens_sum"],
                      row["cost_usd_sum"]) for row in models)),
        tuple(sorted(set(topics["corpus"].to_pylist()))),
        tuple(sorted((row["licence"], row["redistributable"], row["count_all"]) for row in licences)),
        read_ancestors(snapshot.out),
    )  # fmt: skip


def sections(job: Mapping[str, Any], kind: str) -> Iterable[Mapping[str, Any]]:
    """The validators of a kind in a job, `contamination` for one."""
    validators = job.get("validators", ())
    return [each for each in validators if isinstance(each, Mapping) and each.get("kind") == kind]
