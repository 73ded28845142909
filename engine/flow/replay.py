"""Seeds once more, from stored replies alone: which prompts they were asked, and where no reply is there yet.

    seed -> recipe -> validators, their `ask` answered by `get(request id)` -> the requests, up to the first without one

Promise: nothing is sent, paid or written. Price: the CPU of the recipe and its checks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.errors import FoilError
from engine.flow.ask import SeedAsk
from engine.protocols import Ask, Cost, Model, Parts, recipe_for
from engine.requests import Reply, Request
from engine.topic import Seed, Topic, Verdict


class UnansweredError(FoilError):
    """No reply to a request is stored."""


@dataclass(slots=True)
class StoredReplies:
    """Answers from what is stored, and notes what was asked. `unanswered` is the request that ended it."""

    get: Callable[[str], Reply | None]
    asked: dict[str, tuple[Model, Request]] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    unanswered: Request | None = None

    async def answer(self, model: Model, request: Request) -> Reply:
        """The stored reply. Raises UnansweredError."""
        self.asked[request.id] = model, request
        reply = self.get(request.id)
        if reply is None:
            self.unanswered = self.unanswered or request
            raise UnansweredError(f"nothing has answered {request.task} of {request.affinity!r} yet")
        self.replies[request.id] = reply
        return reply


async def replay_seed(parts: Parts, seed: Seed, get: Callable[[str], Reply | None]) -> StoredReplies:
    """Runs the recipe and the validators on stored replies, as far as they go. What they raise ends the seed."""
    stored = StoredReplies(get)
    try:
        await run_seed(parts, seed, lambda: seed_ask(parts, stored, seed))
    except Exception:  # noqa: BLE001 - whatever ended the seed in its run ends it here
        return stored
    return stored


def seed_ask(parts: Parts, replies: StoredReplies, seed: Seed) -> SeedAsk:
    """An `ask` for the seed, with the turns that the run allows."""
    return SeedAsk(
        replies, parts.models, parts.parse, corrections=parts.corrections, candidates=parts.candidates, seed_id=seed.id
    )


async def run_seed(parts: Parts, seed: Seed, new_ask: Callable[[], Ask]) -> None:
    """The topics of a seed through the validators, cheap to dear, as engine.flow.partition_flow has them."""
    for topic in await recipe_for(parts.recipe, seed)(seed, new_ask()):
        await _validate(parts, topic, new_ask())


async def _validate(parts: Parts, topic: Topic, ask: Ask) -> None:
    verdicts: list[Verdict] = []
    for validator in sorted(parts.validators, key=lambda validator: validator.cost):
        new: Sequence[Verdict]
        if validator.cost == Cost.MODEL:
            if any(verdict.outcome == "reject" for verdict in verdicts):
                return
            topic, new = await validator(topic, ask)
        else:
            topic, new = validator(topic)
        verdicts.extend(new)
