"""Replies a second that one worker makes durable: on a disk, and in a bucket with its puts counted.

Each reply has 1,500 characters; so many requests wait at any time, spread over 8 open partitions, and each writes that
it was asked before. Then another process opens one partition: of the closed stream, and of the same stream torn.

    python -m benchmarks.journal [--replies 200000] [--waiting 2000] [--folder DIR] [--quick] [--json]
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from foil.engine.flow.journal import Journal
from foil.engine.flow.journal_reading import JournalIndex
from foil.engine.requests import Reply
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.store import Appender, Store
from tests.support.storage import servers

PARTITIONS = 8
TEXT = "What one reply says. " * 71


class Counted:
    """A store whose streams count their syncs: one fsync on a disk, at least one put in a bucket."""

    def __init__(self, store: Store) -> None:
        self._store, self.syncs = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, key: str) -> Appender:
        return _Counting(self, self._store.append(key))


class _Counting:
    def __init__(self, counted: Counted, appender: Appender) -> None:
        self._counted, self._appender = counted, appender
        self.write, self.close = appender.write, appender.close

    def sync(self) -> None:
        self._counted.syncs += 1
        self._appender.sync()


def measure(store: Store, replies: int, waiting: int) -> dict[str, float]:
    """Puts the replies, and opens a partition again."""
    counted: Any = Counted(store)
    journal = Journal(counted, "00000001")
    parts = [journal.open(number, "d1ge5750" * 256, again=False) for number in range(PARTITIONS)]
    numbers = iter(range(replies))

    async def put_in_turn() -> None:
        for number in numbers:
            part = parts[number % PARTITIONS]
            await part.asked(f"{number:040d}")
            await part.put(Reply(f"{number:040d}", TEXT, "model", prompt_tokens=900, completion_tokens=350))

    async def put_all() -> None:
        await asyncio.gather(*(put_in_turn() for _ in range(waiting)))

    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(put_all())
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    figures = {
        "replies/s": replies / seconds,
        "syncs/s": counted.syncs / seconds,
        "CPU us a reply": cpu / replies * 1e6,
        "s to open a partition, torn": opening(store),
    }
    journal.close()
    return figures | {"s to open a partition, closed": opening(store)}


def opening(store: Store) -> float:
    """Seconds until the replies of one partition are there, in a process that knows nothing yet."""
    began = time.perf_counter()
    assert JournalIndex(store).replies(3)
    return time.perf_counter() - began


def in_a_bucket(folder: Path, replies: int, waiting: int) -> dict[str, float]:
    """Against a server on loopback."""
    from foil.engine.storage.object_store import ObjectStore

    with servers.localbucket(folder) as url:
        os.environ.update(servers.environment(url))
        return measure(ObjectStore(f"s3://{servers.BUCKET}/run", folder / "mirror"), replies, waiting)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--replies", type=int, default=200_000)
    options.add_argument("--waiting", type=int, default=2_000)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--quick", action="store_true", help="20,000 replies")
    options.add_argument("--json", action="store_true")
    args = options.parse_args()
    replies = 20_000 if args.quick else args.replies
    with tempfile.TemporaryDirectory(prefix="foil-journal-", dir=args.folder) as name:
        by_place = {"disk": measure(LocalStore(Path(name) / "run"), replies, args.waiting)}
        if servers.program("localbucket"):
            by_place["bucket"] = in_a_bucket(Path(name) / "bucket", replies, args.waiting)
    for place, figures in by_place.items():
        for figure, value in figures.items():
            print(f"{place:8} {figure:32} {value:12,.2f}")
    if args.json:
        print(json.dumps(by_place))


if __name__ == "__main__":
    main()
