"""Plays one seed: it draws which life is led, a run's or that of someone who uses a finished run."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

from tests.support.simulator import inputs, training, uses
from tests.support.simulator.checker import Version
from tests.support.simulator.life import MEMORY, Life, Outcome
from tests.support.simulator.real_kills import play_processes
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
