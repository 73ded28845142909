"""The seed stream, read in a process of its own where a run has workers: its driver never holds a seed.

    this process: split, screen, check against the past -> out/spool/EPOCH/PARTITION, as far ahead as bytes allow
    driver:       StoredPartition (index, size, digest, key), which it hands to a worker that is up
    worker:       load: the digest of the bytes is checked, then the seeds are unpickled

Promise: the partitions are those of engine.runtime.seed_stream, in its order. A reading process that dies is started
again; it reads the corpus from its start, screens included, writes only what the driver does not have yet, and refuses
a corpus that has changed meanwhile. `out/spool` is never needed again: it goes with the session, or with the next one.
Price: an interpreter more; each seed is written and read once, not synced. With `runtime.readers` the rows of a corpus
are parsed, and their negatives mined, by processes of its own, which end with it.
"""

import asyncio
import atexit
import hashlib
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from logging import getLogger
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from foil.engine.errors import CorruptDataError, FoilError, SeedsChangedError, SpoolError, portable
from foil.engine.flow.journal_reading import paid_seeds
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.ids import unpickled
from foil.engine.protocols import (
    CommitStore,
    DivisibleReader,
    Partition,
    PendingPartition,
    Screen,
    SeedReader,
    SketchingScreen,
)
from foil.engine.runtime.seed_stream import CountedSeeds, OnRead, PastStream, SeedRecord, split_into_partitions
from foil.engine.runtime.watchdog import relax_gc
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.storage.store import Store
from foil.engine.telemetry.json_logs import begin_logs

LOG = getLogger(__name__)
_FOLDER = "spool"
_DEATHS = 3
_REAP_S = 5.0
_TELL_S = 0.25
_UNKNOWN = -1
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class SeedSource:
    """Where the partitions of a run come from, and what they are held against. Goes to another process by pickle.

    `open` gives the reader and the screens, in the process that reads; `readers` others help it where they can.
    """

    open: Callable[[], tuple[SeedReader, Sequence[Screen]]]
    limits: Limits
    store: CommitStore
    journal: Store
    readers: int = 1

    def partitions(self, entries: Mapping[int, Mapping[str, Any]], on_read: OnRead) -> Iterator[Partition]:
        """The partitions, committed ones too, once they agree with the past. `entries`: what is committed.

        With `readers` a partition holds each seed as a PackedSeed until it is unpacked, or pickled.
        """
        records = {index: SeedRecord(**entry["facts"].get("seeds", {})) for index, entry in entries.items()}
        short, paid = self.store.short_partitions(), paid_seeds(self.journal, records.keys())
        ends = self.limits.accept is None
        past = PastStream(records, paid, self.store.plan(), ends=ends, grown=short is not None)
        reader, screens = self.open()
        if self.readers > 1 and isinstance(reader, DivisibleReader):
            sketches = [screen.sketch for screen in screens if isinstance(screen, SketchingScreen)]
            reader = reader.in_parallel(self.readers, sketches)
        seeds = CountedSeeds(reader, on_read)
        return past.check(split_into_partitions(seeds, screens, self.limits, short))


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A partition whose seeds lie under `key`, in `nbytes` bytes with this sha256. One that is committed has no key."""

    index: int
    size: int
    stream: str
    key: str = ""
    nbytes: int = 0
    sha256: str = ""
    store: Store | None = None

    async def load(self) -> Partition:
        """The partition with its seeds. Raises SpoolError, or CorruptDataError for other bytes than were written."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Partition:
        if self.store is None:
            raise FoilError(f"partition {self.index} is committed, and its seeds were asked for")
        place = f"{self.store.url}/{self.key}"
        try:
            data = self.store.get(self.key)
            problem = "" if data is not None else "it is not there"
        except OSError as error:
            data, problem = None, str(error)
        if data is None:
            raise SpoolError(
                f"the seeds of partition {self.index} cannot be read from {place} ({problem}); every worker must see "
                "`out`: see to the storage and run again"
            )
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise CorruptDataError(f"{place} is not what was written there; see to the storage and run again")
        partition: Partition = unpickled(data)
        return partition


def sweep_spool(store: Store, folder: str = _FOLDER) -> None:
    """Removes what dead sessions left there. Whoever does so must hold the folder."""
    with suppress(OSError):
        store.delete([each.key for each in store.list_objects(folder)])
    shutil.rmtree(store.folder / folder, ignore_errors=True)  # drafts too
    with suppress(OSError):
        (store.folder / _FOLDER).rmdir()


class SeedProcess:
    """An iterator over the partitions, for one thread at a time. The process starts with the first, after `open`.

    `on_read` hears now and then how many seeds were read, and at the end.
    """

    def __init__(self, source: SeedSource, runtime: RuntimeSettings, run: str, on_read: OnRead) -> None:
        self._source, self._runtime, self._run, self._on_read = source, runtime, run, on_read
        self._store: Store
        self._folder = ""
        self._process: BaseProcess | None = None
        self._pipe: Connection
        self._delivered: set[int] = set()
        self._reached = _Reached()
        self._all: Any = _SPAWN.Value("q", _UNKNOWN, lock=False)
        self._deaths, self._closed = 0, False
        self._sending, self._starting = threading.Lock(), threading.Lock()

    def open(self, store: Store, epoch: int) -> None:
        """Takes its folder for the session of this epoch."""
        self._store, self._folder = store, f"{_FOLDER}/{epoch:08d}"

    def __iter__(self) -> Iterator[PendingPartition]:
        return self

    def __next__(self) -> PendingPartition:
        """Raises what the reader raised, SpoolError, or FoilError where the process dies again and again."""
        while True:
            match self._receive():
                case StoredPartition() as partition:
                    self._note(partition)
                    return partition
                case int() as seeds, Ledger() as ledger:
                    self._on_read(seeds, ledger)
                case None:
                    raise StopIteration
                case error:
                    raise error

    def seeds(self) -> int | None:
        """All seeds of the stream, once the process has read it to its end, which is before they are made."""
        return None if self._all.value == _UNKNOWN else int(self._all.value)

    def committed(self, partition: PendingPartition) -> None:
        """Lets go of the seeds of a partition that is committed."""
        if isinstance(partition, StoredPartition):
            self._send(partition.key)

    def close(self) -> None:
        """Ends the process and removes the folder; whoever waits for a partition gets the end."""
        with self._starting:
            self._closed = True
            if self._process:
                self._process.kill()
                self._process.join()
                atexit.unregister(self._process.kill)
        sweep_spool(self._store, self._folder)

    def _receive(self) -> Any:
        while True:
            with self._starting:
                if self._closed:
                    raise FoilError("the session is over, and reads no more seeds")
                if self._process is None:
                    self._start()
            try:
                return self._pipe.recv()
            except (EOFError, OSError):
                self._clear_dead_process()

    def _note(self, partition: StoredPartition) -> None:
        self._delivered.add(partition.index)
        self._reached = max(self._reached, _Reached(partition.index, partition.stream))
        self._deaths = 0
        self._send(partition.nbytes)

    def _send(self, message: int | str) -> None:
        with self._sending, suppress(OSError):  # a dead process needs no message
            self._pipe.send(message)

    def _start(self) -> None:
        self._pipe, child_end = _SPAWN.Pipe()
        task = _Task(self._store, self._folder, frozenset(self._delivered), self._reached, self._runtime, self._run)
        self._process = _SPAWN.Process(
            target=_run_process, args=(child_end, self._source, task, self._all), name="seeds"
        )
        self._process.start()  # no daemon, which could have no processes of its own
        atexit.register(self._process.kill)
        child_end.close()

    def _clear_dead_process(self) -> None:
        """Makes room for another process. Raises FoilError after too many deaths without a partition between."""
        with self._starting:
            process, self._process = self._process, None
            if self._closed or process is None:
                return
        process.join(_REAP_S)
        atexit.unregister(process.kill)
        self._deaths += 1
        words = f"the process that reads the seeds (pid {process.pid}) ended with exit code {process.exitcode}"
        if self._deaths >= _DEATHS:
            raise FoilError(
                f"{words}, {_DEATHS} times in a row without a partition between; look into its messages and the memory "
                "of this machine, and run again"
            )
        LOG.warning("%s; another reads them again", words)


@dataclass(frozen=True, slots=True, order=True)
class _Reached:
    """The highest partition that the driver was given, and the digest of the stream to its end."""

    index: int = -1
    stream: str = ""

    def check(self, partition: Partition) -> None:
        """Raises SeedsChangedError if the stream is another one at this partition."""
        if partition.index == self.index and partition.stream != self.stream:
            raise SeedsChangedError(
                f"a seed changed before the end of partition {self.index} while the process that read it was replaced"
            )


@dataclass(frozen=True, slots=True)
class _Task:
    """What one process is to do besides: put what was not `delivered` yet into `folder`."""

    store: Store
    folder: str
    delivered: frozenset[int]
    reached: _Reached
    runtime: RuntimeSettings
    run: str


class _Room:
    """The bytes that lie ahead of the workers: at most so many, or a single partition."""

    def __init__(self, most: int) -> None:
        self._most, self._ahead = most, 0
        self._changed = threading.Condition()

    def take(self, nbytes: int) -> None:
        """Waits until there is room."""
        with self._changed:
            self._changed.wait_for(lambda: not self._ahead or self._ahead + nbytes <= self._most)
            self._ahead += nbytes

    def leave(self, nbytes: int) -> None:
        """Notes that a worker takes a partition."""
        with self._changed:
            self._ahead -= nbytes
            self._changed.notify()


def _run_process(pipe: Connection, source: SeedSource, task: _Task, all_seeds: Any) -> None:
    """Runs in the child; notes at the end how many seeds there are. The parent handles signals; when it is gone, the
    child ends."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    begin_logs(task.runtime.log_format, task.run)
    relax_gc()
    room = _Room(task.runtime.seeds_ahead_mb << 20)
    listening = threading.Thread(target=_listen, args=(pipe, room, task.store), daemon=True)
    listening.start()
    with suppress(BrokenPipeError):
        try:
            entries, seeds = source.store.committed(), 0
            tell = _Teller(pipe)
            for partition in source.partitions(entries, tell):
                task.reached.check(partition)
                seeds += partition.size
                if partition.index in task.delivered:
                    continue
                if partition.index in entries:
                    pipe.send(StoredPartition(partition.index, partition.size, partition.stream))
                else:
                    pipe.send(_put_aside(partition, task, room))
            tell.all()
            all_seeds.value = seeds
            pipe.send(None)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again in the driver
            pipe.send(portable(error, "the process that reads the seeds failed"))
    listening.join()


def _listen(pipe: Connection, room: _Room, store: Store) -> None:
    """Hears which partitions are taken (their bytes) and committed (their key), until the parent is gone."""
    try:
        while True:
            match pipe.recv():
                case int() as nbytes:
                    room.leave(nbytes)
                case str() as key if key:
                    with suppress(OSError):
                        store.delete([key])
    except (EOFError, OSError):
        os._exit(0)


class _Teller:
    """Sends the number of seeds read and the ledger, a few times a second."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._told = pipe, 0.0
        self._read = 0, Ledger()

    def __call__(self, seeds: int, ledger: Ledger) -> None:
        self._read = seeds, ledger
        if (now := time.monotonic()) - self._told >= _TELL_S:
            self._told = now
            self.all()

    def all(self) -> None:
        """Sends what is known by now."""
        self._pipe.send(self._read)


def _put_aside(partition: Partition, task: _Task, room: _Room) -> StoredPartition:
    """Puts the seeds of a partition, once there is room for them. Raises SpoolError."""
    data, key = pickle.dumps(partition, pickle.HIGHEST_PROTOCOL), f"{task.folder}/{partition.index:08d}"
    room.take(len(data))
    try:
        task.store.put(key, data, durable=False)
    except OSError as error:
        raise SpoolError(
            f"the seeds of partition {partition.index} cannot be written to {task.store.url}/{key} ({error}); nothing "
            "is lost: see to the storage, or lower `runtime.seeds_ahead_mb`, and run again"
        ) from None
    sha256 = hashlib.sha256(data).hexdigest()
    return StoredPartition(partition.index, partition.size, partition.stream, key, len(data), sha256, task.store)
