"""One drawn history of kills over a real Ray cluster: actors, nodes, and the driver, which is started again.

test -> driver (a process of its own) -> actors on the nodes of the cluster
  a kill is due each time that some more requests were paid, never by the clock: a busy machine is not killed faster
  than it works
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.paths import REPO
from tests.support.small_parts import billed, opened

WINDOW, WORKERS = 4, 3
IN_FLIGHT = {"actor": WINDOW, "node": 2 * WINDOW, "driver": 2 * WORKERS * WINDOW}
"""Requests that a kill may cost at most: those of the workers that it ends, and of workers that try suspects apart."""
_KINDS = {"actor": 68, "driver": 24, "node": 8}
_QUIET_S = 90.0


class KillHistory:
    """A run of `seeds` seeds on a cluster of three nodes of one CPU each, and at least `kills` kills through it.

    `killed` counts them by kind, `moments` are the times at which something was killed or added.
    """

    def __init__(self, cluster: Any, out: Path, seeds: int, kills: int, draw: random.Random) -> None:
        self.killed: Counter[str] = Counter()
        self.moments = [time.time()]
        self._cluster, self._out, self._seeds, self._kills, self._draw = cluster, out, seeds, kills, draw
        self._bill, self._log = opened(out) / "bill", out.with_name("driver.log")
        self._driver = self._start()

    def play(self) -> dict[str, Any]:
        """All kills, then the run to its end; what the last driver said at its end."""
        kinds = self._draw.choices([*_KINDS], [*_KINDS.values()], k=self._kills)
        try:
            for kind in kinds:
                self._wait_for_payments(self._draw.randint(5, 30))
                {"actor": self._kill_actor, "driver": self._kill_driver, "node": self._replace_node}[kind]()
            said, _ = self._driver.communicate(timeout=300)
            summary: dict[str, Any] = json.loads(said.splitlines()[-1])
            return summary
        finally:
            self._driver.kill()
            self._driver.wait()

    def longest_quiet_s(self) -> tuple[float, float]:
        """The longest time without a commit or a kill, and without a commit."""
        commits = [path.stat().st_mtime for path in (self._out / "commits").glob("*.json")]
        return _longest_gap([*commits, *self.moments]), _longest_gap([self.moments[0], *commits])

    def _start(self) -> subprocess.Popen[str]:
        runtime = {"kind": "ray", "workers": WORKERS, "window": WINDOW, "ray_address": self._cluster.address}
        told = {
            "seeds": self._seeds,
            "delay_s": 0.1,
            "prepaid": True,
            "bill": str(self._bill),
            "limits": {"partition_seeds": 8},
            "runtime": runtime,
        }
        command = [sys.executable, "-m", "tests.support.small_run", str(self._out), json.dumps(told)]
        with self._log.open("a") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=REPO)

    def _wait_for_payments(self, more: int) -> None:
        enough, end = len(billed(self._bill)) + more, time.monotonic() + _QUIET_S
        while len(billed(self._bill)) < enough:
            assert self._driver.poll() is None, f"the driver ended by itself: {self._log.read_text()[-4000:]}"
            assert time.monotonic() < end, f"nothing is paid any more: {self._log.read_text()[-4000:]}"
            time.sleep(0.05)

    def _note(self, kind: str) -> None:
        self.killed[kind] += 1
        self.moments.append(time.time())

    def _kill_actor(self) -> None:
        """One of those that paid last and live."""
        while not (pids := self._actors()):
            self._wait_for_payments(1)
        with suppress(ProcessLookupError):
            os.kill(self._draw.choice(pids), signal.SIGKILL)
            self._note("actor")

    def _actors(self) -> list[int]:
        pids = {int(line.split()[1]) for line in self._bill.read_text().splitlines()[-2 * WORKERS :]}
        return [pid for pid in sorted(pids) if _is_actor(pid)]

    def _kill_driver(self) -> None:
        """Now and then also the next one, before it has done anything."""
        for wait_s in (0.0, *([self._draw.uniform(0, 3)] if self._draw.random() < 0.2 else [])):
            time.sleep(wait_s)
            self._driver.kill()
            self._driver.communicate()
            self._note("driver")
            self._driver = self._start()

    def _replace_node(self) -> None:
        place = self._draw.randrange(len(self._cluster.nodes))
        self._cluster.remove_node(self._cluster.nodes[place], allow_graceful=False)
        self._note("node")
        self._cluster.nodes[place] = self._cluster.add_node(num_cpus=1)
        self.moments.append(time.time())


def _is_actor(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    return False


def _longest_gap(moments: list[float]) -> float:
    ordered = sorted(moments)
    return max(later - earlier for earlier, later in pairwise(ordered))
