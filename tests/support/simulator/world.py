"""Everything that a run takes from outside, drawn from one integer: time, disk, processes, chance.

    with World(seed, folder).ruling() as world:
        ended = world.run([Process(...)])       # one process, or several that take turns at their calls of the disk

Inside, `os`, `time`, threads and `asyncio.run` are the world's: the clock jumps to the next timer, a thread's work is
done in the loop a drawn moment later, a kill is a KilledError out of a call of the disk, after which every call
is refused. Two processes are two threads of which one runs at a time.
"""

import asyncio
import builtins
import errno
import hashlib
import io
import os
import random
import re
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partialmethod
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from foil.datasets_out.commits import verify
from foil.engine import crash_points
from foil.engine.storage import lease
from tests.support.simulator.disk import FAULTS, Disk, KilledError
from tests.support.virtual_time import VirtualLoop

THREAD_S = 0.02
"""A thread's work begins at most so much later."""
SYNCED_S = 4 * THREAD_S
"""A reply is on disk so soon after it arrived."""
_YIELD = 0.2
_STAT = re.compile("/proc/([0-9]+)/stat")
_UNSEEN = "events.out."
"""TensorBoard's events are written by a thread of their own, and inform alone."""
_REAL_GMTIME, _REAL_START = time.gmtime, threading.Thread.start


@dataclass
class Fault:
    """The `at`-th call of kind `call` below a path that has `where` in it fails; all later ones too if `lasting`."""

    call: str
    where: str
    at: int
    error: int
    lasting: bool = False


@dataclass
class Process:
    """One program: what it does, what befalls it, how it ended (None: killed). `full`: its stdout takes no byte;
    `strike` is done to its files by somebody else; `synced_s`: so soon a reply is safe after it arrived."""

    main: Callable[[], int]
    kill_at: int = 0
    crash_point: str = ""
    signal_at: int = 0
    clock_at: int = 0
    strike_at: int = 0
    strike: Callable[[], None] = lambda: None
    faults: list[Fault] = field(default_factory=list)
    pid: int = 0
    calls: int = 0
    met: int = 0
    met_at: float = 0.0
    racing: bool = False
    full: bool = False
    dead: bool = False
    code: int | None = None
    wake_at: float = 0.0
    synced_s: float = SYNCED_S
    began: float = 0.0
    ended: float = 0.0
    printed: io.BytesIO = field(default_factory=io.BytesIO)
    said: io.BytesIO = field(default_factory=io.BytesIO)
    failure: str = ""

    @property
    def stdout(self) -> str:
        return self.printed.getvalue().decode()

    @property
    def stderr(self) -> str:
        return self.said.getvalue().decode()


class World:
    """`told` counts what was done to the runs; `digest` is of every call of the disk, in order."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice, self.folder = Random(seed), folder
        self.now, self.wall_shift = 1_000_000.0, 700_000_000.0
        self.told: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self._hash = hashlib.sha256()
        self._entropy = Random(f"entropy {seed}")
        self.synced_s = SYNCED_S
        self._pids, self.tasks = count(1001), count()
        self.running: Process | None = None
        self._alive: list[Process] = []
        self._turn = threading.Condition()
        (folder / "box").mkdir(parents=True)
        self.disk = Disk(folder / "box", self.before_call)
        self.after: Callable[[], None] = lambda: None  # called once the processes of `run` have ended

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]

    def note(self, line: str) -> None:
        """Adds to what replays of a seed are compared by."""
        self._hash.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    @contextmanager
    def ruling(self) -> Iterator["World"]:
        before, here = random.getstate(), Path.cwd()
        random.seed(self._entropy.random())
        with pytest.MonkeyPatch.context() as patch:
            for name, call in self.disk.calls():
                patch.setattr(os, name, self._if_running(call, getattr(os, name)))
            patch.setattr(io, "open", self._open_file(io.open))
            patch.setattr(builtins, "open", self._open_file(builtins.open))
            patch.setattr(os, "getpid", self._if_running(lambda: self.running.pid, os.getpid))
            patch.setattr(os, "kill", self._if_running(self._kill, os.kill))
            patch.setattr(os, "urandom", self._entropy.randbytes)
            patch.setattr(random, "_urandom", self._entropy.randbytes)
            patch.setattr(time, "time", self.wall)
            patch.setattr(time, "gmtime", lambda at=None: _REAL_GMTIME(self.wall() if at is None else at))
            patch.setattr(time, "monotonic", lambda: self.now)
            patch.setattr(time, "sleep", self._if_running(self.wait, time.sleep))
            patch.setattr(lease, "now", lambda: self.now)
            patch.setattr(psutil, "Process", self._if_running(self._process, psutil.Process))
            patch.setattr(threading.Thread, "start", partialmethod(_start_thread, self))
            patch.setattr(asyncio, "run", self._run_loop)
            patch.setattr(verify, "_READERS", 1)  # the order of calls follows from the seed
            os.chdir(self.folder)
            try:
                yield self
            finally:
                crash_points.arm("")
                os.chdir(here)
                random.setstate(before)

    def wait(self, seconds: float) -> None:
        """The running process waits, and all else in it."""
        self.now += seconds

    def wall(self) -> float:
        return self.now + self.wall_shift

    def _began(self, pid: int) -> float:
        """When a process of this world started, since the machine did; 0 if it is gone."""
        return next((one.began for one in self._alive if one.pid == pid and not one.dead), 0.0)

    def _process(self, pid: int) -> Any:
        """What psutil knows of a process: a start by the wall clock, which moves with it."""
        began = self._began(pid)
        if not began:
            raise psutil.NoSuchProcess(pid)
        return SimpleNamespace(create_time=lambda: began + self.wall_shift)

    def _stat(self, pid: str) -> io.StringIO:
        """What Linux knows of a process: a start since the machine did."""
        began = self._began(int(pid))
        if not began:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{pid}/stat")
        return io.StringIO(f"{pid} (foil) S {'0 ' * 18}{int(began * os.sysconf('SC_CLK_TCK'))} 0")

    def _if_running(self, ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return (ours if self.running else real)(*args, **kwargs)

        return call

    def _open_file(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def open_file(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if self.running and (process := _STAT.fullmatch(str(path))):
                return self._stat(process[1])
            if self.running is None or not self.disk.inside(path) or _UNSEEN in str(path):
                return real(path, mode, *args, **kwargs)
            if set(mode) & set("wax+"):
                return self.disk.open_for_writing(path, mode, *args, **kwargs)
            self.disk.reading(path)
            return real(path, mode, *args, **kwargs)

        return open_file

    # processes

    def run(self, processes: list[Process]) -> None:
        """Runs the processes to their ends, several of them in turns."""
        crash_points.arm(processes[0].crash_point)
        for process in processes:
            process.pid, process.began, process.wake_at = next(self._pids), self.now, self.now
            process.synced_s = self.synced_s
        self._alive = list(processes)
        self.running = processes[0]
        outer = sys.stdout, sys.stderr
        raw = _Output(self, "printed", outer[0]), _Output(self, "said", outer[1])
        sys.stdout, sys.stderr = (io.TextIOWrapper(one, encoding="utf-8", write_through=True) for one in raw)
        try:
            if len(processes) == 1:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                self._live(processes[0])
            else:
                threads = [threading.Thread(target=self._live_in_turn, args=(process,)) for process in processes]
                for thread in threads:
                    _REAL_START(thread)
                for thread in threads:
                    thread.join()
        finally:
            sys.stdout, sys.stderr = outer
            self.running = None
            crash_points.arm("")
            self.disk.close_all()
            self.after()

    def _live_in_turn(self, process: Process) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self.running is process)
        self._live(process)
        with self._turn:
            self._alive.remove(process)
            self.running = min(self._alive, key=lambda other: other.wake_at, default=None)
            self._turn.notify_all()

    def _live(self, process: Process) -> None:
        try:
            process.code = process.main()
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 - what a user would see as a traceback
            process.failure = "".join(traceback.format_exception_only(error)).strip()
            process.failure += f" at {_innermost(error)}"
        process.ended = self.now
        if process.dead:
            process.code, process.failure = None, ""
        self.note(f"{process.pid} ended {process.code}")

    def _switch_to(self, other: Process) -> None:
        mine = self.running
        with self._turn:
            self.running = other
            self._turn.notify_all()
            self._turn.wait_for(lambda: self.running is mine)

    def idle(self, seconds: float) -> None:
        """The running process has nothing to do for so long."""
        mine = self.running
        assert mine is not None
        mine.wake_at = self.now + seconds
        while (first := min(self._alive, key=lambda process: process.wake_at)) is not mine:
            self._switch_to(first)
        self.now = max(self.now, mine.wake_at)

    # what befalls them

    def before_call(self, call: str, path: str) -> float:
        process = self.running
        assert process is not None
        if process.dead:
            raise KilledError
        process.calls += 1
        self.note(f"{process.pid} {call} {path}")
        if len(self._alive) > 1 and self.dice.random() < _YIELD:
            process.wake_at = self.now
            self._switch_to(self.dice.choice([other for other in self._alive if other is not process]))
        if process.calls == process.clock_at:
            self.told["clock jumps"] += 1
            self.wall_shift += self.dice.choice((-1, 1)) * self.dice.choice((3600.0, 86400.0, 4e8))
        if process.calls == process.strike_at:
            self._meet(process)
            process.strike()
        if process.calls == process.signal_at and threading.current_thread() is threading.main_thread():
            self._raise_signal(self.dice.choice((signal.SIGTERM, signal.SIGINT)))
        if process.calls == process.kill_at:
            self._die(self.dice.choice((0.0, 0.5)))
        return self._fail(process, call, path)

    def _fail(self, process: Process, call: str, path: str) -> float:
        for fault in process.faults:
            if fault.call not in (call, "any") or fault.where not in path:
                continue
            fault.at -= 1
            if fault.at == 0 or (fault.at < 0 and fault.lasting):
                error = fault.error if fault.call != "any" else self.dice.choice(FAULTS.get(call, (errno.EIO,)))
                self.told["I/O failures"] += 1
                self._meet(process)
                self.note(f"{process.pid} fails {call} {path} {error}")
                if error:
                    raise OSError(error, os.strerror(error), path)
                return 0.5
        return 1.0

    def _meet(self, process: Process) -> None:
        process.met_at = process.met_at or self.now
        process.met += 1

    def _raise_signal(self, number: signal.Signals) -> None:
        self.told["signals"] += 1
        if signal.getsignal(number) is signal.SIG_DFL:
            self._die(0.0)
        signal.raise_signal(number)

    def _kill(self, pid: int, _signal: int) -> None:
        assert pid == self.running.pid
        self._die(0.0)

    def _die(self, share: float) -> None:
        self.told["kills"] += 1
        self.running.dead = True
        raise KilledError(share)

    # loops and threads

    def _run_loop(self, main: Any, **_: Any) -> Any:
        with asyncio.Runner(loop_factory=lambda: _Loop(self)) as runner:
            return runner.run(main)


def _start_thread(thread: threading.Thread, world: World) -> None:
    """A run starts threads by itself, to read its seeds and to fold its log; libraries may start others."""
    if thread.name not in ("seeds", "fold"):
        _REAL_START(thread)
        return
    asyncio.get_running_loop().call_later(world.dice.uniform(0, THREAD_S), thread.run)


class _Loop(VirtualLoop):
    """The world's clock; work for threads is done by the loop itself; the death of its process ends it once."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world, self._process, self._fallen = world, world.running, False
        self.set_task_factory(lambda loop, work, **options: _Task(work, loop=loop, **options))
        self.set_exception_handler(self._on_exception)

    def time(self) -> float:
        return self._world.now if hasattr(self, "_world") else 0.0

    def advance(self, seconds: float) -> None:
        self._world.idle(seconds)

    def run_in_executor(self, _executor: Any, work: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()

        def run() -> None:
            try:
                result = work(*args)
            except BaseException as error:  # noqa: BLE001 - the future carries it
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(self._world.dice.uniform(0, THREAD_S), run)
        return future

    def _run_once(self) -> None:
        super()._run_once()
        if self._process.dead and not self._fallen:
            self._fallen = True
            raise KilledError

    def _on_exception(self, loop: Any, context: dict[str, Any]) -> None:
        if not self._process.dead:
            loop.default_exception_handler(context)


class _Task(asyncio.Task):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, work: Any, *, loop: _Loop, **options: Any) -> None:
        self._number = next(loop._world.tasks)
        super().__init__(work, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Output(io.RawIOBase):
    """What the running process prints."""

    def __init__(self, world: World, name: str, outside: Any) -> None:
        self._world, self._name, self._outside = world, name, outside

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._world.running is None:
            return self._outside.write(bytes(data).decode())
        if self._world.running.full and self._name == "printed":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return getattr(self._world.running, self._name).write(bytes(data))


def _innermost(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
