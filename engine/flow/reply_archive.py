"""The replies that other runs paid for, read from their journals (`foil run --reuse OUT`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from foil.engine.flow.journal_reading import bytes_of, lines_of, streams_of
from foil.engine.flow.journal_records import checked, parsed
from foil.engine.requests import Reply, Request, stored_reply
from foil.engine.storage.store import Store


class ReplyArchive:
    """The replies in the journals of other runs, found by request id (`foil run --reuse OUT`).

    Price: their streams are read once, at the first question; then 200 bytes of memory a reply, and one read each.
    """

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._places: dict[str, tuple[Store, str, int, int]] | None = None

    def get(self, request: Request) -> Reply | None:
        """The reply, marked as reused; None if no run has it."""
        return self.find(request.id)

    def find(self, request_id: str) -> Reply | None:
        """The same by the request's id."""
        if self._places is None:
            self._places = dict(chain.from_iterable(map(_reply_places, self._stores)))
        if request_id not in self._places:
            return None
        store, key, start, length = self._places[request_id]
        record = checked(bytes_of(store, key, start, length))
        return replace(stored_reply(parsed(record[1])["reply"]), reused=True) if record else None


def _reply_places(store: Store) -> Iterator[tuple[str, tuple[Store, str, int, int]]]:
    for stream in streams_of(store):
        for at, line in lines_of(store, stream.key):
            record = checked(line)
            if record and record[1].startswith(b'{"reply":'):
                yield parsed(record[1])["reply"]["request_id"], (store, stream.key, at, len(line))
