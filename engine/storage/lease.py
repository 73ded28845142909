"""One run at a time on a folder: a lease with an epoch, which its holder renews and every worker looks at.

    out/lease/00000007.json   who took epoch 7: put if absent, never changed; the highest epoch holds the folder
    out/lease/00000007.beat   the holder's heartbeat: put over itself each BEAT_S, `released` at its end

A run takes the next epoch where the last one is released, or its holder was a process of this machine that is gone;
where a heartbeat of this machine is older than VALID_S; elsewhere after it has seen the heartbeat stand still for
VALID_S by its own clock. Clocks of other machines are never read. `takeover` takes the next epoch from a holder that
lives. Then it beats, and waits until the one before has released its epoch: for VALID_S if that one lived, and longer
than BEAT_S if its heartbeat stood still, which does not say that it sends nothing.

The file of an epoch also tells its holder that the folder is still the one in which it began: where it is gone, or is
another's, the folder was moved, deleted, unmounted or replaced.

Promise: nobody sends to a model or commits more than BEAT_S after a higher epoch was put, also a process that was
stopped and goes on (SIGSTOP, a suspended machine): each send and commit looks first if the last look is older. So the
new holder, who waits longer, sends nothing that the old one may be sending.
Price: one listing every 2 s in each process that sends, one small put every 2 s by the driver.
"""

import asyncio
import json
import logging
import os
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar, get_type_hints

import psutil

from foil.engine.errors import CommitError, FoilError, JournalError, MovedFolderError, RunHeldError
from foil.engine.ids import canonical_json
from foil.engine.storage.store import Store

LOG = logging.getLogger(__name__)
VALID_S = 10.0
BEAT_S = 2.0
_LOOK_S = 0.25
_WAITS_S = {"ended": 0.0, "silent": BEAT_S + _LOOK_S, "alive": VALID_S}
"""For so long a holder in each state may still send once a higher epoch is put, unless it releases its own."""
SUBMISSION = "FOIL_SUBMISSION"
"""The variable in which a submitted run finds its own name."""
_WALL_CLOCK_S = 1e9
"""A start beyond it is by the wall clock, which may be set: it does not tell one process from another."""
_START_TICKS = 19
"""Where the start stands in /proc/PID/stat, behind the name of the program."""
_FOLDER = "lease"
_TRIES = 20
_READS = 3
_MOST = 2**53
T = TypeVar("T")


def now() -> float:
    """Seconds of this machine since it started, sleep included, so that a suspended holder knows how long it was."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True)
class Holder:
    """Who took an epoch, and when by its own clock. `place` names the machine since its last start, and the process
    space on it; `submission` is the name under which a cluster was given this run, if it was."""

    epoch: int
    host: str
    pid: int
    started: float
    place: str
    since: str
    at: float = 0.0
    submission: str = ""

    @classmethod
    def here(cls, epoch: int) -> "Holder":
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        started, submission = _started(os.getpid()), os.environ.get(SUBMISSION, "")
        return cls(epoch, platform.node(), os.getpid(), started, _place(), since, now(), submission)

    def is_gone(self) -> bool:
        """Whether this was a process of this machine, and is no more."""
        started = _started(self.pid)
        same = started == self.started or self.started > _WALL_CLOCK_S
        return self.place == _place() and not (started and same)


@dataclass(frozen=True, slots=True)
class _Beat:
    """A heartbeat as it stands: `at` by the holder's clock, `number` of it."""

    number: int = 0
    at: float = 0.0
    released: bool = False


class Fence:
    """Whether this process may still send and commit for the run of this epoch; `check` before each."""

    def __init__(self, store: Store, epoch: int) -> None:
        self._store, self.epoch, self._key = store, epoch, _holder_key(epoch)
        self._looked, self._looking = now() - VALID_S, asyncio.Lock()
        self._fenced: RunHeldError | MovedFolderError | None = None
        self._mark: bytes | None = None  # what the file of our epoch holds, once it was read

    async def check(self) -> None:
        """Raises RunHeldError once another run has taken the folder, MovedFolderError once it is not the one that was
        taken, JournalError where that is not known.
        """
        while self._fenced is None and now() - self._looked >= BEAT_S:
            async with self._looking:
                if now() - self._looked >= BEAT_S:
                    await self._look()
        if self._fenced:
            raise self._fenced

    async def _look(self) -> None:
        began = now()
        try:
            newest, mark = await asyncio.to_thread(lambda: (_newest(self._store), self._store.get(self._key)))
            holder = await asyncio.to_thread(_describe, self._store, newest) if newest > self.epoch else ""
        except OSError as error:
            place = f"{self._store.url}/{_FOLDER}"
            raise JournalError(f"{place} cannot be read ({error}); see to the storage and run again") from error
        if holder:
            self._fenced = RunHeldError(
                f"another run has taken {self._store.url}: {holder}; this one has stopped, and what it paid for is kept"
            )
        elif mark is None or mark != (self._mark or mark):
            self._fenced = MovedFolderError(
                f"{self._store.url} is not the folder in which this run began ({self._key}, which it put there, is "
                f"{'another' if mark else 'gone'}): it was moved, deleted, unmounted or replaced; bring it back and "
                "run again, which pays for nothing that it holds"
            )
        self._mark = self._mark or mark
        self._looked = began


class RunLease(Fence):
    """The driver's end of a lease: `beat` renews it, `release` gives it up."""

    def __init__(self, store: Store, holder: Holder) -> None:
        super().__init__(store, holder.epoch)
        self._mark = _line(holder)
        self._number, self._released, self.beaten = 0, False, 0.0
        self._writing = threading.Lock()

    async def confirm(self) -> None:
        """`check` by a look of now: what was put before it lies in the folder that was taken."""
        self._looked = now() - VALID_S
        await self.check()

    async def keep(self, stop: Callable[[BaseException], None]) -> None:
        """Renews until cancelled; where another run has the folder, tells `stop` so."""
        while True:
            try:
                await asyncio.to_thread(self.beat)
                await self.check()
            except OSError as error:
                LOG.warning("the lease on %s could not be renewed: %s", self._store.url, error)
            except (RunHeldError, CommitError) as error:
                stop(error)
                return
            await asyncio.sleep(BEAT_S)

    def beat(self, *, released: bool = False) -> None:
        """Writes the heartbeat; none after a released one. Raises OSError."""
        with self._writing:
            if self._released:
                return
            self._number, self._released, self.beaten = self._number + 1, released, now()
            beat = _Beat(self._number, self.beaten, released)
            self._store.put(_beat_key(self.epoch), _line(beat), durable=False)


FENCE: ContextVar[Fence | None] = ContextVar("FENCE", default=None)
"""The fence of what runs here, for a model that waits between being asked and sending."""


async def lost_folder() -> bool:
    """Whether the run that this task works for has lost its folder."""
    try:
        await check_fence()
    except (RunHeldError, MovedFolderError):
        return True
    return False


async def check_fence() -> None:
    """Raises RunHeldError or MovedFolderError if the run that this task works for has lost its folder."""
    if fence := FENCE.get():
        await fence.check()


@asynccontextmanager
async def hold(store: Store, *, takeover: bool) -> AsyncIterator[RunLease]:
    """The lease on a run's folder, released at the end. Raises RunHeldError, or CommitError if the storage fails;
    MovedFolderError where the folder was moved, whatever was then missed in it.
    """
    try:
        lease = await _take(store, takeover=takeover)
    except OSError as error:
        place = f"{store.url}/{_FOLDER}"
        raise CommitError(f"{place} cannot be used ({error}); see to the storage and run again") from error
    try:
        yield lease
    except FoilError:
        with suppress(RunHeldError, JournalError):
            await lease.confirm()
        raise
    finally:
        with suppress(OSError):  # the next run then finds that this process is gone, or waits
            lease.beat(released=True)


async def _take(store: Store, *, takeover: bool) -> RunLease:
    for _ in range(_TRIES):
        newest = await asyncio.to_thread(_newest, store)
        state = await _state(store, newest)
        if state == "alive" and not takeover:
            holder_words = await asyncio.to_thread(_describe, store, newest)
            raise RunHeldError(
                f"{store.url} is held by another run: {holder_words}; wait for its end, or take the folder from "
                "it with --takeover"
            )
        holder = Holder.here(newest + 1)
        standing = await asyncio.to_thread(store.put_if_absent, _holder_key(holder.epoch), _line(holder))
        if standing is not None:
            continue  # another run was first; it is looked at like any other
        lease = RunLease(store, holder)
        await asyncio.to_thread(lease.beat)
        await _wait_for_end(store, newest, lease, _WAITS_S[state])
        await asyncio.to_thread(_sweep, store, holder.epoch)
        await lease.check()  # another run may have taken it over meanwhile
        return lease
    raise RunHeldError(f"{store.url} is taken by one run after another; look who starts them, and try again")


async def _state(store: Store, epoch: int) -> str:
    """What an epoch's holder does, a key of _WAITS_S; watches a heartbeat of another machine for VALID_S at most."""
    if epoch == 0:
        return "ended"
    holder, beat = await asyncio.to_thread(lambda: (_read_holder(store, epoch), _read_beat(store, epoch)))
    if beat.released or (holder and holder.is_gone()):
        return "ended"
    if holder and holder.place == _place():
        return "alive" if now() - max(beat.at, holder.at) < VALID_S else "silent"
    return await _watch(store, epoch, beat)


async def _watch(store: Store, epoch: int, beat: _Beat) -> str:
    """The state of a holder whose clock is not ours."""
    until = now() + VALID_S
    while now() < until:
        await asyncio.sleep(_LOOK_S)
        latest = await asyncio.to_thread(_read_beat, store, epoch)
        if latest != beat:
            return "ended" if latest.released else "alive"
    return "silent"


async def _wait_for_end(store: Store, epoch: int, lease: RunLease, seconds: float) -> None:
    """Waits until a holder that was fenced off has released its epoch, or surely sends no more; beats meanwhile, or
    the next one would take the waiting for silence."""
    until = now() + seconds
    while now() < until:
        if (await asyncio.to_thread(_read_beat, store, epoch)).released:
            return
        await asyncio.sleep(_LOOK_S)
        if now() - lease.beaten >= BEAT_S:
            await asyncio.to_thread(lease.beat)


def holder_of(store: Store) -> str:
    """Who holds a run's folder now, in words; "" where nobody does."""
    try:
        holder = _holder(store)
        return _describe(store, holder.epoch) if holder else ""
    except OSError:
        return ""


def submission_of(store: Store) -> str:
    """The submission that holds a run's folder now; "" where nobody does, or a run that was not submitted."""
    try:
        holder = _holder(store)
    except OSError:
        return ""
    return holder.submission if holder else ""


def _holder(store: Store) -> Holder | None:
    """Who holds a run's folder now. Raises OSError."""
    newest = _newest(store)
    holder = _read_holder(store, newest) if newest else None
    free = holder is None or holder.is_gone() or _read_beat(store, newest).released
    return None if free else holder


def _describe(store: Store, epoch: int) -> str:
    holder, beat = _read_holder(store, epoch), _read_beat(store, epoch)
    if holder is None:
        return f"epoch {epoch}"
    last_seen = f", last seen {max(0.0, now() - max(beat.at, holder.at)):.0f} s ago" if holder.place == _place() else ""
    return f"process {holder.pid} on {holder.host}, since {holder.since}{last_seen}"


def _newest(store: Store) -> int:
    """The highest epoch, 0 without any. Raises OSError."""
    return max((_epoch_of(each.key) for each in store.list_objects(_FOLDER) if each.key.endswith(".json")), default=0)


def _epoch_of(key: str) -> int:
    """The epoch that a key is of; 0 for a key of none."""
    digits = key.removeprefix(f"{_FOLDER}/")[:8]
    return int(digits) if digits.isdecimal() else 0


def _read_holder(store: Store, epoch: int) -> Holder | None:
    return _facts_of(Holder, store, _holder_key(epoch))


def _read_beat(store: Store, epoch: int) -> _Beat:
    return _facts_of(_Beat, store, _beat_key(epoch)) or _Beat()


def _holder_key(epoch: int) -> str:
    return f"{_FOLDER}/{epoch:08d}.json"


def _beat_key(epoch: int) -> str:
    return f"{_FOLDER}/{epoch:08d}.beat"


def _line(facts: Holder | _Beat) -> bytes:
    return canonical_json(asdict(facts)).encode()


def _facts_of(kind: type[T], store: Store, key: str) -> T | None:
    """What a small document says; None where it says nothing of its kind. Raises OSError: a document that cannot be
    read is not one that is not there.
    """
    data = _read(store, key)
    try:
        facts = kind(**json.loads(data or b""))
    except (ValueError, TypeError, RecursionError):
        return None
    hints = get_type_hints(kind)
    return facts if all(_is_a(getattr(facts, name), hint) for name, hint in hints.items()) else None


def _read(store: Store, key: str) -> bytes | None:
    """A document as it stands. Storage that errs is asked again; then raises OSError."""
    for _ in range(_READS - 1):
        with suppress(OSError):
            return store.get(key)
        time.sleep(_LOOK_S)
    return store.get(key)


def _is_a(value: object, hint: type) -> bool:
    """Whether a value is of a kind; numbers that no clock or process has are of none."""
    if hint not in (int, float):
        return isinstance(value, hint)
    return isinstance(value, int | float if hint is float else int) and 0 <= value < _MOST


def _sweep(store: Store, epoch: int) -> None:
    """Removes what earlier epochs left, but for the last one."""
    store.delete(each.key for each in list(store.list_objects(_FOLDER)) if 0 < _epoch_of(each.key) < epoch - 1)


def _started(pid: int) -> float:
    """When a process of this machine started; 0 where there is none. In seconds since the machine did, which no step
    of the wall clock moves, where the system tells that."""
    with suppress(OSError):
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TICKS]
        return int(ticks) / os.sysconf("SC_CLK_TCK")
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def _place() -> str:
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()} {boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return f"{platform.node()} {psutil.boot_time():.0f}"
