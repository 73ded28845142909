"""`foil plan`: what a job will ask and cost, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foil.cluster.commands.arguments import JobArgument, JsonOption, OutOption, ReuseOption, SetOption
from foil.cluster.terminal import in_columns, print_json, print_line, print_paragraph, say
from foil.engine.seeds.files.ledger import ledger_lines
from foil.engine.storage.opening import mirror_of

if TYPE_CHECKING:
    from foil.cluster.job import Job
    from foil.cluster.tries import Rates
    from foil.engine.planning.plan import PlanSample, Range, StageCost
    from foil.engine.protocols import Parts
    from foil.engine.settings import Settings
    from foil.engine.topic import Seed

_COLUMNS = {"seeds": 6, "pass": 6, "calls": 8, "tokens": 9, "dollars": 10, "paid": 6, "hours": 7}


def plan(
    job_file: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    rates: Annotated[
        Path | None,
        typer.Option(parser=mirror_of, help="The run or try whose rates are used. Default: the job's own, or its try."),
    ] = None,
    look_at: Annotated[int, typer.Option("--seeds", min=1, help="Seeds whose prompts are rendered.")] = 50,
    sample: Annotated[int, typer.Option(min=0, help="Seeds that are really asked, and paid; the run reuses them.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """What a job will ask and cost before it does, by the rates of a try or a run; what no rate tells is named."""
    import asyncio

    from foil.cluster.build import build_run
    from foil.cluster.job import load_job
    from foil.cluster.tries import rates_for
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.planning.plan import sample_seeds

    job = load_job(job_file, overrides or [], out)
    spec = build_run(job, reuse or [])
    parts = spec.worker.build_parts()
    seeds, chosen = sample_seeds(spec.reader, job.limits, max(look_at, sample))
    if sample:
        opening = partial(CommitLog(job.out).open, spec.fingerprint, spec.identity)
        traced = asyncio.run(_trace_alone(parts, chosen, job, sample, opening))
    else:
        traced = asyncio.run(_trace(parts, chosen, job, sample))
    job_rates = rates_for(job, spec.identity, rates, traced, use_sample=sample > 0)
    report = _PlanReport(job, seeds, traced, job_rates, parts)
    for line in ledger_lines(spec.reader.ledger.plain()):
        say(line)
    if as_json:
        print_json(report.plain())
    else:
        report.print()


async def _trace_alone(
    parts: Parts, chosen: Sequence[tuple[int, Seed]], job: Job, sample: int, opening: Callable[[], None]
) -> PlanSample:
    """What is really asked is paid, and kept for the run: so nobody else may work on the folder meanwhile."""
    import asyncio

    from foil.engine.storage.lease import FENCE, hold
    from foil.engine.storage.opening import open_store

    async with hold(open_store(job.out), takeover=False) as lease:
        opening()
        FENCE.set(lease)
        keeping = asyncio.create_task(lease.keep(lambda _error: None))
        try:
            return await _trace(parts, chosen, job, sample)
        finally:
            keeping.cancel()


async def _trace(parts: Parts, chosen: Sequence[tuple[int, Seed]], job: Job, sample: int) -> PlanSample:
    """Renders the prompts of the chosen seeds; the first `sample` of them are really asked."""
    from foil.engine.flow.budget import Budget, Spend
    from foil.engine.planning.plan import trace_calls
    from foil.engine.runtime.session import spent_before

    budget = Budget(job.limits.budget, spent_before(parts) if sample else Spend())
    try:
        return await trace_calls(parts, chosen, job.limits, sample=sample, budget=budget)
    finally:
        await parts.close()


class _PlanReport:
    """What is said of a plan."""

    def __init__(self, job: Job, seeds: int, traced: PlanSample, rates: Rates, parts: Parts) -> None:
        from foil.engine.planning.plan import not_seen, stages

        self._job, self._seeds, self._traced, self._rates = job, seeds, traced, rates
        self._costs = stages(rates.funnel, traced, seeds, parts)
        self._not_seen = not_seen(rates.funnel, traced, parts)
        topics = rates.funnel.topics.total()
        self._accepted_share = rates.funnel.accepted / topics if topics else None

    def plain(self) -> dict[str, Any]:
        """All of it as JSON. `totals` and what follows from them are null where the plan is not whole."""
        rates = self._rates
        return {
            "seeds": self._seeds,
            "looked_at": self._traced.looked_at,
            "rates": {"of": rates.of, "seeds": rates.funnel.seeds, "differs_in": list(rates.differs)},
            "accepted_share": self._accepted_share,
            "whole": not self._not_seen,
            "not_seen": self._not_seen,
            "stages": [self._stage_json(cost) for cost in self._costs],
            "totals": None if self._not_seen else {name: each.plain() for name, each in self._totals().items()},
        }

    def print(self) -> None:
        """The table and words."""
        rates = self._rates
        source = f"rates of {rates.funnel.seeds:,} seeds: {rates.of}" if rates.funnel.seeds else "without any rates"
        print_paragraph(f"{self._seeds:,} seeds; {source}")
        if rates.differs:
            print_paragraph(f"these rates are of a job that differs in {', '.join(rates.differs)}")
        print_line(in_columns("stage", [*_COLUMNS], _COLUMNS.values()))
        for cost in self._costs:
            self._print_stage(cost)
        for line in self._not_seen:
            print_paragraph(f"NOT IN THIS PLAN: {line}")
        if self._not_seen:
            print_paragraph("so this is no whole plan: `foil try JOB` sees all stages, then plan again")
        elif not self._costs:
            print_line("no call is planned: no seed of those looked at led to one")
        else:
            self._print_totals()
        for cost in self._costs:
            own, with_later = cost.repaid
            if round(own):
                say(f"an edit of {cost.task} pays {own:,.0f} calls again, {with_later:,.0f} with all asked after it")

    def _print_stage(self, cost: StageCost) -> None:
        tokens = cost.completion_tokens and _sum([cost.prompt_tokens, cost.completion_tokens])
        hours = self._hours_left(cost)
        own = [f"{cost.answered:.0%}", "?" if hours is None else f"{hours:,.2f}"]
        passed = "?" if cost.passed is None else f"{cost.passed:.0%}"
        _print_amounts(cost.task, [f"{cost.reached:.0%}", passed], (cost.calls, tokens, cost.usd), own)

    def _print_totals(self) -> None:
        totals = self._totals()
        tokens = _sum([totals["prompt_tokens"], totals["completion_tokens"]])
        _print_amounts("in all", ["", ""], (totals["calls"], tokens, totals["usd"]), ["", ""])
        if self._accepted_share is not None:
            accepted = self._accepted_share * self._seeds
            each = f", {tokens.expected / accepted:,.0f} tokens each" if accepted else ""
            print_paragraph(f"accepted: {self._accepted_share:.0%}, so about {accepted:,.0f} topics{each}")

    def _totals(self) -> dict[str, Range]:
        by_name = {name: [getattr(cost, name) for cost in self._costs] for name in _AMOUNTS}
        return {name: _sum(amounts) for name, amounts in by_name.items()}

    def _stage_json(self, cost: StageCost) -> dict[str, Any]:
        amounts = {name: getattr(cost, name) for name in _AMOUNTS}
        return {
            "role": cost.role,
            "task": cost.task,
            "templates": list(cost.templates),
            "reached": cost.reached,
            "passed": cost.passed,
            **{name: amount and amount.plain() for name, amount in amounts.items()},
            "answered": cost.answered,
            "hours": self._hours_left(cost),
            "repaid_by_an_edit": list(cost.repaid),
        }

    def _settings(self, cost: StageCost) -> Settings:
        """The model that answers a stage."""
        from foil.engine.protocols import for_role

        settings = for_role(self._job.models, cost.role)
        assert settings is not None
        return settings

    def _hours_left(self, cost: StageCost) -> float | None:
        """The hours of what is not paid yet, by the job's rates and the latency seen; None if unknown."""
        from foil.engine.models.endpoints import HostedSettings

        settings = self._settings(cost)
        if not isinstance(settings, HostedSettings):
            return None
        unanswered, endpoints = 1 - cost.answered, len(settings.all_endpoints())
        calls_left = cost.calls.expected * unanswered
        written = cost.completion_tokens.expected if cost.completion_tokens else 0.0
        tokens = (cost.prompt_tokens.expected + written) * unanswered
        runtime, latency_s = self._job.runtime, cost.latency_s or self._rates.latencies.get(cost.task, 0.0)
        concurrency = min(settings.max_concurrency * endpoints, runtime.window) * max(1, runtime.most_workers)
        bounds = [
            calls_left / settings.rpm / endpoints / 60 if settings.rpm else 0.0,
            tokens / settings.tpm / endpoints / 60 if settings.tpm else 0.0,
            calls_left * latency_s / concurrency / 3600,
        ]
        return max(bounds) if calls_left == 0 or any(bounds) else None


_AMOUNTS = ("calls", "prompt_tokens", "completion_tokens", "usd")


def _sum(amounts: Sequence[Range]) -> Range:
    from foil.engine.planning.plan import Range

    bounds = [amount.plain() for amount in amounts] or [[0.0, 0.0, 0.0]]
    return Range(*map(sum, zip(*bounds, strict=True)))


def _print_amounts(name: str, shares: Sequence[str], amounts: Sequence[Range | None], own: Sequence[str]) -> None:
    """Three lines of calls, tokens and dollars: what is expected, at least, at most; `?` for what is not known."""
    for title, bound in ((name, "expected"), ("  at least", "low"), ("  at most", "high")):
        cells = ["?" if each is None else _format_number(getattr(each, bound)) for each in amounts[:2]]
        dollars = amounts[2]
        cells.append("?" if dollars is None else _format_dollars(getattr(dollars, bound)))
        ends = (shares, own) if bound == "expected" else (["", ""], ["", ""])
        print_line(in_columns(title, [*ends[0], *cells, *ends[1]], _COLUMNS.values()))


def _format_dollars(number: float) -> str:
    """Two digits at least of what is not nothing."""
    return f"{number:.2g}" if 0 < number < 1 else _format_number(number) if number >= 1e4 else f"{number:,.2f}"


def _format_number(number: float) -> str:
    """Three digits and a magnitude."""
    for least, size, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= least:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
