"""Calls to a bucket that a drill meddles with: a process that dies at one, and a store that tells before each."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import obstore

from foil.engine.storage.object_store import PATIENCE_S, ObjectStore

_VERBS = ("put", "get", "get_range", "head", "delete")


def die_at_call(k: int, *, after: bool) -> None:
    """This process is killed at the k-th call that it makes to a bucket: before it, or once the store has done it."""
    passed, turn = itertools.count(1), threading.Lock()

    def dies() -> bool:
        with turn:
            return next(passed) == k

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            here = dies()
            if here and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*args, **options)
            finally:  # it may have been refused, or found nothing
                if here:
                    os.kill(os.getpid(), signal.SIGKILL)

        return made

    def pages(*args: Any, **options: Any) -> Iterator[Any]:
        found = iter(listed(*args, **options))
        ask = deadly(lambda: next(found, None))
        while (page := ask()) is not None:
            yield page

    listed = obstore.list
    for verb in _VERBS:
        setattr(obstore, verb, deadly(getattr(obstore, verb)))
    obstore.list = pages  # type: ignore[assignment]


class HookedBucket(ObjectStore):
    """Calls `before` ahead of every attempt at a call to the bucket, from whichever thread makes it."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        super().__init__(url, patience_s=patience_s)

    def before(self) -> None:
        raise NotImplementedError

    def _client(self) -> Any:
        self.before()
        return super()._client()


class EntryBucket(ObjectStore):
    """Does something just before a commit entry is put, when all files of its partition are in place."""

    def __init__(self, url: str, before_entry: Callable[[], None]) -> None:
        super().__init__(url)
        self._before_entry = before_entry

    def put_if_absent(self, key: str, data: bytes) -> bytes | None:
        if key.startswith("commits/"):
            self._before_entry()
        return super().put_if_absent(key, data)
