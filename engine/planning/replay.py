"""Seeds outside their run: the rows that a recipe and its validators make of them, with an `ask` of one's own.

    seed -> recipe -> validators, their `ask` answered by `get(request)` -> rows, or the first request without a reply

Promise: with `StoredReplies` nothing is sent, paid or written. Price: the CPU of the recipe and its checks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from foil.engine.errors import FoilError
from foil.engine.flow.ask import AnswersRequests, SeedAsk
from foil.engine.flow.seed_outcome import PartName, SeedClock, SeedOutcome, empty_topic, run_guarded, with_outcome
from foil.engine.protocols import Cost, Model, Parts, recipe_for
from foil.engine.requests import Reply, Request
from foil.engine.topic import Call, Seed, Topic, Verdict

_PATIENCE_S = 600.0
"""Seconds of CPU that a recipe or a judge may take for one seed."""


class UnansweredError(FoilError):
    """No reply to a request is stored."""


@dataclass(slots=True)
class StoredReplies:
    """Answers from what is stored, and notes what was asked and answered. `unanswered` is the request that ended it."""

    get: Callable[[Request], Reply | None]
    requests: dict[str, tuple[Model, Request]] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    unanswered: tuple[Model, Request] | None = None

    async def answer(self, model: Model, request: Request) -> Reply:
        """The stored reply. Raises UnansweredError."""
        self.requests[request.id] = model, request
        reply = self.get(request)
        if reply is None:
            self.unanswered = self.unanswered or (model, request)
            raise UnansweredError(f"nothing has answered {request.task} of {request.affinity!r} yet")
        self.replies[request.id] = reply
        return reply


async def replay_seed(
    parts: Parts, seed: Seed, get: Callable[[Request], Reply | None]
) -> tuple[list[Topic], StoredReplies]:
    """The rows of a seed from stored replies, none where a reply is missing; and what was asked."""
    stored = StoredReplies(get)
    try:
        rows = await rows_of(parts, seed, stored)
    except FoilError:  # a judge that its canaries found unreliable
        rows = []
    return ([] if stored.unanswered else rows), stored


async def rows_of(parts: Parts, seed: Seed, replies: AnswersRequests) -> list[Topic]:
    """The rows of a seed, as engine.flow.partition_flow makes them of one that no screen rejects."""
    recipe, clock, ask = recipe_for(parts.recipe, seed), SeedClock(_PATIENCE_S), _ask(parts, seed, replies)
    topics: Sequence[Topic] | SeedOutcome = await run_guarded(recipe(seed, ask), PartName("recipe", recipe.name), clock)
    if isinstance(topics, SeedOutcome):
        return [with_outcome(empty_topic(recipe.name, seed), (), ask.calls, topics)]
    return [await _validated(parts, topic, ask.calls, _ask(parts, seed, replies)) for topic in topics]


async def _validated(parts: Parts, topic: Topic, calls: Sequence[Call], ask: SeedAsk) -> Topic:
    if topic.status != "accepted" or topic.verdicts:
        return topic
    verdicts: list[Verdict] = []
    failure, unjudged = None, None
    for validator in sorted(parts.validators, key=lambda validator: validator.cost):
        if validator.cost != Cost.MODEL:
            topic, new = validator(topic)
            verdicts.extend(new)
            continue
        if any(verdict.outcome == "reject" for verdict in verdicts):
            continue
        unjudged = unjudged or topic
        checked = await run_guarded(
            validator(topic, ask), PartName("validator", validator.name), SeedClock(_PATIENCE_S)
        )
        if isinstance(checked, SeedOutcome):
            failure = checked
            break
        topic, new = checked
        verdicts.extend(new)
    return with_outcome(topic, verdicts, [*calls, *ask.calls], failure, unjudged=unjudged)


def _ask(parts: Parts, seed: Seed, replies: AnswersRequests) -> SeedAsk:
    """An `ask` for the seed, with the turns that the run allows."""
    return SeedAsk(
        replies, parts.models, parts.parse, corrections=parts.corrections, candidates=parts.candidates, seed_id=seed.id
    )
