"""Where the `ask` of a seed gets its replies: the journal, what other runs have paid for, or the model.

Promise: a reply is durable before it is parsed; a request once answered is not sent again, in this run or a later one;
equal requests of one partition are sent once, however many seeds ask at the same time.
Price: hashing the request, one journal record; 0.1 ms of CPU or so.
"""

import asyncio
import time
from weakref import WeakValueDictionary

from foil.engine.crash_points import crash_point
from foil.engine.errors import STOPPING, FoilError, ModelError
from foil.engine.flow.budget import BudgetClient, Spend, spend_of
from foil.engine.flow.journal import PartitionJournal
from foil.engine.keys import scrub_reply
from foil.engine.models import retry
from foil.engine.protocols import Model, PaidReplies
from foil.engine.requests import Reply, Request, estimate_tokens
from foil.engine.storage.lease import check_fence, lost_folder
from foil.engine.telemetry.spans import request_span


class ReplyService:
    """Answers the requests of one partition's seeds. `owner` names the worker that spends.

    `stop_error` is the error that ends the run, so that no recipe can swallow it and go on. `asked_seeds` are the seeds
    for which the journal did not have every reply.
    """

    def __init__(
        self, journal: PartitionJournal, budget: BudgetClient, owner: str, paid: PaidReplies | None = None
    ) -> None:
        self._journal, self._budget, self._owner, self._paid_elsewhere = journal, budget, owner, paid
        self.stop_error: FoilError | None = None
        self.answers = 0
        self._sent_at: dict[str, float] = {}
        self.asked_seeds: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, model: Model, request: Request) -> Reply:
        """The journalled reply, or a new one, durable. Raises ModelError, BudgetSpentError, JournalError."""
        lock = self._locks.setdefault(request.id, asyncio.Lock())
        async with lock:
            try:
                stored = self._journal.get(request.id) or await self._reuse(request)
                return scrub_reply(stored) if stored else await self._pay(model, request)
            except STOPPING as error:
                self.stop_error = error
                raise

    def oldest_request_s(self) -> float:
        """The age of the oldest request that is not answered yet, in seconds; its retries do not make it younger."""
        return time.monotonic() - min(self._sent_at.values(), default=time.monotonic())

    async def _reuse(self, request: Request) -> Reply | None:
        """What another run has paid for."""
        reply = self._paid_elsewhere.get(request) if self._paid_elsewhere else None
        if reply:
            await self._journal.put(scrub_reply(reply))
        return reply

    async def _pay(self, model: Model, request: Request) -> Reply:
        self.asked_seeds.add(request.affinity)
        most = estimate_tokens(request)
        reservation = await self._budget.reserve(self._owner, sum(most), model.traits.price(*most))
        spent = reservation
        try:
            reply = await self._send(model, request)
            spent = spend_of(reply)
        except ModelError as error:
            spent = reservation if error.unsure else Spend()
            raise
        finally:
            unasked = model.unasked_replies()
            for each in unasked:  # before the first wait, which a stop may end
                self._journal.note_unasked(each)
            await self._budget.settle(self._owner, reservation, sum(map(spend_of, unasked), spent))
            if unasked:
                await self._journal.synced()
        return reply

    async def _send(self, model: Model, request: Request) -> Reply:
        await check_fence()
        if not model.traits.remembers:
            await self._journal.asked(request.id)
        self._sent_at[request.id] = time.monotonic()
        try:
            with request_span(model.traits.provider, request) as span:
                reply = await retry.complete(model, request)
                span.answered(reply)
        except ModelError as error:
            if not error.unsure:
                self._journal.refused(request.id)
            raise
        finally:
            del self._sent_at[request.id]
        self.answers += 1
        crash_point("ask.answered")
        if reply.request_id != request.id:
            raise ModelError(
                f"model {model.name!r} answered {reply.request_id!r} when asked {request.id!r}; mend the model"
            )
        reply = scrub_reply(reply)
        await self._journal.put(reply)
        if await lost_folder():  # whoever has it now may have asked the same
            await self._journal.asked(request.id)
        return reply
