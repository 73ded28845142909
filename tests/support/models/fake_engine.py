"""An engine that costs no weights: it answers as `Echo` does, and notes each start in a file. For real Ray."""

import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from foil.engine.errors import ModelOutageError
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.flow.progress import Summary
from foil.engine.model_traits import ModelTraits
from foil.engine.models.local.local_vllm import LocalVllmSettings
from foil.engine.models.local.pooled_vllm import PooledVllm, engine_spec
from foil.engine.protocols import Parts
from foil.engine.runtime.session import RunSpec, WorkerSpec
from tests.support.small_parts import Echo, Numbers, build, opened, quiet


class FakeEngine(Echo):
    """One whose `model` is `broken` does not start."""

    def __init__(self, settings: LocalVllmSettings, bill: Path, delay_s: float = 0.05) -> None:
        super().__init__(bill, delay_s, settings.model)
        self.traits = ModelTraits(settings.params.plain(), samples=True)

    async def start(self) -> None:
        if self.name == "broken":
            raise ModelOutageError("broken: no such weights")
        with self.bill.with_name("starts").open("a") as file:
            file.write(f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES', '')}\n")


@dataclass(frozen=True)
class _Pooled:
    """Builds the parts of a worker over the pool of engines."""

    out: Path
    settings: LocalVllmSettings

    def __call__(self) -> Parts:
        return build(self.out, model=PooledVllm(self.settings))


def settings_of(engines: int, model: str = "m", **more: object) -> LocalVllmSettings:
    return LocalVllmSettings(**{"kind": "local_vllm", "model": model, "engines": engines, "engine_cpus": 1, **more})


def spec_of(out: Path, settings: LocalVllmSettings, seeds: int, workers: int = 1, delay_s: float = 0.05) -> RunSpec:
    """A run over `seeds` seeds in partitions of 8, whose workers ask engines apart from them."""
    spec = engine_spec(settings, partial(FakeEngine, bill=out / "bill", delay_s=delay_s))
    runtime = RuntimeSettings(kind="ray", window=8, workers=workers)
    return RunSpec(
        Numbers(seeds),
        (),
        WorkerSpec(_Pooled(opened(out), settings), Limits(partition_seeds=8), runtime, engines=(spec,)),
    )


def run_pooled(out: Path, settings: LocalVllmSettings, seeds: int = 40, *, progress=quiet, **more: object) -> Summary:
    """One session of it in this process."""
    from foil.engine.runtime.run_ray import run

    return run(replace(spec_of(out, settings, seeds, **more)), progress)


def main() -> None:
    """`python -m tests.support.models.fake_engine OUT SEEDS`: a session in a process of its own, over two engines."""
    summary = run_pooled(Path(sys.argv[1]), settings_of(2), int(sys.argv[2]))
    sys.exit(summary.exit_code)


if __name__ == "__main__":
    main()
