"""Plays one seed: it draws which life is led, a run's or that of someone who uses a finished run."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

from tests.support.paths import REPO
from tests.support.simulator import inputs, training, uses
from tests.support.simulator.checker import Version, check_glob, check_rows, compare, is_complete, read
from tests.support.simulator.life import MEMORY, POINTS, Life, Outcome
from tests.support.simulator.scenario import Scenario, draw, undisturbed
from tests.support.simulator.world import World

_TRAINING, _USES = 0.12, 0.12
"""Shares of the seeds."""


@cache
def _warm_up() -> None:
    """What Python does once in a process must not be part of a scenario."""
    for writer in ("rule", "hosted"):
        undisturbed(Version(inputs.first_rows(Random(0), 4), 2), replace(draw(Random(0)), writer=writer, accept=None))
    training.warm_up()
    uses.undisturbed()


def play(seed: int, *, traced: bool = False, processes: int = 0) -> Outcome:
    """Plays one seed in a folder of its own, which is removed; each `processes`-th in real processes."""
    _warm_up()
    if processes and seed % processes == 0:
        return play_processes(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="foil-sim-") as name, World(seed, Path(name)).ruling() as world:
        world.trace = [] if traced else None
        life = _life(world)
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
        self._command = [sys.executable, "-m", "cluster", *words]
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
