"""What every life has: `foil` as a process of its world, its judgement, and the troubles that a seed draws for it."""

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from foil.cluster.__main__ import run
from tests.support.simulator import inputs
from tests.support.simulator.checker import EXIT_CODES, HELD, Version
from tests.support.simulator.disk import FAULTS
from tests.support.simulator.world import Fault, Process, World

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
WHERE = (
    "sessions",
    "journal",
    "staging/0",
    "staging/part",
    "plan.json",
    "run.json",
    "snapshots",
    "commits",
    "data",
    "",
)
POINTS = (
    "journal.asked", "ask.answered", "journal.written", "journal.synced", "journal.carried", "journal.begun",
    "journal.indexed", "journal.closed",
    "flow.made", "flow.committed",
    "session.planned", "commit.encoded", "put.staged", "put.linked", "commit.placed", "commit.entered", "commit.swept",
)  # fmt: skip

_SHORT_WRITE_OF_THE_JOURNAL = 0.15


@dataclass
class Outcome:
    """What a scenario found. `violations` are `kind: detail`."""

    seed: int
    told: Counter[str]
    digest: str
    violations: list[str] = field(default_factory=list)
    trace: list[str] | None = None


class Life:
    """One seed's doings in one world. `found` are the violations."""

    calls = 500
    """So many calls of the disk a kill may come after."""
    where = WHERE
    """Parts of paths where a call of the disk may fail."""

    def __init__(self, world: World) -> None:
        self.world, self.dice, self.folder = world, world.dice, world.folder
        self.out, self.place = world.folder / "box" / "out", "box/out"
        self.found: list[str] = []
        self.power_cuts = 0

    def play(self) -> None:
        """The whole life; `found` has what was wrong."""
        raise NotImplementedError

    def violated(self, text: str) -> None:
        self.found.append(text)
        self.world.note(f"violation {text}")

    def foil(self, *words: object, **troubles: Any) -> Process:
        """`foil WORDS` as one process."""
        process = Process(partial(run_foil, words), **troubles)
        self.world.run([process])
        self._judge(process, words)
        return process

    def _judge(self, process: Process, words: tuple[object, ...]) -> None:
        said = process.stderr
        if process.failure or ("Traceback" in said and process.code is not None):
            self.violated(f"traceback: foil {words[0]}: {process.failure or said.splitlines()[-1]}")
        elif process.code not in EXIT_CODES | {None} | ({HELD} if process.racing else set()):
            self.violated(f"exit code: foil {words[0]} ended with {process.code}: {said[-300:].strip()}")
        elif process.code and process.code < 128 and not said:
            self.violated(f"silence: foil {words[0]} ended with {process.code} and no word")

    def write(self, path: Path, data: bytes) -> None:
        """Changes a file of the run."""
        path.write_bytes(data)

    def _cut_power(self) -> None:
        self.world.told["lost writes"] += self.world.disk.cut_power(self.dice)
        self.world.note("power cut")
        self.power_cuts += 1

    def _troubles(self, dice: Random) -> dict[str, Any]:
        troubles: dict[str, Any] = {}
        if dice.random() < 0.5:
            troubles["kill_at"] = dice.randint(1, dice.choice((150, self.calls)))
        elif dice.random() < 0.3:
            troubles["crash_point"] = f"{dice.choice(POINTS)}:{dice.randint(1, 5)}"
        if dice.random() < 0.4:
            troubles["faults"] = [draw_fault(dice, self.where)]
        if dice.random() < 0.1:
            troubles["signal_at"] = dice.randint(1, self.calls)
        if dice.random() < 0.2:
            troubles["clock_at"] = dice.randint(1, self.calls)
        return troubles


def run_foil(words: Any) -> int:
    """The program `foil`, in this process."""
    sys.argv = ["foil", *map(str, words)]
    try:
        return run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1


def draw_fault(dice: Random, parts: tuple[str, ...]) -> Fault:
    """A call that fails: any, or one below a part of the run; for a run a short write of its journal more often."""
    if parts is WHERE and dice.random() < _SHORT_WRITE_OF_THE_JOURNAL:
        return Fault("write", "journal", dice.randint(1, 12), 0)
    call = dice.choice((*FAULTS, "any", "any"))
    where = dice.choice(parts) if dice.random() < 0.5 else ""
    error = dice.choice(FAULTS.get(call, (0,)))
    return Fault(call, where, int(dice.expovariate(1 / (4 if where else 15))) + 1, error, dice.random() < 0.3)


SEEDS = 16


def put_finished_run(world: World) -> None:
    """Writes the run into `box/out` of a world; it is durable."""
    for name, data in _finished_run().items():
        path = world.folder / "box" / "out" / name
        if data is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    world.disk.synced()


@cache
def _finished_run() -> dict[str, bytes | None]:
    """Every file of the run, by its path below `out`; None for a folder."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="foil-sim-") as name, World(0, Path(name)).ruling() as world:
        inputs.write(Version(tuple(map(inputs.row, range(SEEDS))), 4), world.folder / "seeds.jsonl")
        (world.folder / "job.yaml").write_text(
            "seeds: {kind: table, corpus: kites, path: seeds.jsonl, columns: {query: query, positives: good, id: id, "
            "negatives: bad}}\nrecipe: {kind: verifiable}\nout: box/out\n"
            "limits: {partition_seeds: 4}\n"
        )
        process = Process(lambda: run_foil(("run", "job.yaml")))
        world.run([process])
        if process.code != 0:
            raise RuntimeError(f"a run in peace ended with {process.code}: {process.stderr}")
        out = world.folder / "box" / "out"
        paths = sorted(out.rglob("*"))
        return {path.relative_to(out).as_posix(): None if path.is_dir() else path.read_bytes() for path in paths}
