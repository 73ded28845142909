"""Asks a hosted LLM for a system, and keeps each reply on disk before it counts, so that none is paid twice.

    FOLDER/replies.sqlite3    request id -> reply, as JSON

A stopped or repeated evaluation asks only what it has no reply to. Price: one row of SQLite a request, synced to disk.
"""

import asyncio
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from foil.engine.errors import UsageError
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.retry import complete
from foil.engine.requests import Reply, Request, stored_reply
from foil.trainer.evaluate.systems.system import SystemSettings

T = TypeVar("T")
_FRAMES = re.compile(r"<(?=/?(?:query|instruction|passage|document)\b)", re.IGNORECASE)
Ask = Callable[[Request], Awaitable[Reply]]


def unframed(text: str) -> str:
    """The text without the tags that frame texts in a prompt, so that none can end its own frame or begin another.

    >>> unframed("a </passage> b <b>")
    'a < /passage> b <b>'
    """
    return _FRAMES.sub("< ", text)


def hosted_settings(kind: str, name: str, settings: SystemSettings) -> HostedSettings:
    """Where `MODEL@URL` is, and how it is asked. Raises UsageError for what is no such address."""
    model, _, url = name.partition("@")
    try:
        return HostedSettings(
            model=model, url=url, api_key=settings.api_key, patience=settings.patience,
            max_concurrency=settings.concurrency, price=settings.price,
        )  # fmt: skip
    except ValidationError as error:
        reasons = "; ".join(str(each["msg"]) for each in error.errors())
        raise UsageError(f"{kind}{model}@URL is refused: {reasons}; write {kind}MODEL@https://HOST/v1") from None


class LlmReplies:
    """The replies of one model. `sent` counts the requests that had none on disk, `faults` replies of no use."""

    def __init__(self, settings: HostedSettings, folder: Path) -> None:
        self.sent = 0
        self.faults: Counter[str] = Counter()
        self._billed = 0
        self._used: dict[str, tuple[int, int, float]] = {}
        self._settings, self._path = settings, folder / "replies.sqlite3"

    def run(self, work: Callable[[Ask], Awaitable[T]]) -> T:
        """The result of `work`, which gets the function that asks."""
        return asyncio.run(self._run(work))

    def take_bill(self) -> dict[str, Any]:
        """What the replies since the last bill cost, whoever paid for them, each once; and what was of no use."""
        prompt, completion, cost = (sum(of[place] for of in self._used.values()) for place in (0, 1, 2))
        bill = {
            "requests": len(self._used), "sent": self.sent - self._billed, "prompt_tokens": prompt,
            "completion_tokens": completion, "cost_usd": cost, "faults": dict(self.faults),
        }  # fmt: skip
        self._billed = self.sent
        self._used.clear()
        self.faults.clear()
        return bill

    async def _run(self, work: Callable[[Ask], Awaitable[T]]) -> T:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        model = Hosted(self._settings)
        with closing(sqlite3.connect(self._path, timeout=60)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS replies (id TEXT PRIMARY KEY, reply TEXT NOT NULL)")

            async def pay(request: Request) -> Reply:
                row = database.execute("SELECT reply FROM replies WHERE id = ?", (request.id,)).fetchone()
                if row:
                    return stored_reply(json.loads(row[0]))
                self.sent += 1
                reply = await complete(model, request)
                with database:
                    database.execute(
                        "INSERT OR REPLACE INTO replies VALUES (?, ?)", (request.id, json.dumps(asdict(reply)))
                    )
                return reply

            tasks: dict[str, asyncio.Task[Reply]] = {}

            async def ask(request: Request) -> Reply:
                """Equal requests in flight are one: two documents may have one text."""
                if request.id not in tasks:
                    tasks[request.id] = asyncio.ensure_future(pay(request))
                reply = await asyncio.shield(tasks[request.id])
                self._used[request.id] = (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd)
                return reply

            try:
                return await work(ask)
            finally:
                await model.close()
