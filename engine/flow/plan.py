"""What a job will ask, and what that costs, before it asks anything.

    seeds in stream order -> a sample by hash -> recipe and judges -> the calls of each stage, with their lengths

Their `ask` answers from the journal, else with a stand-in that costs nothing (the embedded rule writer), so that the
prompts are the real ones. For seeds that are sampled it really asks, and the run reuses the replies. The fact
`imagined` tells the stand-in that its answer decides only what is asked next.

Promise: nothing is sent unless a sample is wanted. Price: the seed stream is read once, the sample rendered.
"""

import heapq
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from engine.errors import STOPPING, FoilError, RefusedRequestError, Rejected
from engine.flow.ask import ReplyService, SeedAsk, make_request, model_for
from engine.flow.budget import BudgetClient
from engine.flow.journal import Journal, PartitionJournal
from engine.flow.limits import Limits
from engine.ids import fraction_of
from engine.protocols import Answer, Ask, Cost, Model, Parts, Prompt, ReplyCheck
from engine.requests import CHARACTERS_PER_TOKEN, Reply, Request, estimate_tokens
from engine.storage.opening import open_store
from engine.topic import Call, Seed

_THOUGHT = 0.2
"""The share of its room that a reasoning model is expected to think through."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a sampled seed. Tokens are counted by a model where it answered (`answered`), else estimated."""

    seed_id: str
    role: str
    task: str
    template: str
    answered: bool
    prompt_tokens: float
    completion_tokens: float
    most_completion_tokens: int
    latency_s: float = 0.0


@dataclass(slots=True)
class PlanSample:
    """What the sample showed: the seeds looked at, their calls, and the tasks that nothing could answer."""

    looked_at: int
    calls: list[PlannedCall] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)


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
    """All calls of one task to one role. `answered` is the share of them that is paid already.

    `repaid` are the calls that an edit of the template would pay again: its own, and with those asked after them.
    """

    role: str
    task: str
    template: str
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    usd: Range
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
    parts: Parts,
    seeds: Sequence[tuple[int, Seed]],
    limits: Limits,
    stand_in: Model,
    *,
    sample: int,
    budget: BudgetClient,
) -> PlanSample:
    """Runs the recipe and the judges on the seeds; the first `sample` of them really ask, and pay."""
    plan_sample, short = PlanSample(len(seeds)), parts.store.short_partitions() or {}
    writing = Journal(open_store(Path(parts.out)), "plan")
    try:
        for number, (position, seed) in enumerate(seeds):
            journal = writing.open(_partition_of(position, limits.partition_seeds, short))
            ask = (
                _PayingAsk(parts, journal, budget, seed)
                if number < sample
                else _RehearsalAsk(parts, journal, stand_in, seed)
            )
            try:
                await _run_seed(parts, seed, ask)
            except STOPPING:
                raise
            except Rejected:
                pass
            except Exception as error:  # noqa: BLE001 - one seed must not end the plan
                if isinstance(error, RefusedRequestError) or not isinstance(error, FoilError):
                    plan_sample.unanswered.add(str(error))
            finally:
                journal.close()
            plan_sample.calls += ask.planned()
    finally:
        writing.close()
    return plan_sample


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


async def _run_seed(parts: Parts, seed: Seed, ask: Ask) -> None:
    for topic in await parts.recipe(seed, ask):
        for validator in parts.validators:
            if validator.cost == Cost.MODEL:
                await validator(topic, ask)


class _PayingAsk(SeedAsk):
    """An `ask` that really asks; what it journals, the run will find."""

    def __init__(self, parts: Parts, journal: PartitionJournal, budget: BudgetClient, seed: Seed) -> None:
        replies = ReplyService(journal, budget, "plan", parts.paid)
        super().__init__(
            replies,
            parts.models,
            parts.parse,
            corrections=parts.corrections,
            candidates=parts.candidates,
            seed_id=seed.id,
        )
        self._parts, self._journal, self._seed = parts, journal, seed
        self._role_of: dict[str, str] = {}

    async def _ask(
        self, prompt: Prompt, answer: type[Answer], role: str, check: ReplyCheck[Answer] | None = None
    ) -> tuple[Answer, Reply]:
        self._role_of[prompt.task] = role
        return await super()._ask(prompt, answer, role, check)

    def planned(self) -> list[PlannedCall]:
        """Its calls, correction turns among them."""
        planned = []
        for call in self.calls:
            role = self._role_of[call.task]
            reply = self._journal.get(call.request_id)
            assert reply is not None
            planned.append(_answered_call(self._seed, role, call.task, call.template, reply=reply))
        return planned


class _RehearsalAsk:
    """An `ask` that answers from the journal, else lets the stand-in answer; it writes nothing."""

    calls: Sequence[Call] = ()

    def __init__(self, parts: Parts, journal: PartitionJournal, stand_in: Model, seed: Seed) -> None:
        self._parts, self._journal, self._stand_in, self._seed = parts, journal, stand_in, seed
        self._planned: list[PlannedCall] = []

    async def __call__(
        self, prompt: Prompt, answer: type[Answer], *, role: str = "writer", check: ReplyCheck[Answer] | None = None
    ) -> Answer:
        model = model_for(self._parts.models, role)
        request = make_request(model, prompt, answer, self._seed.id)
        paid = self._parts.paid
        reply = self._journal.get(request.id) or (paid.get(request) if paid else None)
        if reply:
            self._planned.append(_answered_call(self._seed, role, prompt.task, prompt.template, reply=reply))
        else:
            reply = await self._stand_in.complete(replace(request, facts={**prompt.facts, "imagined": True}))
            self._planned.append(_estimated_call(self._seed, role, request, model=model, reply=reply))
        parsed: Answer = self._parts.parse(reply.text, answer)
        return check(parsed) if check else parsed

    async def scored(self, prompt: Prompt, answer: type[Answer], *, role: str = "writer") -> tuple[Answer, Any]:
        """Without logprobs."""
        return await self(prompt, answer, role=role), None

    async def votes(self, prompt: Prompt, answer: type[Answer], *, role: str = "writer") -> list[Answer]:
        """One vote stands for all."""
        return [await self(prompt, answer, role=role)]

    def planned(self) -> list[PlannedCall]:
        """Its calls."""
        return self._planned


def _answered_call(seed: Seed, role: str, task: str, template: str, *, reply: Reply) -> PlannedCall:
    tokens = reply.prompt_tokens, reply.completion_tokens
    return PlannedCall(seed.id, role, task, template, True, *tokens, 0, reply.latency_s)


def _estimated_call(seed: Seed, role: str, request: Request, *, model: Model, reply: Reply) -> PlannedCall:
    prompt_tokens = sum(len(message.content) for message in request.messages) / CHARACTERS_PER_TOKEN
    most = estimate_tokens(request)[1]
    thought = model.traits.thinking_tokens * _THOUGHT
    written = len(reply.text) / CHARACTERS_PER_TOKEN + thought
    return PlannedCall(seed.id, role, request.task, request.template, False, prompt_tokens, written, most)


def stages(sample: PlanSample, seeds: int, models: Mapping[str, Model]) -> list[StageCost]:
    """What the whole job will ask, stage by stage in the order of the first call."""
    by_stage: dict[tuple[str, str], list[PlannedCall]] = {}
    for call in sample.calls:
        by_stage.setdefault((call.role, call.task), []).append(call)
    return [_stage(calls, sample, seeds, model_for(models, role)) for (role, _), calls in by_stage.items()]


def _stage(calls: Sequence[PlannedCall], sample: PlanSample, seeds: int, model: Model) -> StageCost:
    first, scale = calls[0], seeds / sample.looked_at
    calls_by_seed = Counter(call.seed_id for call in calls)
    counts = _range([float(calls_by_seed[seed_id]) for seed_id in _seed_ids(sample)], sample.looked_at, seeds)
    answered = [call for call in calls if call.answered]
    prompt = _mean([call.prompt_tokens for call in answered or calls])
    written = _mean([call.completion_tokens for call in answered or calls])
    most = Range(
        written.low, written.expected, written.high if answered else max(written.high, first.most_completion_tokens)
    )
    bounds = zip(counts.plain(), prompt.plain(), most.plain(), strict=True)
    usd = [calls * model.traits.price(*tokens) for calls, *tokens in bounds]
    own = len(answered) * scale
    return StageCost(
        role=first.role,
        task=first.task,
        template=first.template,
        calls=counts,
        prompt_tokens=_times(counts, prompt),
        completion_tokens=_times(counts, most),
        usd=Range(*usd),
        answered=len(answered) / len(calls),
        latency_s=_mean([call.latency_s for call in answered]).expected if answered else 0.0,
        repaid=(own, own + scale * _answered_after(first, sample.calls)),
    )


def _answered_after(stage: PlannedCall, calls: Sequence[PlannedCall]) -> int:
    """The paid calls of other stages that come after this stage's first call of the same seed."""
    begun: set[str] = set()
    count = 0
    for call in calls:
        if (call.role, call.task) == (stage.role, stage.task):
            begun.add(call.seed_id)
        elif call.seed_id in begun and call.answered:
            count += 1
    return count


def _seed_ids(sample: PlanSample) -> list[str]:
    return list(dict.fromkeys(call.seed_id for call in sample.calls))


def _range(per_seed: list[float], looked_at: int, seeds: int) -> Range:
    """An amount a seed, over all seeds: the mean, and two standard errors on either side."""
    mean = _mean(per_seed + [0.0] * (looked_at - len(per_seed)))
    return Range(mean.low * seeds, mean.expected * seeds, mean.high * seeds)


def _mean(values: Sequence[float]) -> Range:
    mean = statistics.fmean(values)
    error = 2 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Range(max(0.0, mean - error), mean, mean + error)


def _times(a: Range, b: Range) -> Range:
    return Range(a.low * b.low, a.expected * b.expected, a.high * b.high)
