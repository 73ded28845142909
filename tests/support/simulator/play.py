"""Plays one seed: it draws which life is led, a run's or that of someone who uses a finished run."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from foil.cluster import run_job
from foil.engine.errors import NotReadyError
from foil.engine.flow import journal
from tests.support.paths import REPO
from tests.support.simulator import inputs, training, uses
from tests.support.simulator.checker import Version, check_glob, check_rows, compare, is_complete, read
from tests.support.simulator.life import MEMORY, POINTS, Life, Outcome
from tests.support.simulator.scenario import Plan, Scenario, draw, undisturbed
from tests.support.simulator.world import Fault, Process, World
from tests.support.storage.simulated_bucket import SimulatedBucket

_TRAINING, _USES = 0.12, 0.12
"""Shares of the seeds."""
BUCKET_SYNCED_S = 2.0
"""A reply is in a bucket so soon after it arrived: a group each 0.1 s, slow calls, answers that were lost."""


@cache
def _warm_up(bucket: bool) -> None:
    """What Python does once in a process must not be part of a scenario."""
    for writer in ("rule", "hosted"):
        undisturbed(Version(inputs.first_rows(Random(0), 4), 2), replace(draw(Random(0)), writer=writer, accept=None))
    if not bucket:
        training.warm_up()
        uses.undisturbed()


def play(seed: int, *, traced: bool = False, processes: int = 0, bucket: bool = False) -> Outcome:
    """Plays one seed in a folder of its own, which is removed; each `processes`-th in real processes.

    With `bucket` the run lies in one, and the run in peace that it is held against in a folder.
    """
    _warm_up(bucket)
    if processes and seed % processes == 0:
        return play_processes(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="foil-sim-") as name, World(seed, Path(name)).ruling() as world:
        world.trace = [] if traced else None
        life = BucketScenario(world, draw(world.dice)) if bucket else _life(world)
        try:
            life.play()
        except Exception as error:  # noqa: BLE001 - what the checks themselves cannot bear is wrong too
            life.violated(f"unreadable: {type(error).__name__}: {error}")
        return Outcome(seed, world.told, world.digest, life.found, world.trace)


def _life(world: World) -> Life:
    share = world.dice.random()
    if share < _TRAINING:
        return training.Training(world)
    return uses.Uses(world) if share < _TRAINING + _USES else Scenario(world, draw(world.dice))


class BucketScenario(Scenario):
    """The life of a run in a bucket; `out` shows what lies there once the processes of an attempt have ended.

    Where a disk would lose its power, the next attempt comes from another machine, which has no copy of anything.
    """

    counted = ("run.json", "plan.json", "commits/*", "data/*/*", "snapshots/*", "journal/closed/*")
    where = ("journal", "commits", "data", "run.json", "plan.json", "snapshots", "lease", "sessions", "")
    on_disk = False

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        self.place, self._patch, self._machines = "s3://bucket/run", pytest.MonkeyPatch(), 0
        self.bucket = SimulatedBucket(world.before_call, world.wait, world.wall, world.dice)
        world.after, world.synced_s = self._show, BUCKET_SYNCED_S

    def play(self) -> None:
        with pytest.MonkeyPatch.context() as self._patch:
            self.bucket.patch(self._patch)
            self._patch.setattr(journal, "_MOST_SYNCS", 4)  # streams that make way for the next one
            self._patch.setattr(run_job, "check_store", lambda _store: None)  # its races would only be turns here
            self._cut_power()
            super().play()
        self.world.told["lost answers"] += self.bucket.lost_answers

    def write(self, path: Path, data: bytes) -> None:
        super().write(path, data)
        self.bucket.objects[path.relative_to(self.out).as_posix()] = data

    def _show(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        self.bucket.show(self.out)

    def _cut_power(self) -> None:
        self._machines += 1
        self._patch.setenv("FOIL_CACHE", str(self.folder / f"machine-{self._machines}"))

    def _judge(self, process: Process, words: tuple[object, ...]) -> None:
        if process.code != NotReadyError.exit_code or not process.met:  # a bucket that is away is no place for a run
            super()._judge(process, words)

    def _troubles(self, dice: Random) -> dict[str, Any]:
        troubles = super()._troubles(dice)
        if "faults" in troubles:
            call, where = dice.choice(("put", "put", "get", "list", "delete", "any")), dice.choice(self.where)
            at = int(dice.expovariate(1 / (4 if where else 15))) + 1
            troubles["faults"] = [Fault(call, where, at, errno.EIO, dice.random() < 0.5)]
        return troubles


_MOST_S = 300
"""A run in peace that takes so long hangs."""


def play_processes(seed: int) -> Outcome:
    """Kills up to three attempts, each at a drawn time or named point, and then lets one end."""
    dice = Random(f"processes {seed}")
    version = Version(inputs.first_rows(dice, dice.randint(6, 12)), 2)
    plan = replace(draw(dice), version=version, writer="rule", accept=None, budget=None)
    wanted = undisturbed(version, plan)
    with tempfile.TemporaryDirectory(prefix="foil-sim-") as name:
        killing = _Killing(Scenario(World(seed, Path(name)), plan), dice)
        for _ in range(dice.randint(1, 3)):
            killing.kill()
        killing.finish()
        killing.found += compare(read(killing.out), wanted, odd_usage=False)
        return Outcome(seed, killing.told, "", killing.found)


class _Killing:
    def __init__(self, scenario: Scenario, dice: Random) -> None:
        self._version, self._folder, self.out = scenario.plan.version, scenario.folder, scenario.out
        self._workers, self._dice = dice.choice((0, 2)), dice
        words = [*scenario._job(self._version), "--set", f"runtime.workers={self._workers}"]
        self._command = [sys.executable, "-m", "foil", *words]
        self.found: list[str] = []
        self.told: Counter[str] = Counter()

    def kill(self) -> None:
        """One attempt; its end by itself, before the kill, is as good as any."""
        environment = {**os.environ, "PYTHONPATH": str(REPO)}
        seconds = self._dice.uniform(0.5, 6)
        if not self._workers and self._dice.random() < 0.6:
            environment["FOIL_CRASH_POINT"] = f"{self._dice.choice(POINTS)}:{self._dice.randint(1, 4)}"
            seconds = _MOST_S
        with self._start(environment) as child:
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                code = child.wait()
            self.told["killed processes"] += code == -signal.SIGKILL
            self._end_workers(child)
        self._look(code, {0, 3, -signal.SIGKILL})

    def finish(self) -> None:
        """In peace: complete, with no file too many."""
        with self._start({**os.environ, "PYTHONPATH": str(REPO)}) as child:
            code = child.wait(_MOST_S)
        self._look(code, {0, 3})
        data = read(self.out)
        if not is_complete(data, self._version, None):
            self.found.append(f"lost: a finished run holds only partitions {sorted(data.entries)}")
        self.found += check_glob(self.out, data)

    def _start(self, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            self._command, cwd=self._folder, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def _end_workers(self, child: "subprocess.Popen[bytes]") -> None:
        """Half of the time the workers are killed too; else they must notice that their parent is gone."""
        if self._dice.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def _look(self, code: int, allowed: set[int]) -> None:
        if code not in allowed:
            self.found.append(f"exit code: foil run as a process ended with {code}, {self._workers} workers")
        self.found += check_rows(read(self.out), [self._version])
