"""One finished run, made once in a process by `foil run` in peace, and put into the worlds that use it."""

import tempfile
from functools import cache
from pathlib import Path

from tests.support.simulator import inputs
from tests.support.simulator.checker import Version
from tests.support.simulator.life import MEMORY, run_foil
from tests.support.simulator.world import Process, World

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
            "negatives: bad}}\nrecipe: {kind: verifiable}\nmodels: {writer: {kind: rule_writer}}\nout: box/out\n"
            "limits: {partition_seeds: 4}\n"
        )
        process = Process(lambda: run_foil(("run", "job.yaml")))
        world.run([process])
        if process.code != 0:
            raise RuntimeError(f"a run in peace ended with {process.code}: {process.stderr}")
        out = world.folder / "box" / "out"
        paths = sorted(out.rglob("*"))
        return {path.relative_to(out).as_posix(): None if path.is_dir() else path.read_bytes() for path in paths}
