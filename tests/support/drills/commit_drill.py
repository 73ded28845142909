"""The process that the commit drills kill; it prints one JSON line a dataset, for `check` in another process.

    python -m tests.support.drills.commit_drill kills|points|races|tidying|folds FOLDER-OR-URL COUNT SEED

It imports only what a writer needs and forks its writers, so that a kill costs milliseconds.
"""

import errno
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from foil.datasets_out.commits import log as commit_log
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.compaction.packing import compact
from foil.datasets_out.curation import collection
from foil.engine import atomic_files
from foil.engine.atomic_files import FileSystem
from foil.engine.crash_points import arm
from foil.engine.errors import CommitError, CommitLostError, DifferentJobError, NoRunError
from foil.engine.storage import local_store
from foil.engine.storage.mirrors import mirror_of, mirrored_url
from foil.engine.storage.opening import open_store
from foil.engine.topic import Intent, Judgment, Passage, Topic, Verdict

JOB = {"seeds": {"kind": "drill"}}
SEEDS = 4
VARIANTS = 5
"""One writer in this many makes other content of the same seeds, as a changed code base would."""
TIDIERS = 5
"""One process in this many folds and packs the log in place of writing it."""
PACK_BYTES = 1 << 20
CALLS = ("call.before", "call.after")
"""Points at which a process dies that has a bucket: before a call to it, and once the store has done it."""


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


def tidy(out: Path, times: int = 1) -> None:
    """Folds and packs what is there; at a run that is not yet open it has nothing to do."""
    for _ in range(times):
        with suppress(NoRunError):
            compact(CommitLog(out), PACK_BYTES)
        if times > 1:
            time.sleep(0.02)


def place(folder: str, name: str) -> tuple[Path, Path]:
    """A run below a folder or below a bucket's URL, and the file of its acknowledgements."""
    out = mirror_of(f"{folder}/{name}")
    return out, out.with_name(f"{out.name}.acks")


def kills(folder: str, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Two processes at a time on one dataset, each killed at a random moment, until `count` died; then one finishes.

    They write, and one in TIDIERS folds and packs. If the machine has become slower than in the warm-up, so that nobody
    finishes, each next one gets more time.
    """
    rng, pace = random.Random(seed), warm_up(folder)
    killed = 0
    while killed < count:
        (out, acks), partitions, deaths, tidiers = place(folder, f"run-{killed:06d}"), 12, 0, set[int]()
        running: dict[int, float] = {}
        while killed + deaths < count:
            while len(running) < 2:
                variant = int(rng.random() < 1 / VARIANTS)
                if rng.random() < 1 / TIDIERS:
                    tidiers.add(pid := fork(tidy, out, 10_000))
                else:
                    pid = fork(write, out, partitions, rng.randrange(1 << 30), acks, variant)
                running[pid] = time.monotonic() + rng.uniform(0, 5 * pace * (1 + deaths / 20))
            pid = min(running, key=running.__getitem__)
            time.sleep(max(0.0, running.pop(pid) - time.monotonic()))
            if end(pid, signal.SIGKILL) == 0:
                break
            deaths += 1
        for pid in running:
            end(pid, signal.SIGKILL if pid in tidiers else 0)
        finish(write, out, partitions, 0, acks)
        killed += deaths
        yield {"out": str(out), "acks": str(acks), "partitions": partitions, "kills": deaths}


def points(folder: str, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Dies once at every passage of every named point, with and without a rival's file in the way; then resumes.

    In a bucket also at every call to it: before it, and once the store has done it. `seed` is that of `passages`, too.
    """
    warm_up(folder)
    for rival in (False, True):
        for point in crash_points(folder):
            for passage in passages(point, seed, named=1 if is_bucket(folder) and seed > 1 else 999):
                out, acks = place(folder, f"{point}-{passage}-{rival}")
                if rival:
                    finish(leave_orphans, out, count)
                pid = fork(die_at, f"{point}:{passage}", write, out, count, seed, acks)
                died = end(pid) != 0
                for _ in range(2):
                    finish(write, out, count, seed + 1, acks)
                yield {
                    "out": str(out), "acks": str(acks), "partitions": count, "kills": int(died), "point": point,
                    "rival": rival,
                }  # fmt: skip
                if not died:
                    break


def passages(point: str, every: int, named: int = 999) -> range:
    """So many passages of a named point. Of calls each `every`-th, others before than after; 1 gives all."""
    return (
        range(1, 1 + named)
        if point not in CALLS
        else range(1 + (every - 1) * (1 + CALLS.index(point)) // 3, 100_000, every)
    )


def tidying(folder: str, count: int, seed: int) -> Iterator[dict[str, object]]:
    """In a bucket dies at every `seed`-th call of a fold, a packing and a `gc` of `count` partitions; then they end."""
    warm_up(folder)
    whole, _ = place(folder, "whole")
    finish(write, whole, count, 0, whole.with_name("whole.acks"))
    for work in (tidy, free):
        for point in CALLS:
            for passage in passages(point, seed):
                out, acks = place(folder, f"{work.__name__}-{point}-{passage}")
                finish(copy_run, whole, out)
                if work is free:
                    finish(tidy, out)
                died = end(fork(die_at, f"{point}:{passage}", work, out)) != 0
                acks.write_text("".join(f"{partition}\n" for partition in range(count)))
                yield {
                    "out": str(out), "acks": str(acks), "partitions": count, "kills": int(died), "point": point,
                    "work": work.__name__,
                }  # fmt: skip
                if not died:
                    break


def copy_run(source: Path, target: Path) -> None:
    """Puts what one bucket's run holds into another place."""
    old, new = open_store(source), open_store(target)
    for found in old.list_objects(""):
        new.put(found.key, old.get(found.key) or b"")


def free(out: Path) -> None:
    """`foil gc` two days later: it removes the files whose rows lie in packs."""
    later, clock = time.time() + 2 * 86_400, collection.time
    collection.time = SimpleNamespace(time=lambda: later)  # type: ignore[assignment]
    try:
        collection.collect(out, 30, dry_run=False)
    finally:
        collection.time = clock


def die_at(point: str, work: Callable[..., object], *args: object) -> None:
    name, _, passage = point.partition(":")
    if name in CALLS:
        from tests.support.drills.bucket_calls import die_at_call

        die_at_call(int(passage), after=name == CALLS[1])
    else:
        arm(point)
    work(*args)


def crash_points(folder: str) -> list[str]:
    """Every point that the code of a commit names; calls to a bucket are points too."""
    modules = (commit_log,) if is_bucket(folder) else (atomic_files, local_store, commit_log)
    source = "".join(Path(module.__file__).read_text() for module in modules)
    return sorted({*re.findall(r'crash_point\("([a-z.]+)"\)', source), *(CALLS if is_bucket(folder) else ())})


def is_bucket(folder: str) -> bool:
    return "://" in folder


def warm_up(folder: str) -> float:
    """Seconds that a small run takes here at best, once all that it imports is there for the forks to share.

    A bucket is used by forks alone: a process that has used one cannot be forked.
    """
    paces = []
    if is_bucket(folder):
        import tests.support.drills.bucket_calls  # noqa: F401 - for the forks

        with tempfile.TemporaryDirectory() as local:
            write(Path(local, "warm"), 1, 0, Path(local, "acks"))
            tidy(Path(local, "warm"))
    for i in range(3 if is_bucket(folder) else 9):
        start = time.monotonic()
        out, acks = place(folder, f"warm-{i}")
        if is_bucket(folder):
            finish(write, out, 1, 0, acks)
        else:
            write(out, 1, 0, acks)
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


def log_that_stops(out: Path, before_entry: Callable[[], None]) -> CommitLog:
    """A log that does something just before each entry, on a disk or in a bucket."""
    url = mirrored_url(out)
    if not url:
        return CommitLog(out, EntryHook(before_entry))
    from tests.support.drills.bucket_calls import EntryBucket

    return CommitLog(EntryBucket(url, before_entry))


def leave_orphans(out: Path, partitions: int) -> None:
    """What a writer of another variant leaves that failed before its entries."""

    def fail() -> None:
        raise OSError(errno.EIO, "no entry")

    log = log_that_stops(out, fail)
    log.open("drill", JOB)
    for partition in range(partitions):
        with suppress(CommitError):
            log.commit(partition, topics_of(partition, 1), {"variant": 1})


def races(folder: str, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Two writers start at one signal: on the same job both end well; of two jobs exactly one is refused."""
    warm_up(folder)
    for race in range(count):
        (out, acks), same = place(folder, f"race-{race:06d}"), race % 2 == 0
        codes = start_at_once(
            *((contend, out, job, acks, seed + i) for i, job in enumerate(["drill", "drill" if same else "other"]))
        )
        yield {"out": str(out), "acks": str(acks), "partitions": 3, "kills": 0, "same": same, "codes": codes}


def folds(folder: str, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Two fold and pack the same entries at one signal, while two write on, one of another variant."""
    warm_up(folder)
    for race in range(count):
        out, acks = place(folder, f"fold-{race:06d}")
        finish(write_on, out, range(4), acks, 0)
        writers = ((write_on, out, range(4, 8), acks, variant) for variant in (0, 1))
        codes = start_at_once((tidy, out, 2), (tidy, out, 2), *writers)
        finish(write, out, 8, seed, acks)  # the last one ends what late losers left, as each session does
        yield {"out": str(out), "acks": str(acks), "partitions": 8, "kills": 0, "codes": codes}


def write_on(out: Path, partitions: Sequence[int], acks: Path, variant: int) -> None:
    log = CommitLog(out)
    log.open("drill", JOB)
    for partition in partitions:
        with suppress(CommitLostError):
            log.commit(partition, topics_of(partition, variant), {"variant": variant})
            with acks.open("a") as file:
                file.write(f"{partition}\n")


def start_at_once(*works: Sequence[Any]) -> list[int]:
    """Runs each work in a process of its own, all from one moment on; their exit codes, sorted."""
    read, gate = os.pipe()
    pids = [fork(at_signal, (read, gate), *work) for work in works]
    os.close(gate)
    codes = sorted(end(pid) for pid in pids)
    os.close(read)
    return codes


def at_signal(pipe: tuple[int, int], work: Callable[..., object], *args: object) -> None:
    """Waits until the drill has closed its end of the pipe."""
    read, gate = pipe
    os.close(gate)
    os.read(read, 1)
    work(*args)


def contend(out: Path, job: str, acks: Path, seed: int) -> None:
    """One of two writers; its process ends with 2 where another job has the place."""
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
    drill = {"kills": kills, "points": points, "races": races, "tidying": tidying, "folds": folds}[sys.argv[1]]
    for line in drill(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])):
        print(json.dumps(line), flush=True)
