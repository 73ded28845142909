"""The replies that other runs paid for, from their journals and from their table `calls` (`foil run --reuse OUT`).

A journal has every reply as it came. `foil gc` removes it after 30 days; then the rows have the text of one choice,
without logprobs, so a request that asks for more than that is not answered from them. Nor is one whose prompt was cut.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.commits.stored_rows import TablePart
from foil.engine.errors import NoRunError
from foil.engine.flow.journal_reading import bytes_of, lines_of, streams_of
from foil.engine.flow.journal_records import checked, parsed
from foil.engine.requests import Reply, Request, stored_reply
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import Store

_PARTS_HELD = 4
_CUT = "cut_prompt"
_COLUMNS = (
    "request_id", "model", "finish_reason", "prompt_tokens", "completion_tokens", "cost_usd", "reply_text", "fault",
)  # fmt: skip


class ReplyArchive:
    """Implements `engine.protocols.PaidReplies` over the folders of other runs.

    Price: their journals and the ids of their calls are read once, at the first question; then 200 bytes of memory and
    one read a reply. The calls of a partition are read as a whole, and held while the next questions are about them.
    """

    def __init__(self, runs: Sequence[Path]) -> None:
        self._runs = runs
        self._in_journals: dict[str, tuple[Store, str, int, int]] | None = None
        self._in_rows: dict[str, TablePart] | None = None
        self._replies_of = lru_cache(_PARTS_HELD)(_replies_of)

    def get(self, request: Request) -> Reply | None:
        """The reply, marked as reused; None if no run has it, or not all that the request asks for."""
        return self.find(request.id) or self._from_rows(request)

    def find(self, request_id: str) -> Reply | None:
        """The reply as a journal has it, with its seconds; None if none has it."""
        if self._in_journals is None:
            self._in_journals = {name: place for run in self._runs for name, place in _reply_places(open_store(run))}
        if request_id not in self._in_journals:
            return None
        store, key, start, length = self._in_journals[request_id]
        record = checked(bytes_of(store, key, start, length))
        return replace(stored_reply(parsed(record[1])["reply"]), reused=True) if record else None

    def _from_rows(self, request: Request) -> Reply | None:
        if request.params.get("n", 1) != 1 or request.params.get("logprobs"):
            return None
        if self._in_rows is None:
            journalled = self._in_journals or {}
            parts = ((name, part) for run in self._runs for part in _parts_of(run) for name in _ids_in(part))
            self._in_rows = {name: part for name, part in parts if name not in journalled}
        part = self._in_rows.get(request.id)
        return self._replies_of(part).get(request.id) if part else None


def _reply_places(store: Store) -> Iterator[tuple[str, tuple[Store, str, int, int]]]:
    for stream in streams_of(store):
        for at, line in lines_of(store, stream.key):
            record = checked(line)
            if record and record[1].startswith(b'{"reply":'):
                yield parsed(record[1])["reply"]["request_id"], (store, stream.key, at, len(line))


def _parts_of(run: Path) -> list[TablePart]:
    with suppress(NoRunError):
        return load_snapshot(run, None).parts("calls")
    return []


def _ids_in(part: TablePart) -> list[str]:
    ids: list[str] = part.read(["request_id"]).column("request_id").to_pylist()
    return ids


def _replies_of(part: TablePart) -> dict[str, Reply]:
    rows: list[dict[str, Any]] = part.read(_COLUMNS).to_pylist()
    whole = (row for row in rows if not row.pop("fault").startswith(_CUT))
    return {row["request_id"]: Reply(text=row.pop("reply_text"), reused=True, **row) for row in whole}
