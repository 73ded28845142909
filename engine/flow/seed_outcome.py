"""The boundary around one seed: what a recipe, validator or model raises becomes a failed topic here.

Promise: equal causes give equal rows (no memory address, no machine path in a detail), and a row that no shard can
hold is replaced by one that can. Price: nothing where nothing goes wrong.
"""

import asyncio
import re
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from foil.engine.errors import (
    STOPPING,
    CutPromptError,
    CutReplyError,
    DiscardedReplyError,
    FilteredRequestError,
    ModelError,
    OversizeReplyError,
    RefusedRequestError,
    Rejected,
    TransientModelError,
    UnreadableReplyError,
    UnstorableTopicError,
    WithheldReplyError,
)
from foil.engine.ids import content_id
from foil.engine.telemetry.json_logs import add_log_facts
from foil.engine.topic import Call, Seed, Status, Topic, Verdict, topic_id

T = TypeVar("T")
_DETAIL_CHARACTERS = 2000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_REASONS: dict[type[BaseException], str] = {
    CutPromptError: "cut_prompt",
    CutReplyError: "cut_reply",
    WithheldReplyError: "withheld_reply",
    UnreadableReplyError: "unreadable_reply",
    FilteredRequestError: "filtered_request",
    RefusedRequestError: "refused_request",
    OversizeReplyError: "oversize_reply",
    DiscardedReplyError: "unreadable_reply",
    TransientModelError: "model_unavailable",
    ModelError: "model_error",
}


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """How a topic ended: its status, the reason code, and what a reader needs to understand it."""

    status: Status
    reason: str = ""
    detail: str = ""


class SeedClock:
    """The seconds that one seed may still take. It stands still while the seed waits for a model, whose waits end by
    themselves: a queue or a provider's pause must not fail a seed.
    """

    def __init__(self, seconds: float) -> None:
        self._left, self._waits = seconds, 0
        self._running: asyncio.Timeout | None = None

    async def __aenter__(self) -> asyncio.Timeout:
        """Starts the clock, which raises TimeoutError inside when the time is up."""
        self._running = timeout = asyncio.timeout_at(asyncio.get_running_loop().time() + self._left)
        return await timeout.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        timeout = self._running
        assert timeout
        if (when := timeout.when()) is not None:  # else an ask is still pending, and noted what is left
            self._left = when - asyncio.get_running_loop().time()
        self._running, self._waits = None, 0
        await timeout.__aexit__(*error)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The clock stands still inside."""
        timeout, loop = self._running, asyncio.get_running_loop()
        if timeout is None:
            yield
            return
        if not self._waits:
            self._left = (timeout.when() or loop.time()) - loop.time()
            timeout.reschedule(None)
        self._waits += 1
        try:
            yield
        finally:
            if timeout is self._running:
                self._waits -= 1
                if not self._waits and not timeout.expired():
                    timeout.reschedule(loop.time() + self._left)


_NO_CLOCK = nullcontext()


@dataclass(frozen=True, slots=True)
class PartName:
    """A recipe or a validator, as errors and logs name it."""

    kind: Literal["recipe", "validator"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


async def run_guarded(work: Awaitable[T], part: PartName, clock: SeedClock | None) -> T | SeedOutcome:
    """The result of the work of a part, or how it failed; work that never waits needs no clock.

    The one place where every exception is caught; what ends the whole run (engine.errors.STOPPING) passes.
    """
    timeout: asyncio.Timeout | None = None
    add_log_facts(stage=str(part))
    try:
        async with clock or _NO_CLOCK as timeout:
            return await work
    except STOPPING:
        raise
    except Rejected as decision:
        return SeedOutcome("rejected", decision.reason, decision.detail)
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        return _failure(error, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever one seed raises must not reach another
        if timeout is not None and timeout.expired():
            return SeedOutcome("failed", "timeout", f"{part}: the seed took longer than `runtime.seed_timeout_s`")
        return _failure(error, part)


def _failure(error: BaseException, part: PartName) -> SeedOutcome:
    reason = next((code for cause, code in _REASONS.items() if isinstance(error, cause)), f"{part.kind}_error")
    text = _ADDRESS.sub("", f"{part}: {type(error).__name__}: {error}")
    return SeedOutcome("failed", reason, text[:_DETAIL_CHARACTERS])


def empty_topic(recipe: str, seed: Seed) -> Topic:
    """The topic of a seed before anything was made of it."""
    return Topic(
        id=topic_id(recipe, seed),
        seed_id=seed.id,
        corpus=seed.corpus,
        recipe=recipe,
        query=seed.query,
        licence=seed.licence,
        redistributable=seed.redistributable,
    )


def with_outcome(
    topic: Topic,
    verdicts: Sequence[Verdict],
    calls: Sequence[Call],
    failure: SeedOutcome | None = None,
    *,
    unjudged: Topic | None = None,
) -> Topic:
    """The topic with its verdicts, calls and status: failed if something failed, else rejected if a verdict rejects.

    One that is not accepted has the content of `unjudged`, where that is given.
    """
    rejecting = next((verdict for verdict in verdicts if verdict.outcome == "reject"), None)
    outcome = failure or (
        SeedOutcome("rejected", rejecting.reason, rejecting.evidence) if rejecting else SeedOutcome("accepted")
    )
    return replace(
        topic if outcome.status == "accepted" else unjudged or topic,
        verdicts=tuple(verdicts),
        calls=tuple(calls),
        status=outcome.status,
        reason=outcome.reason,
        detail=outcome.detail,
    )


def unstorable_row(topic: Topic, error: UnstorableTopicError, position: int) -> Topic:
    """The row in place of a topic that no shard can hold, under an id of its own. Its calls stay, made storable.

    Raises the error again if the topic is such a row already.
    """
    if topic.reason == "unstorable":
        raise error
    return Topic(
        id=content_id("unstorable", _plain(topic.id), str(position)),
        seed_id=_plain(topic.seed_id),
        corpus=_plain(topic.corpus),
        recipe=topic.recipe,
        query=_plain(topic.query),
        calls=tuple(replace(call, reply_text=_plain(call.reply_text)) for call in topic.calls),
        status="failed",
        reason="unstorable",
        detail=_plain(error.problem)[:_DETAIL_CHARACTERS],
        licence=_plain(topic.licence),
        redistributable=topic.redistributable,
    )


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
