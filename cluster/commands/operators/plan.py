"""`foil plan`: what a job will ask and cost, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands.arguments import JobArgument, JsonOption, OutOption, ReuseOption, SetOption
from cluster.terminal import print_json, say, show

if TYPE_CHECKING:
    from cluster.job import Job
    from engine.flow.plan import PlanSample, Range, StageCost
    from engine.protocols import Parts
    from engine.settings import Settings
    from engine.topic import Seed

_COLUMNS = ["model", "task", "calls", "prompt tokens", "completion tokens", "US dollars", "paid already", "hours left"]


def plan(
    job_file: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    look_at: Annotated[int, typer.Option("--seeds", min=1, help="Seeds whose prompts are rendered.")] = 50,
    sample: Annotated[int, typer.Option(min=0, help="Seeds that are really asked, and paid; the run reuses them.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """What a job will ask and cost before it does: calls, tokens, US dollars and hours a stage, with a range."""
    import asyncio

    from cluster.build import build_run
    from cluster.job import load_job
    from datasets_out.commits.log import CommitLog
    from engine.flow.plan import sample_seeds, stages

    job = load_job(job_file, overrides or [], out)
    spec = build_run(job, reuse or [])
    parts = spec.worker.build_parts()
    seeds, chosen = sample_seeds(spec.reader, job.limits, max(look_at, sample))
    if sample:
        opening = partial(CommitLog(job.out).open, spec.fingerprint, spec.identity)
        traced = asyncio.run(_trace_alone(parts, chosen, job, sample, opening))
    else:
        traced = asyncio.run(_trace(parts, chosen, job, sample))
    costs = stages(traced, seeds, parts.models)
    _print_plan(job, seeds, traced, costs)
    if as_json:
        print_json(_to_json(job, seeds, traced, costs))


async def _trace_alone(
    parts: Parts, chosen: Sequence[tuple[int, Seed]], job: Job, sample: int, opening: Callable[[], None]
) -> PlanSample:
    """What is really asked is paid, and kept for the run: so nobody else may work on the folder meanwhile."""
    import asyncio

    from engine.storage.lease import FENCE, hold
    from engine.storage.opening import open_store

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
    from engine.flow.budget import Budget, Spend
    from engine.flow.plan import trace_calls
    from engine.runtime.session import spent_before

    budget = Budget(job.limits.budget, spent_before(parts) if sample else Spend())
    try:
        return await trace_calls(parts, chosen, job.limits, sample=sample, budget=budget)
    finally:
        for model in parts.models.values():
            await model.close()


def _to_json(job: Job, seeds: int, traced: PlanSample, costs: Sequence[StageCost]) -> dict[str, Any]:
    rows = [
        {
            "role": cost.role,
            "task": cost.task,
            "template": cost.template,
            **{name: getattr(cost, name).plain() for name in ("calls", "prompt_tokens", "completion_tokens", "usd")},
            "answered": cost.answered,
            "hours": _hours_left(job, cost),
            "repaid_by_an_edit": list(cost.repaid),
        }
        for cost in costs
    ]
    missing = {"unanswered": sorted(traced.unanswered), "unseen": sorted(traced.unseen)}
    return {"seeds": seeds, "looked_at": traced.looked_at, "stages": rows, **missing}


def _print_plan(job: Job, seeds: int, traced: PlanSample, costs: Sequence[StageCost]) -> None:
    title = f"{seeds:,} seeds, {traced.looked_at:,} looked at; expected, and in brackets from low to high"
    show(_COLUMNS, [_row(job, cost) for cost in costs], title)
    for cost in costs:
        own, with_later = cost.repaid
        say(
            f"an edit of {cost.template} pays {own:,.0f} calls again, {with_later:,.0f} with all that is asked after it"
        )
    for problem in sorted(traced.unanswered):
        say(f"calls are missing from this plan: {problem}; ask a few for real with --sample 20")
    if traced.unseen:
        say(
            f"{', '.join(sorted(traced.unseen))}: seeds that no model has answered there yet are planned up to it, and "
            "not what comes after it; their completions count as the most that they may use. Ask a few for real with "
            "--sample 20"
        )
    if not costs:
        say("no call is planned: no seed of those looked at led to one")


def _row(job: Job, cost: StageCost) -> tuple[str, ...]:
    hours = _hours_left(job, cost)
    return (
        f"{cost.role}: {_settings(job, cost).identity()['model']}",
        cost.task,
        *(_format_range(value) for value in (cost.calls, cost.prompt_tokens, cost.completion_tokens, cost.usd)),
        f"{cost.answered:.0%}",
        "?" if hours is None else f"{hours:,.2f}",
    )


def _settings(job: Job, cost: StageCost) -> Settings:
    """The model that answers a stage."""
    from engine.protocols import for_role

    settings = for_role(job.models, cost.role)
    assert settings is not None
    return settings


def _format_range(amount: Range) -> str:
    expected = _format_number(amount.expected)
    if amount.low == amount.high:
        return expected
    return f"{expected}\n({_format_number(amount.low)} to {_format_number(amount.high)})"


def _format_number(number: float) -> str:
    """Three digits and a magnitude."""
    for least, size, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= least:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.2f}"


def _hours_left(job: Job, cost: StageCost) -> float | None:
    """The hours of what is not paid yet, by the job's rates and the latency seen; None if unknown."""
    from engine.models.endpoints import HostedSettings

    settings = _settings(job, cost)
    if not isinstance(settings, HostedSettings):
        return None
    calls_left, endpoints = cost.calls.expected * (1 - cost.answered), len(settings.all_endpoints())
    tokens = (cost.prompt_tokens.expected + cost.completion_tokens.expected) * (1 - cost.answered)
    concurrency = min(settings.max_concurrency * endpoints, job.runtime.window) * max(1, job.runtime.most_workers)
    bounds = [
        calls_left / settings.rpm / endpoints / 60 if settings.rpm else 0.0,
        tokens / settings.tpm / endpoints / 60 if settings.tpm else 0.0,
        calls_left * cost.latency_s / concurrency / 3600,
    ]
    return max(bounds) if calls_left == 0 or any(bounds) else None
