"""What a job will ask and cost: from the rates of a try or a run, and from what is stored for the job already.

    funnel of committed rows -> rates a seed, stage by stage --------------------------+-> stages with their ranges
    seeds in stream order -> a sample by hash -> recipe and judges on stored replies --+-> what is not known

Seeds of the sample that stored replies carry to their end are rates themselves, where no others are given. Where a
reply is missing the first request without one is known, and nothing behind it: a plan says so, and is not `whole`.
The upper bound takes each prompt of the seed with most of them to need every turn that the job allows.

Promise: nothing is sent unless a sample is wanted, and what is sent then the run finds. Price: the seed stream is read
once, the sample rendered.
"""

import heapq
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from foil.engine.flow.budget import BudgetClient
from foil.engine.flow.journal import Journal, PartitionJournal
from foil.engine.flow.limits import Limits
from foil.engine.flow.reply_service import ReplyService
from foil.engine.ids import fraction_of
from foil.engine.planning.funnel import Funnel, StageCounts
from foil.engine.planning.replay import StoredReplies, replay_seed, rows_of
from foil.engine.protocols import Cost, Model, Parts, for_role
from foil.engine.requests import CHARACTERS_PER_TOKEN, Reply, Request, estimate_tokens
from foil.engine.storage.opening import open_store
from foil.engine.topic import Seed, Topic

_ADVICE_TOKENS = 1_000
"""More than a correction's own words take, with the schema that it may repeat."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """The first request of a sampled seed that nothing has answered. Tokens are estimated, completions the most."""

    task: str
    template: str
    model: str
    prompt_tokens: float
    most_completion_tokens: int


@dataclass(slots=True)
class PlanSample:
    """What the sample showed: rows of seeds that came to their end, and where the others stopped.

    `paid` has the tasks that stored replies answered, seed by seed in the order of asking; `latencies` what these took,
    in seconds by task.
    """

    looked_at: int
    rows: list[Topic] = field(default_factory=list)
    open: list[OpenRequest] = field(default_factory=list)
    paid: list[list[str]] = field(default_factory=list)
    latencies: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """An expected amount, and the bounds within which it should lie."""

    low: float
    expected: float
    high: float

    def plain(self) -> list[float]:
        """As JSON holds it."""
        return [self.low, self.expected, self.high]


@dataclass(frozen=True, slots=True)
class StageCost:
    """All calls of one task. `reached` is the share of seeds that come to it, `passed` that of its prompts which get an
    answer; None where no rate is known. `answered` is the share of the calls that is paid already.

    `repaid` are the calls that an edit of the template would pay again: its own, and with those asked after them.
    """

    role: str
    task: str
    templates: tuple[str, ...]
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range | None
    usd: Range | None
    reached: float
    passed: float | None
    answered: float
    latency_s: float
    repaid: tuple[float, float]


def sample_seeds(reader: Iterable[Seed], limits: Limits, count: int) -> tuple[int, list[tuple[int, Seed]]]:
    """The number of seeds, and `count` of them with their positions, drawn by the hash of their ids."""
    total = 0

    def drawn() -> Iterable[tuple[float, int, Seed]]:
        nonlocal total
        for total, seed in enumerate(islice(reader, limits.seeds), start=1):
            yield fraction_of("plan", seed.id), total - 1, seed

    chosen = heapq.nsmallest(count, drawn(), key=lambda row: row[:2])
    return total, sorted(((position, seed) for _, position, seed in chosen), key=lambda row: row[0])


async def trace_calls(
    parts: Parts, seeds: Sequence[tuple[int, Seed]], limits: Limits, *, sample: int, budget: BudgetClient
) -> PlanSample:
    """Runs the recipe and the validators on the seeds; the first `sample` of them really ask, and pay."""
    plan_sample, short = PlanSample(len(seeds)), parts.store.short_partitions() or {}
    writing = Journal(open_store(Path(parts.out)), "plan")
    try:
        for number, (position, seed) in enumerate(seeds):
            journal = writing.open(_partition_of(position, limits.partition_seeds, short))
            try:
                if number < sample:
                    await rows_of(parts, seed, ReplyService(journal, budget, "plan", parts.paid))
                rows, stored = await replay_seed(parts, seed, _Lookup(parts, journal))
                _note(plan_sample, rows, stored)
            finally:
                journal.close()
    finally:
        writing.close()
    return plan_sample


class _Lookup:
    """The reply that the run would find: in its own journal, or paid for by another run."""

    def __init__(self, parts: Parts, journal: PartitionJournal) -> None:
        self._paid, self._journal = parts.paid, journal

    def __call__(self, request: Request) -> Reply | None:
        return self._journal.get(request.id) or (self._paid.get(request) if self._paid else None)


def _note(sample: PlanSample, rows: Sequence[Topic], stored: StoredReplies) -> None:
    sample.rows += rows
    sample.paid.append([stored.requests[name][1].task for name in stored.replies])
    for name, reply in stored.replies.items():
        sample.latencies.setdefault(stored.requests[name][1].task, []).append(reply.latency_s)
    if stored.unanswered:
        model, request = stored.unanswered
        prompt_tokens = sum(len(message.content) for message in request.messages) / CHARACTERS_PER_TOKEN
        most = estimate_tokens(request)[1]
        sample.open.append(OpenRequest(request.task, request.template, model.name, prompt_tokens, most))


def _partition_of(position: int, partition_seeds: int, short: Mapping[int, int]) -> int:
    """The partition of the seed at a position of the stream; `short` are those of other than the usual size."""
    first, start = 0, 0
    for partition, seeds in sorted(short.items()):
        if position < (begin := start + (partition - first) * partition_seeds):
            break
        if position < begin + seeds:
            return partition
        first, start = partition + 1, begin + seeds
    return first + (position - start) // partition_seeds


def stages(rates: Funnel, sample: PlanSample, seeds: int, parts: Parts) -> list[StageCost]:
    """What the whole job will ask, stage by stage in the order of the flow; of stages without a rate the first call."""
    rated = [_stage(stage, rates, sample, seeds, parts) for stage in rates.stages.values()]
    unknown: dict[str, list[OpenRequest]] = {}
    for request in sample.open:
        if request.task not in rates.stages:
            unknown.setdefault(request.task, []).append(request)
    return [*rated, *(_beginning(requests, sample, seeds, parts) for requests in unknown.values())]


def not_seen(rates: Funnel, sample: PlanSample, parts: Parts) -> list[str]:
    """What the rates do not tell, in words; empty where the plan is whole."""
    unknown = sorted({request.task for request in sample.open} - set(rates.stages))
    gaps = [f"the stage {task}: no reply to it was ever seen" for task in unknown]
    if not rates.seeds:
        return [*gaps, "whatever comes after the first request of a seed"] if unknown else gaps
    if rates.asked and not rates.whole:
        last = next(reversed(rates.stages))
        gaps.append(f"what the recipe asks after {last}: none of {rates.seeds:,} seeds came to a whole topic")
    judges = [validator.name for validator in parts.validators if validator.cost == Cost.MODEL]
    return gaps + [f"what {name} asks: it saw no topic" for name in judges if name not in rates.validators]


def _stage(stage: StageCounts, rates: Funnel, sample: PlanSample, seeds: int, parts: Parts) -> StageCost:
    role, model = _role_of(stage.task, stage.models, parts.models)
    calls = _over_seeds([seed.calls for seed in stage.seeds], rates.seeds, seeds)
    prompt = _over_seeds([seed.prompt_tokens for seed in stage.seeds], rates.seeds, seeds)
    written = _over_seeds([seed.completion_tokens for seed in stage.seeds], rates.seeds, seeds)
    most_prompts = seeds * max(seed.prompts for seed in stage.seeds)
    most = [most_prompts * each for each in _most_of_a_prompt(stage, parts.corrections, parts.candidates)]
    ranges = [
        Range(each.low, each.expected, max(each.expected, high))
        for each, high in zip((calls, prompt, written), most, strict=True)
    ]
    usd = [model.traits.price(*tokens) for tokens in zip(ranges[1].plain(), ranges[2].plain(), strict=True)]
    own, later = _paid_calls(stage.task, sample)
    scale = seeds / sample.looked_at
    return StageCost(
        role=role,
        task=stage.task,
        templates=tuple(sorted(stage.templates)),
        calls=ranges[0],
        prompt_tokens=ranges[1],
        completion_tokens=ranges[2],
        usd=Range(*usd),
        reached=len(stage.seeds) / rates.seeds,
        passed=1 - stage.given_up / stage.sent,
        answered=min(1.0, own * scale / calls.expected) if calls.expected else 0.0,
        latency_s=_latency(stage.task, sample),
        repaid=(own * scale, (own + later) * scale),
    )


def _most_of_a_prompt(stage: StageCounts, corrections: int, candidates: int) -> tuple[int, int, int]:
    """The calls, prompt tokens and completion tokens of a prompt that takes every turn: each turn repeats those before
    it, and an endpoint that gives one choice is asked for each drawn candidate."""
    prompt, written = stage.most
    turns = sum(prompt + turn * (written + _ADVICE_TOKENS) for turn in range(corrections + 1))
    most = 1 + corrections + candidates
    return most, turns + prompt * candidates, written * most


def _beginning(requests: Sequence[OpenRequest], sample: PlanSample, seeds: int, parts: Parts) -> StageCost:
    """A stage that was rendered and never answered: one call a seed that came so far, at the most all turns of it."""
    first, reached = requests[0], len(requests) / sample.looked_at
    role, _ = _role_of(first.task, {first.model: 1}, parts.models)
    calls, turns = reached * seeds, 1 + parts.corrections + parts.candidates
    prompt = statistics.fmean(request.prompt_tokens for request in requests)
    most = max(request.prompt_tokens for request in requests) + parts.corrections * (
        first.most_completion_tokens + _ADVICE_TOKENS
    )
    return StageCost(
        role=role,
        task=first.task,
        templates=tuple(sorted({request.template for request in requests})),
        calls=Range(calls, calls, calls * turns),
        prompt_tokens=Range(calls * prompt, calls * prompt, calls * turns * most),
        completion_tokens=None,
        usd=None,
        reached=reached,
        passed=None,
        answered=0.0,
        latency_s=0.0,
        repaid=(0.0, 0.0),
    )


def _role_of(task: str, names: Mapping[str, int], models: Mapping[str, Model]) -> tuple[str, Model]:
    """The role and the model of this job that will answer a task: the one that did, else the judge or the writer."""
    for role, model in models.items():
        if model.name in names:
            return role, model
    role = "judge" if task.startswith("judges.") else "writer"
    return role, for_role(models, role) or next(iter(models.values()))


def _paid_calls(task: str, sample: PlanSample) -> tuple[int, int]:
    """Paid calls of the task in the sample, and those of other tasks that were asked after its first one."""
    own = later = 0
    for tasks in sample.paid:
        if task in tasks:
            after = Counter(tasks[tasks.index(task) :])
            own, later = own + after[task], later + after.total() - after[task]
    return own, later


def _latency(task: str, sample: PlanSample) -> float:
    """The mean seconds of a reply; 0 where none is known."""
    seconds = sample.latencies.get(task)
    return statistics.fmean(seconds) if seconds else 0.0


def _over_seeds(per_seed: Sequence[int], looked_at: int, seeds: int) -> Range:
    """An amount over all seeds, from that of those which had any: the mean, and two standard errors on either side."""
    values = [*per_seed, *[0] * (looked_at - len(per_seed))]
    mean = statistics.fmean(values)
    error = 2 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Range(max(0.0, mean - error) * seeds, mean * seeds, (mean + error) * seeds)
