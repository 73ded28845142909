"""A bucket in memory under the product's own `ObjectStore`: what obstore is asked for is done here, one call at a time.

A create is refused where the key stands, a put is whole or not at all, a listing shows every put before it. The answer
of any call may be lost after the store did it, and a call takes its time.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import obstore
import pytest
from obstore import exceptions

from foil.datasets_out.commits import log, verify
from foil.engine.storage import object_store
from foil.engine.storage.object_store import ObjectStore
from tests.support.simulator.disk import KilledError

_LOST, _SLOW = 0.02, 0.03
_MOST_S = 0.4
_PATIENCE_S = 3.0
"""The clock of a simulated process stands still for all of it while a call waits, so that it must not wait for long."""


class SimulatedBucket:
    """`before(call, key)` is asked before every call: it may raise an OSError, or KilledError, whose share says whether
    the request had left. `wait(seconds)` moves the clock that `now()` tells.
    """

    def __init__(
        self, before: Callable[[str, str], float], wait: Callable[[float], None], now: Callable[[], float], dice: Random
    ) -> None:
        self.objects: dict[str, bytes] = {}
        self._written: dict[str, float] = {}
        self._before, self._wait, self._now, self._dice = before, wait, now, dice
        self.lost_answers = self.slow_calls = 0

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Every `ObjectStore` of this process talks to this bucket, and none of its threads runs beside another."""
        for name in ("put", "get", "get_range", "head", "list", "delete"):
            patch.setattr(obstore, name, getattr(self, f"_{name}"))
        patch.setattr(ObjectStore, "_client", lambda _store: self)
        patch.setitem(ObjectStore.__init__.__kwdefaults__, "patience_s", _PATIENCE_S)
        patch.setattr(object_store, "ThreadPoolExecutor", _InTurn)
        patch.setattr(log, "ThreadPoolExecutor", _InTurn)
        patch.setattr(verify, "ThreadPoolExecutor", _InTurn)

    def show(self, folder: Path) -> None:
        """Writes all objects as files into an empty folder."""
        for key, data in self.objects.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def _call(self, call: str, key: str, act: Callable[[], Any]) -> Any:
        try:
            self._before(call, key)
        except KilledError as killed:
            if killed.share:
                act()
            raise
        if self._dice.random() < _SLOW:
            self.slow_calls += 1
            self._wait(self._dice.uniform(0.01, _MOST_S))
        done = act()
        if self._dice.random() < _LOST:
            self.lost_answers += 1
            raise exceptions.GenericError(f"the answer to {call} {key} was lost")
        return done

    def _put(self, _client: Any, key: str, data: Any, *, mode: str = "overwrite", **_options: Any) -> None:
        raw = data.read_bytes() if isinstance(data, os.PathLike) else bytes(data)

        def put() -> None:
            if mode == "create" and key in self.objects:
                raise exceptions.AlreadyExistsError(key)
            self.objects[key], self._written[key] = raw, self._now()

        self._call("put", key, put)

    def _get(self, _client: Any, key: str) -> Any:
        data = self._call("get", key, lambda: self._there(key))
        return SimpleNamespace(bytes=lambda: data)

    def _get_range(self, _client: Any, key: str, *, start: int, length: int) -> bytes:
        def read() -> bytes:
            if start >= len(data := self._there(key)):
                raise exceptions.GenericError(f"{key} has {len(data)} bytes, and not {start}")
            return data[start : start + length]

        return bytes(self._call("get", key, read))

    def _head(self, _client: Any, key: str) -> dict[str, Any]:
        return {"size": self._call("get", key, lambda: len(self._there(key)))}

    def _delete(self, _client: Any, key: str) -> None:
        self._call("delete", key, lambda: self.objects.pop(key, None))

    def _list(self, _client: Any, prefix: str | None, *, offset: str | None) -> Iterator[list[dict[str, Any]]]:
        start = f"{prefix}/" if prefix else ""

        def page() -> list[dict[str, Any]]:
            keys = sorted(key for key in self.objects if key.startswith(start) and key > (offset or ""))
            when = {key: datetime.fromtimestamp(self._written[key], UTC) for key in keys}
            return [{"path": key, "size": len(self.objects[key]), "last_modified": when[key]} for key in keys]

        yield self._call("list", prefix or "", page)

    def _there(self, key: str) -> bytes:
        if key not in self.objects:
            raise FileNotFoundError(key)
        return self.objects[key]


class _InTurn:
    """A pool whose work is done at once, by whoever asks for it."""

    def __init__(self, *_args: Any) -> None:
        pass

    def __enter__(self) -> "_InTurn":
        return self

    def __exit__(self, *_args: object) -> None:
        pass

    def map(self, work: Callable[..., Any], *items: Any) -> Iterator[Any]:
        return iter([work(*each) for each in zip(*items, strict=False)])

    def submit(self, work: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future
