"""`foil run` and `foil status`: starts the flow, shows it live, and ends with the funnel and its conservation law."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cluster.build import build_run
from cluster.job import Job, load_job
from datasets_out.commits.log import CommitLog
from engine.flow.progress import Counts, Progress, Summary, status
from engine.models.endpoints import HostedSettings
from engine.models.params import secret_at
from engine.runtime import run_local

_REASONS_SHOWN = 8
_OUTCOMES = {"reject": "rejected", "edit": "edited", "mark": "marked", "pass": "passed"}
_PLAIN_EVERY_S = 5.0


def run_job(
    path: Path, overrides: Sequence[str], out: Path | None, reuse: Sequence[Path] = (), *, as_json: bool
) -> None:
    """Runs or resumes a job; exits with the run's code. `as_json` ends with what `foil status --json` prints."""
    job = load_job(path, overrides, out)
    summary = start(job, reuse)
    _print_funnel(summary, job.out)
    if as_json:
        print(json.dumps(status(CommitLog(job.out), job.out)))
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


def start(job: Job, reuse: Sequence[Path] = ()) -> Summary:
    """Builds the parts of a job and runs them to the end, with progress on stderr. `reuse`: `out` folders of runs."""
    for other in reuse:
        CommitLog(other).run()
    for model in job.models.values():
        if isinstance(model, HostedSettings):
            for place in model.places():
                secret_at(place.api_key)  # refused here, before anything is started, if there is none
    plant = build_run(job, [other.resolve() for other in reuse])
    CommitLog(job.out).open(plant.fingerprint, plant.identity)
    with _shown() as show_progress:
        if job.runtime.kind == "ray":
            from engine.runtime import run_ray

            runner = run_ray.run
        else:
            runner = run_local.run
        return runner(plant.reader, plant.screens, plant.build_parts, job.limits, job.runtime, show_progress)


def show_status(out: Path, *, as_json: bool) -> None:
    """Prints where a run stands, from its commit entries."""
    log = CommitLog(out)
    log.run()
    found = status(log, out)
    if as_json:
        print(json.dumps(found))
        return
    table = Table(show_header=False)
    for name, value in found.items():
        if name != "last_session":
            table.add_row(name, _plain(value))
    Console().print(table, markup=False)


class _Screen:
    """Shows progress: one table that renews itself on a terminal, a plain line every few seconds elsewhere."""

    def __init__(self, live: Live | None) -> None:
        self._live, self._next = live, 0.0

    def __call__(self, state: Progress) -> None:
        if self._live:
            self._live.update(_live_table(state))
        elif state.seconds >= self._next:
            self._next = state.seconds + _PLAIN_EVERY_S
            print(_line(state), file=sys.stderr, flush=True)


@contextmanager
def _shown() -> Iterator[_Screen]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Screen(None)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield _Screen(live)


def _line(state: Progress) -> str:
    seeds = state.counts.seeds
    planned = "?" if state.planned is None else f"{state.planned:,}"
    return (
        f"{state.seconds:6.0f} s  {seeds.total():,}/{planned} seeds: {seeds['accepted']:,} accepted, "
        f"{seeds['rejected']:,} rejected, {seeds['failed']:,} failed; {state.in_flight} in flight, "
        f"{state.topics_per_s:,.0f} topics/s, {_tokens(state.counts):,} tokens, ${state.counts.cost_usd:.2f}"
        f"{_eta(state)}"
    )


def _eta(state: Progress) -> str:
    return "" if state.eta_s is None else f", {state.eta_s:,.0f} s left"


def _tokens(counts: Counts) -> int:
    return counts.prompt_tokens + counts.completion_tokens


def _live_table(state: Progress) -> Table:
    table = Table(title=_line(state), title_justify="left")
    table.add_column("what became of the topics")
    table.add_column("topics", justify="right")
    for name, count in _rows(state.counts):
        table.add_row(name, f"{count:,}")
    return table


def _rows(counts: Counts) -> list[tuple[str, int]]:
    shown = counts.reasons.most_common(_REASONS_SHOWN)
    rest = counts.reasons.total() - sum(count for _, count in shown)
    rows = [("accepted", counts.topics["accepted"]), *((f"not accepted: {reason}", count) for reason, count in shown)]
    return [*rows, ("not accepted: other reasons", rest)] if rest else rows


def _validators_table(counts: Counts) -> Table:
    """What each validator made of the topics that it saw, those that saw most first."""
    found: dict[str, dict[str, int]] = {}
    for name, topics in counts.validators.items():
        validator, _, outcome = name.rpartition(" ")
        found.setdefault(validator, {})[outcome] = topics
    table = Table("validator", title="what each validator made of them", title_justify="left")
    for heading in ("topics", *_OUTCOMES.values(), "US dollars"):
        table.add_column(heading, justify="right")
    for validator, made in sorted(found.items(), key=lambda one: (-sum(one[1].values()), one[0])):
        cells = [f"{made.get(outcome, 0):,}" for outcome in _OUTCOMES]
        table.add_row(validator, f"{sum(made.values()):,}", *cells, f"{counts.validators_usd[validator]:.4f}")
    return table


def _print_funnel(summary: Summary, out: Path) -> None:
    seeds = summary.counts.seeds
    table = Table(title=f"{out}: {summary.partitions:,} partitions in {summary.seconds:.1f} s", title_justify="left")
    table.add_column("what became of the topics")
    table.add_column("topics", justify="right")
    for name, count in _rows(summary.counts):
        table.add_row(name, f"{count:,}")
    Console().print(table, markup=False)
    if summary.counts.validators:
        Console().print(_validators_table(summary.counts), markup=False)
    print(
        f"planned {summary.planned:,} seeds = {seeds['accepted']:,} accepted + {seeds['rejected']:,} rejected "
        f"+ {seeds['failed']:,} failed"
        + ("" if summary.complete else f" + {summary.planned - seeds.total():,} not done")
    )
    if summary.stopped:
        print(f"foil: {summary.stopped}", file=sys.stderr)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
