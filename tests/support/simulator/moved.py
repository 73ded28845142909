"""A run's folder that somebody moves away under it, or puts another in the place of, and brings back afterwards."""

import shutil
from pathlib import Path

from tests.support.simulator.world import World


class MovedFolder:
    """`strike` moves `out` to `away`; in its place is then nothing, an empty folder, or a copy without the lease."""

    def __init__(self, world: World, out: Path) -> None:
        self._world, self._out, self.away = world, out, out.with_name("away")

    def strike(self) -> None:
        """Moves the folder, if there is one."""
        if not self._out.exists() or self.away.exists():
            return
        world, process = self._world, self._world.running
        world.told["moved folders"] += 1
        world.running = None  # the calls of somebody else
        try:
            world.disk.move(self._out, self.away)
            kind = world.dice.choice(("gone", "empty", "copy"))
            world.note(f"moved away, {kind}")
            if kind == "empty":
                self._out.mkdir()
            if kind == "copy":
                shutil.copytree(self.away, self._out, ignore=shutil.ignore_patterns("lease"))
        finally:
            world.running = process

    def bring_back(self) -> None:
        """Removes what came to stand in its place, and moves it back."""
        self._world.disk.remove(self._out)
        self._world.disk.move(self.away, self._out)
