"""`foil plan`: what a job will ask and cost, before it does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.build import build_run
from cluster.job import Job, load_job
from cluster.terminal import say, show
from datasets_out.commits.log import CommitLog
from engine.flow.budget import Budget, Spend
from engine.flow.plan import PlanSample, Range, StageCost, sample_seeds, stages, trace_calls
from engine.models.endpoints import HostedSettings
from engine.protocols import Parts
from engine.runtime.session import spent_before
from prompts.rule_writer.model import RuleWriter


def plan_job(
    path: Path,
    overrides: Sequence[str],
    out: Path | None,
    reuse: Sequence[Path],
    *,
    look_at: int,
    sample: int,
    as_json: bool,
) -> None:
    """Prints the plan of a job. With a `sample`, that many seeds are really asked; the run reuses their replies."""
    job = load_job(path, overrides, out)
    plant = build_run(job, [other.resolve() for other in reuse])
    if sample:
        CommitLog(job.out).open(plant.fingerprint, plant.identity)
    parts = plant.build_parts()
    seeds, chosen = sample_seeds(plant.reader, job.limits, max(look_at, sample))
    seen = asyncio.run(_looked(parts, chosen, job, sample))
    found = stages(seen, seeds, parts.models)
    _print(job, seeds, seen, found)
    if as_json:
        print(json.dumps(_plain(job, seeds, seen, found)))


async def _looked(parts: Parts, chosen: Sequence[Any], job: Job, sample: int) -> PlanSample:
    purse = Budget(job.limits.budget, spent_before(parts) if sample else Spend())
    try:
        return await trace_calls(parts, chosen, job.limits, RuleWriter(), sample=sample, purse=purse)
    finally:
        for model in parts.models.values():
            if close := getattr(model, "close", None):
                await close()


def _plain(job: Job, seeds: int, seen: PlanSample, found: Sequence[StageCost]) -> dict[str, Any]:
    rows = [
        {
            "role": one.role,
            "task": one.task,
            "template": one.template,
            **{name: getattr(one, name).plain() for name in ("calls", "prompt_tokens", "completion_tokens", "usd")},
            "answered": one.answered,
            "hours": _hours(job, one),
            "repaid_by_an_edit": list(one.repaid),
        }
        for one in found
    ]
    return {"seeds": seeds, "looked_at": seen.looked_at, "stages": rows, "unanswered": sorted(seen.unanswered)}


def _print(job: Job, seeds: int, seen: PlanSample, found: Sequence[StageCost]) -> None:
    rows = [
        (
            f"{one.role}: {job.models[one.role].identity().get('model', 'rule_writer')}",
            one.task,
            _amount(one.calls),
            _amount(one.prompt_tokens),
            _amount(one.completion_tokens),
            _amount(one.usd),
            f"{one.answered:.0%}",
            "?" if (hours := _hours(job, one)) is None else f"{hours:,.2f}",
        )
        for one in found
    ]
    head = ["model", "task", "calls", "prompt tokens", "completion tokens", "US dollars", "paid already", "hours left"]
    show(head, rows, f"{seeds:,} seeds, {seen.looked_at:,} looked at; expected, and in brackets from low to high")
    for one in found:
        own, all_of_it = one.repaid
        say(f"an edit of {one.template} pays {own:,.0f} calls again, {all_of_it:,.0f} with all that is asked after it")
    for problem in sorted(seen.unanswered):
        say(f"calls are missing from this plan: {problem}; ask a few for real with --sample 20")
    if not found:
        say("no call is planned: no seed of those looked at led to one")


def _amount(amount: Range) -> str:
    shown = _short(amount.expected)
    return shown if amount.low == amount.high else f"{shown}\n({_short(amount.low)} to {_short(amount.high)})"


def _short(number: float) -> str:
    """Three digits and a magnitude."""
    for least, size, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= least:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.2f}"


def _hours(job: Job, stage: StageCost) -> float | None:
    """The hours of what is not paid yet: by the rates that the job sets and by the latency seen; None if unknown."""
    settings = job.models[stage.role]
    if not isinstance(settings, HostedSettings):
        return None
    left, places = stage.calls.expected * (1 - stage.answered), len(settings.places())
    tokens = (stage.prompt_tokens.expected + stage.completion_tokens.expected) * (1 - stage.answered)
    at_once = min(settings.max_concurrency * places, job.runtime.window) * max(1, job.runtime.workers)
    bounds = [
        left / settings.rpm / places / 60 if settings.rpm else 0.0,
        tokens / settings.tpm / places / 60 if settings.tpm else 0.0,
        left * stage.latency_s / at_once / 3600,
    ]
    return max(bounds) if left == 0 or any(bounds) else None
