"""The process that the commit drills kill; it prints one JSON line a dataset, for `check` in another process.

    python -m tests.support.drills.commit_drill kills|points|races FOLDER COUNT SEED

It imports only what a writer needs and forks its writers, so that a kill costs milliseconds.
"""

import errno
import json
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from datasets_out.commits import log as commit_log
from datasets_out.commits.log import CommitLog
from engine import atomic_files
from engine.atomic_files import FileSystem
from engine.crash_points import arm
from engine.errors import CommitError, CommitLostError, DifferentJobError
from engine.storage import local_store
from engine.topic import Intent, Judgment, Passage, Topic, Verdict

JOB = {"seeds": {"kind": "drill"}}
SEEDS = 4
VARIANTS = 5
"""One writer in this many makes other content of the same seeds, as a changed code base would."""


def topics_of(partition: int, variant: int = 0) -> list[Topic]:
    """The topics of a partition: the same in every process; another variant has the same ids and other texts."""
    return [_topic(f"s{partition * SEEDS + i:06d}", variant) for i in range(SEEDS)]


def planned(partitions: int) -> list[str]:
    return [topic.seed_id for partition in range(partitions) for topic in topics_of(partition)]


def write(out: Path, partitions: int, seed: int, acks: Path, variant: int = 0) -> None:
    """Commits what is not committed yet, in an order of its own, and acknowledges each commit that returned."""
    log = CommitLog(out)
    log.open("drill", JOB)
    ack = os.open(acks, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for partition in random.Random(seed).sample(range(partitions), partitions):
        if partition not in log.partitions():
            try:
                log.commit(partition, topics_of(partition, variant), {"variant": variant})
            except CommitLostError:
                continue
            os.write(ack, f"{partition}\n".encode())
    log.put_plan({"seeds": partitions * SEEDS, "partitions": partitions})


def kills(folder: Path, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Two writers at a time on one dataset, each killed at a random moment, until `count` died; then one finishes.

    If the machine has become slower than in the warm-up, so that nobody finishes, each next writer gets more time.
    """
    rng, pace = random.Random(seed), warm_up(folder)
    killed = 0
    while killed < count:
        out, acks, partitions, deaths = folder / f"run-{killed:06d}", folder / f"acks-{killed:06d}", 12, 0
        writers: dict[int, float] = {}
        while killed + deaths < count:
            while len(writers) < 2:
                variant = int(rng.random() < 1 / VARIANTS)
                pid = fork(write, out, partitions, rng.randrange(1 << 30), acks, variant)
                writers[pid] = time.monotonic() + rng.uniform(0, 5 * pace * (1 + deaths / 20))
            pid = min(writers, key=writers.__getitem__)
            time.sleep(max(0.0, writers.pop(pid) - time.monotonic()))
            if end(pid, signal.SIGKILL) == 0:
                break
            deaths += 1
        for pid in writers:
            end(pid)
        finish(write, out, partitions, 0, acks)
        killed += deaths
        yield {"out": str(out), "acks": str(acks), "partitions": partitions, "kills": deaths}


def points(folder: Path, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Dies once at every passage of every named point, with and without a rival's file in the way; then resumes."""
    warm_up(folder)
    for rival in (False, True):
        for point in crash_points():
            for passage in range(1, 1000):
                out = folder / f"{point}-{passage}-{rival}"
                acks = out.with_suffix(".acks")
                if rival:
                    finish(leave_orphans, out, count)
                pid = fork(die_at, f"{point}:{passage}", out, count, seed, acks)
                died = end(pid) != 0
                for _ in range(2):
                    finish(write, out, count, seed + 1, acks)
                yield {"out": str(out), "acks": str(acks), "partitions": count, "kills": int(died), "point": point}
                if not died:
                    break


def die_at(point: str, out: Path, partitions: int, seed: int, acks: Path) -> None:
    arm(point)
    write(out, partitions, seed, acks)


def crash_points() -> list[str]:
    """Every point that the code of a commit names."""
    source = "".join(Path(module.__file__).read_text() for module in (atomic_files, local_store, commit_log))
    return sorted(set(re.findall(r'crash_point\("([a-z.]+)"\)', source)))


def warm_up(folder: Path) -> float:
    """Seconds that a small run takes here at best, once all that it imports is there for the forks to share."""
    paces = []
    for i in range(9):
        start = time.monotonic()
        write(folder / f"warm-{i}", 1, 0, folder / "warm-acks")
        paces.append(time.monotonic() - start)
    return min(paces)


class HookedFileSystem(FileSystem):
    """Calls `before` ahead of every call to the file system."""

    def before(self) -> None:
        raise NotImplementedError


def _hooked(name: str) -> Callable[..., object]:
    def call(self: HookedFileSystem, *arguments: object) -> object:
        self.before()
        return getattr(FileSystem, name)(self, *arguments)

    return call


for _name in [name for name in vars(FileSystem) if name[0] != "_"]:
    setattr(HookedFileSystem, _name, _hooked(_name))


class EntryHook(FileSystem):
    """Does something just before a commit entry gets its name, when all files of its partition are in place."""

    def __init__(self, before_entry: Callable[[], None]) -> None:
        self._before_entry = before_entry

    def link(self, source: Path, target: Path) -> None:
        if target.parent.name == "commits":
            self._before_entry()
        super().link(source, target)


def leave_orphans(out: Path, partitions: int) -> None:
    """What a writer of another variant leaves that failed before its entries."""

    def fail() -> None:
        raise OSError(errno.EIO, "no entry")

    log = CommitLog(out, EntryHook(fail))
    log.open("drill", JOB)
    for partition in range(partitions):
        with suppress(CommitError):
            log.commit(partition, topics_of(partition, 1), {"variant": 1})


def races(folder: Path, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Two writers start at one signal: on the same job both end well; of two jobs exactly one is refused."""
    warm_up(folder)
    for race in range(count):
        out, acks, same = folder / f"race-{race:06d}", folder / f"acks-{race:06d}", race % 2 == 0
        read, gate = os.pipe()
        jobs = ["drill", "drill" if same else "other"]
        pids = [fork(contend, out, job, (read, gate), acks, seed + i) for i, job in enumerate(jobs)]
        os.close(gate)
        codes = sorted(end(pid) for pid in pids)
        os.close(read)
        yield {"out": str(out), "acks": str(acks), "partitions": 3, "kills": 0, "same": same, "codes": codes}


def contend(out: Path, job: str, pipe: tuple[int, int], acks: Path, seed: int) -> None:
    """One of two writers: waits until the drill has closed its end of the pipe."""
    read, gate = pipe
    os.close(gate)
    os.read(read, 1)
    try:
        CommitLog(out).open(job, {"name": job})
    except DifferentJobError:
        os._exit(2)
    log = CommitLog(out)
    for partition in random.Random(seed).sample(range(3), 3):
        log.commit(partition, topics_of(partition), {"variant": 0})
        with acks.open("a") as file:
            file.write(f"{partition}\n")


def fork(work: Callable[..., object], *args: object) -> int:
    """The pid of a child that does `work(*args)` and exits 0, or 1 with a traceback. Reaped by `end` alone."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        work(*args)
        code = 0
    except Exception:  # noqa: BLE001 - the boundary of a process: the drill ends on it
        traceback.print_exc()
    finally:
        os._exit(code)


def end(pid: int, sign: int = 0) -> int:
    """Sends a signal if one is given, waits, and returns the exit code, or minus the signal that killed it."""
    if sign:
        os.kill(pid, sign)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 1:
        raise SystemExit("a writer failed; its traceback is above")
    return code


def finish(work: Callable[..., object], *args: object) -> None:
    if end(fork(work, *args)) != 0:
        raise SystemExit("a writer that nobody killed did not finish")


def _topic(seed: str, variant: int) -> Topic:
    passages = tuple(Passage(f"{seed} {variant} {i} " * 20, "distractor", attributes={"n": str(i)}) for i in range(3))
    intent = Intent(f"i-{seed}", "instructed", f"Only {variant}.", f"What is {seed}?", {"style": "plain"})
    judgments = tuple(Judgment(intent.id, passage.id, 1 if i else -1, "rule") for i, passage in enumerate(passages))
    return Topic(
        f"t-{seed}", seed, "drill", "verifiable", intent.query, (intent,), passages, judgments,
        (Verdict("shape", "topic", "pass", score=0.5),),
    )  # fmt: skip


if __name__ == "__main__":
    drill = {"kills": kills, "points": points, "races": races}[sys.argv[1]]
    for line in drill(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])):
        print(json.dumps(line), flush=True)
