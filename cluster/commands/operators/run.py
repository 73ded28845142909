"""`foil run`: runs a job, shows its progress, and ends with the funnel: what became of every planned seed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import (
    AllOption,
    JobArgument,
    JsonOption,
    OutOption,
    RetryOption,
    ReuseOption,
    SetOption,
)
from foil.cluster.terminal import live_table, print_json, print_line, print_paragraph, say, show
from foil.engine.errors import QueryStoppedError
from foil.engine.seeds.files.ledger import ledger_lines

if TYPE_CHECKING:
    from pathlib import Path

    from foil.cluster.job import Job
    from foil.cluster.terminal import Rows
    from foil.engine.flow.progress import Counts, Progress, Summary

LOG = logging.getLogger(__name__)
_OUTCOME_COLUMNS = ("what became of the topics", "topics")
_REASONS_SHOWN = 8
_OUTCOMES = {"reject": "rejected", "edit": "edited", "mark": "marked", "pass": "passed"}
_FEW = 0.2
_BY_SOURCE = """
SELECT corpus, recipe, count(*) AS topics, count(*) FILTER (status = 'accepted') AS accepted,
       count(*) FILTER (status = 'rejected') AS rejected, count(*) FILTER (status = 'failed') AS failed,
       coalesce(mode(reason) FILTER (status <> 'accepted'), '') AS reason
FROM topics GROUP BY corpus, recipe ORDER BY corpus, recipe"""
_LINE_EVERY_S = 5.0
_COUNT_EVERY_S = 1.0
_GO_ON = ("limits.breakers.accepted_share=0", "limits.breakers.accepted_tokens=null")
"""What --all sets."""


def run(
    job_file: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Take the folder from a run that holds it, once that one has stopped.")
    ] = False,
    go_on: AllOption = False,
    retry_failed: RetryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a job, or resume it where it stopped; a finished job is a no-op."""
    from foil.cluster.job import load_job

    job = load_job(job_file, [*(overrides or []), *(_GO_ON if go_on else ())], out)
    run_and_show(job, reuse or [], takeover=takeover, retry_failed=retry_failed, as_json=as_json)


def run_and_show(job: Job, reuse: Sequence[Path], *, takeover: bool, as_json: bool, retry_failed: bool = False) -> None:
    """Runs a checked job with its progress and its funnel. Raises Exit with the run's exit code, if it is not 0."""
    from foil.cluster.replayed_prompts import paid_line
    from foil.cluster.run_job import run_job
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.flow.progress import status

    if reuse:
        (LOG.info if job.runtime.log_format == "json" else say)(paid_line(job, reuse))
    if job.runtime.log_format == "json":
        printer = ProgressPrinter(None, lambda line: LOG.info(line.strip()))
        summary = run_job(job, reuse, printer, printer.count_seeds, takeover=takeover, retry_failed=retry_failed)
    else:
        with live_table() as update:
            printer = ProgressPrinter(update)
            printer.count_seeds(0)
            summary = run_job(job, reuse, printer, printer.count_seeds, takeover=takeover, retry_failed=retry_failed)
    _print_funnel(summary, job)
    if as_json:
        print_json(status(CommitLog(job.out), job.out))
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


class ProgressPrinter:
    """Prints progress: one table that renews itself on a terminal, a plain line every few seconds elsewhere."""

    def __init__(
        self, update: Callable[[Sequence[str], Rows, str], None] | None, tell: Callable[[str], None] = say
    ) -> None:
        self._update, self._tell, self._next_line_s = update, tell, 0.0
        self._next_count_s, self._seeds_ended = 0.0, False

    def count_seeds(self, seeds: int) -> None:
        """Tells each second how many seeds are read, until the first one has ended."""
        now_s = time.monotonic()
        if self._seeds_ended or now_s < self._next_count_s:
            return
        self._next_count_s = now_s + _COUNT_EVERY_S
        if self._update:
            self._update(_OUTCOME_COLUMNS, [], f"reading seeds: {seeds:,}")
        else:
            self._tell(f"reading seeds: {seeds:,}")

    def __call__(self, progress: Progress) -> None:
        self._seeds_ended = self._seeds_ended or progress.counts.seeds.total() > 0
        if self._update:
            self._update(_OUTCOME_COLUMNS, _outcome_rows(progress.counts), _progress_line(progress))
        elif progress.seconds >= self._next_line_s:
            self._next_line_s = progress.seconds + _LINE_EVERY_S
            self._tell(_progress_line(progress))


def _progress_line(progress: Progress) -> str:
    counts, seeds = progress.counts, progress.counts.seeds
    planned = "?" if progress.planned is None else f"{progress.planned:,}"
    eta = "" if progress.eta_s is None else f", {progress.eta_s:,.0f} s left"
    waiting = f"; {progress.waiting_for}" if progress.waiting_for else ""
    if not seeds.total() and not progress.in_flight:
        return f"{progress.seconds:6.0f} s  no seed is read yet{waiting}"
    return (
        f"{progress.seconds:6.0f} s  {seeds.total():,}/{planned} seeds: {seeds['accepted']:,} accepted, "
        f"{seeds['rejected']:,} rejected, {seeds['failed']:,} failed; {progress.in_flight} in flight, "
        f"{progress.topics_per_s:,.0f} topics/s, {counts.prompt_tokens + counts.completion_tokens:,} tokens, "
        f"${counts.cost_usd:.2f}{eta}{waiting}"
    )


def _outcome_rows(counts: Counts) -> list[tuple[str, str]]:
    """Accepted topics, then the most frequent reasons against the others."""
    frequent = counts.reasons.most_common(_REASONS_SHOWN)
    rest = counts.reasons.total() - sum(count for _, count in frequent)
    rows = [
        ("accepted", counts.topics["accepted"]),
        *((f"not accepted: {reason}", count) for reason, count in frequent),
    ]
    rows += [("not accepted: other reasons", rest)] if rest else []
    return [(outcome, f"{count:,}") for outcome, count in rows]


def _validator_rows(counts: Counts, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The outcomes of each validator of the job; those that saw most topics come first."""
    outcomes_of: dict[str, dict[str, int]] = {name: {} for name in names}
    for (validator, outcome), topics in counts.validators.items():
        outcomes_of.setdefault(validator, {})[outcome] = topics
    by_topics = sorted(outcomes_of.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return [
        (
            validator,
            f"{sum(outcomes.values()):,}",
            *(f"{outcomes.get(outcome, 0):,}" for outcome in _OUTCOMES),
            f"{counts.validators_usd[validator]:.4f}",
        )
        for validator, outcomes in by_topics
    ]


def _print_funnel(summary: Summary, job: Job) -> None:
    from foil.cluster.pages.reason_lines import print_commonest
    from foil.cluster.seeds.mixed import MixedSettings
    from foil.prompts.recipes.mixed import MixedRecipeSettings
    from foil.validators.catalog import SCREENS

    counts = summary.counts
    partitions = "1 partition" if summary.partitions == 1 else f"{summary.partitions:,} partitions"
    title = f"{job.out}: {partitions} in {summary.seconds:.1f} s"
    show(_OUTCOME_COLUMNS, _outcome_rows(counts), title, numbers=True)
    kinds = [str(validator.model_dump()["kind"]) for validator in job.validators]
    names = [kind for kind in kinds if kind not in SCREENS]
    if isinstance(job.seeds, MixedSettings) or isinstance(job.recipe, MixedRecipeSettings):
        _print_sources(job)
    if names:
        columns = ["validator", "topics", *_OUTCOMES.values(), "US dollars"]
        show(columns, _validator_rows(counts, names), "what each validator made of them", numbers=True)
    print_line(_balance(summary))
    for line in ledger_lines(summary.read):
        print_line(line)
    for line in _doubts(counts, kinds):
        print_paragraph(line)
    print_commonest(job.out, counts.reasons, counts.topics.total())
    if summary.stopped and job.runtime.log_format == "text":
        say(f"foil: {summary.stopped}")


def _balance(summary: Summary) -> str:
    """What became of the planned seeds, in one line."""
    seeds, planned = summary.counts.seeds, summary.planned
    ended = f"{seeds['accepted']:,} accepted + {seeds['rejected']:,} rejected + {seeds['failed']:,} failed"
    if planned is None:
        return f"{seeds.total():,} seeds done = {ended}; the corpus was not read to its end, so more may be left"
    rest = "" if summary.complete else f" + {planned - seeds.total():,} not done"
    return f"planned {planned:,} seeds = {ended}{rest}"


def _print_sources(job: Job) -> None:
    """The funnel of each corpus and recipe; a run too large to be counted in a minute has it from `foil sql` alone."""
    from foil.datasets_out.sql.query import run_sql

    try:
        rows = run_sql(job.out, _BY_SOURCE).to_pylist()
    except QueryStoppedError as error:
        say(f"the funnel by source is left out: {error}")
        return
    columns = ["corpus", "recipe", "topics", "accepted", "rejected", "failed", "commonest reason"]
    cells = [tuple(f"{value:,}" if isinstance(value, int) else value for value in row.values()) for row in rows]
    show(columns, cells, "by corpus and recipe", numbers=True)


def _doubts(counts: Counts, validators: Sequence[str]) -> Iterator[str]:
    """What somebody should know before the data is used: few topics, and no look at evaluation sets."""
    total, accepted = counts.topics.total(), counts.topics["accepted"]
    if total and accepted < _FEW * total:
        how_many = f"only {accepted:,} of {total:,} topics were" if accepted else f"none of {total:,} topics was"
        yield f"{how_many} accepted"
    if "duplicates" in validators and total and not any("duplicate" in reason for reason in counts.reasons):
        yield "duplicates: looked at every seed and found none"
    if accepted and "contamination" not in validators:
        yield "not compared with any evaluation set: add the validator `contamination` before you report results"
