"""What a job will ask, and what that costs, before it asks anything.

    seeds in stream order -> a sample by hash -> recipe and judges -> the calls of each stage, with their lengths

Their `ask` answers with the replies that are paid already, so that the prompts are the real ones. A seed's plan ends at
the first request that nothing has answered: what would be asked after it is not known, and its stage is told as
`unseen`. For seeds that are sampled it really asks, and the run reuses the replies.

Promise: nothing is sent unless a sample is wanted. Price: the seed stream is read once, the sample rendered.
"""

import heapq
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import BaseModel

from engine.errors import STOPPING, FoilError, RefusedRequestError, Rejected
from engine.flow.ask import ReplyService, SeedAsk, make_request, model_for
from engine.flow.budget import BudgetClient
from engine.flow.journal import Journal
from engine.flow.limits import Limits
from engine.ids import fraction_of
from engine.protocols import Answer, Ask, Cost, Model, Parts, Prompt, ReplyCheck
from engine.requests import Reply, Request, estimate_tokens
from engine.storage.opening import open_store
from engine.topic import Seed


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a sampled seed. Tokens are counted by a model where it answered (`answered`). Else those of the
    prompt are estimated from its characters, and those of the completion are all that it may use."""

    seed_id: str
    role: str
    task: str
    template: str
    answered: bool
    prompt_tokens: float
    completion_tokens: float
    latency_s: float = 0.0


@dataclass(slots=True)
class PlanSample:
    """What the sample showed: the seeds looked at, their calls, and what could not be asked. `unseen` are the tasks at
    which a seed's plan ended since no reply is there yet: what follows them is not in the plan."""

    looked_at: int
    calls: list[PlannedCall] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)


class _UnseenError(Exception):
    """A request that nothing has answered; the plan of its seed ends there. No FoilError: no recipe may catch it."""


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
            service = ReplyService if number < sample else _PaidReplies
            ask = _PlanAsk(parts, service(journal, budget, "plan", parts.paid), seed)
            try:
                await _run_seed(parts, seed, ask)
            except STOPPING:
                raise
            except (Rejected, _UnseenError):
                pass
            except Exception as error:  # noqa: BLE001 - one seed must not end the plan
                if isinstance(error, RefusedRequestError) or not isinstance(error, FoilError):
                    plan_sample.unanswered.add(str(error))
            finally:
                journal.close()
            plan_sample.calls += ask.planned
            plan_sample.unseen |= {call.task for call in ask.planned if not call.answered}
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


class _PaidReplies(ReplyService):
    """The replies that are paid already. Raises _UnseenError where there is none, and neither sends nor writes."""

    async def answer(self, model: Model, request: Request) -> Reply:  # noqa: ARG002 (it asks nobody)
        paid = self._paid_elsewhere
        if reply := self._journal.get(request.id) or (paid.get(request.id) if paid else None):
            return reply
        raise _UnseenError(request.task)


class _PlanAsk(SeedAsk):
    """An `ask` that notes its calls, correction turns among them. What it journals, the run will find."""

    def __init__(self, parts: Parts, replies: ReplyService, seed: Seed) -> None:
        super().__init__(
            replies,
            parts.models,
            parts.parse,
            corrections=parts.corrections,
            candidates=parts.candidates,
            seed_id=seed.id,
        )
        self.planned: list[PlannedCall] = []
        self._role_of: dict[str, str] = {}

    async def _ask(
        self, prompt: Prompt, answer: type[Answer], role: str, check: ReplyCheck[Answer] | None = None
    ) -> tuple[Answer, Reply]:
        self._role_of[prompt.task] = role
        return await super()._ask(prompt, answer, role, check)

    async def _reply(self, model: Model, prompt: Prompt, answer: type[BaseModel]) -> tuple[Request, Reply]:
        request = make_request(model, prompt, answer, self._seed_id)
        stage = self._seed_id, self._role_of[prompt.task], prompt.task, prompt.template
        try:
            reply = await self._replies.answer(model, request)
        except _UnseenError:
            tokens, most = estimate_tokens(request)
            self.planned.append(PlannedCall(*stage, False, tokens, most))
            raise
        tokens, written = reply.prompt_tokens, reply.completion_tokens
        self.planned.append(PlannedCall(*stage, True, tokens, written, reply.latency_s))
        return request, reply


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
    bounds = zip(counts.plain(), prompt.plain(), written.plain(), strict=True)
    usd = [calls * model.traits.price(*tokens) for calls, *tokens in bounds]
    own = len(answered) * scale
    return StageCost(
        role=first.role,
        task=first.task,
        template=first.template,
        calls=counts,
        prompt_tokens=_times(counts, prompt),
        completion_tokens=_times(counts, written),
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
