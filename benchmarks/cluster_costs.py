"""What a cluster costs: the same job in this process, over child processes, and over Ray actors of one machine.

rules    topics of the embedded rule writer, from the documentation of installed libraries: what takes CPU is Foil
hosted   one prompt a seed to a model behind HTTP (the fault server, in a process of its own): what takes CPU is asking

Each layout runs in a process of its own. Rates and CPU time are taken between a tenth of the way and the last progress
before the end, so that starting is left out. CPU is told apart by who used it: the driver, the workers, and (over Ray)
all else that Ray started. The driver reads the seeds; what that alone costs is measured apart, over the same seeds.

    python benchmarks/cluster_costs.py [--layouts local:0 local:2 ray:1 ray:2 ray:4] [--topics N] [--requests N]
        [--quick] [--json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
LAYOUTS = ("local:0", "local:1", "local:2", "ray:1", "ray:2", "ray:4")
QUICK_LAYOUTS = ("local:0", "ray:2")
CONCURRENCY = 256
PARTITION_SEEDS = 100
BASE_SEEDS = 500
LATENCY = ("--latency", "0.2")
WORKER_COMMANDS = ("ray::", "multiprocessing.spawn", "child ")


@dataclass
class Meter:
    """CPU seconds of this process (`driver`), its workers, and all else that it started (`others`), as a run goes."""

    topics: int
    samples: list[tuple[float, int, dict[str, float]]] = field(default_factory=list)
    _last: dict[int, tuple[str, float]] = field(default_factory=dict)

    def __call__(self, progress: Any) -> None:
        """A progress event; what a process had used when it was last seen alive stays counted."""
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                used = process.cpu_times()
                self._last[process.pid] = (_kind(process, me), used.user + used.system)
            except psutil.Error:
                continue
        by_kind = {"driver": 0.0, "workers": 0.0, "others": 0.0}
        for kind, seconds in self._last.values():
            by_kind[kind] += seconds
        self.samples.append((time.perf_counter(), progress.counts.topics.total(), by_kind))

    def rates(self) -> dict[str, float]:
        """Topics a second and CPU ms a topic by kind, between a tenth of the topics and the last sample."""
        begun = [sample for sample in self.samples if sample[1] >= self.topics / 10]
        if len(begun) < 2 or begun[-1][1] == begun[0][1]:
            raise SystemExit("the run was too short to be measured; ask for more topics")
        (start, before, cpu), (end, after, cpu_after) = begun[0], begun[-1]
        topics = after - before
        per_topic = {f"{kind}_ms": 1000 * (cpu_after[kind] - cpu[kind]) / topics for kind in cpu}
        return {"per_s": topics / (end - start), "cpu_ms": sum(per_topic.values()), **per_topic}


def _kind(process: psutil.Process, me: psutil.Process) -> str:
    if process.pid == me.pid:
        return "driver"
    command = " ".join(process.cmdline())
    return "workers" if any(command.startswith(name) or name in command for name in WORKER_COMMANDS) else "others"


@dataclass
class Repeated:
    """The same seeds over and over, each time under new ids; as many as are wanted."""

    seeds: list[Any]
    count: int
    skipped: int = 0

    def __iter__(self) -> Iterator[Any]:
        from dataclasses import replace

        for i in range(self.count):
            seed = self.seeds[i % len(self.seeds)]
            yield replace(seed, id=f"{seed.id}#{i // len(self.seeds)}")


def rules(told: argparse.Namespace, out: Path) -> tuple[Any, Callable[[], Any]]:
    """The reader of the rule writer's job, and what builds its parts."""
    from cluster.build import build_run
    from cluster.job import load_job

    job = out / "job.yaml"
    job.write_text(
        "seeds: {kind: python_docs}\nrecipe: {kind: verifiable}\nmodels: {writer: {kind: rule_writer}}\n"
        f"validators: [{{kind: shape}}, {{kind: leak}}, {{kind: constraint_check}}]\nout: {out / 'run'}\n"
    )
    spec = build_run(load_job(job))
    return Repeated(list(islice(spec.reader, BASE_SEEDS)), told.topics), spec.worker.build_parts


def hosted(told: argparse.Namespace, out: Path) -> tuple[Any, Callable[[], Any]]:
    """The reader of the hosted job, and what builds its parts."""
    from benchmarks.generation import Corpus

    return Corpus(told.requests), partial(build_hosted, out / "run", told.base_url)


def build_hosted(out: Path, base_url: str) -> Any:
    """The parts of the hosted job, built where they are used: a compiled template does not travel."""
    from benchmarks.generation import OnePrompt, build

    return build(out, OnePrompt(0), argparse.Namespace(base_url=base_url, concurrency=CONCURRENCY), None)


def measure(told: argparse.Namespace) -> dict[str, Any]:
    """One layout over one work, in this process."""
    from datasets_out.commits.log import CommitLog
    from engine.flow.limits import Limits, RuntimeSettings
    from engine.runtime import run_local
    from engine.runtime.session import RunSpec, WorkerSpec

    kind, _, workers = told.layout.partition(":")
    topics, work = (told.topics, rules) if told.work == "rules" else (told.requests, hosted)
    with tempfile.TemporaryDirectory(prefix="foil-bench-") as name:
        out = Path(name)
        reader, build_parts = work(told, out)
        CommitLog(out / "run").open("bench", {})
        window = 32 if told.work == "rules" else 2 * CONCURRENCY // max(1, int(workers))
        runtime = RuntimeSettings.model_validate({"kind": kind, "workers": int(workers), "window": window})
        worker = WorkerSpec(build_parts, Limits(partition_seeds=PARTITION_SEEDS), runtime)
        meter = Meter(topics)
        with _Runner(kind, int(workers), run_local.run) as run:
            summary = run(RunSpec(reader, (), worker), meter)
    if summary.counts.topics.total() != topics:
        raise SystemExit(f"the run stopped: {summary.stopped}")
    return meter.rates()


class _Runner:
    """The function that runs a layout; a Ray of its own around it where it needs one."""

    def __init__(self, kind: str, workers: int, local: Any) -> None:
        self._kind, self._workers, self._local = kind, workers, local

    def __enter__(self) -> Any:
        if self._kind == "local":
            return self._local
        import ray

        from engine.runtime import run_ray

        ray.init(address="local", num_cpus=self._workers, include_dashboard=False, log_to_driver=False)
        return run_ray.run

    def __exit__(self, *_: object) -> None:
        if self._kind == "ray":
            import ray

            ray.shutdown()


def reading_us(told: argparse.Namespace) -> float:
    """CPU microseconds a seed of reading and cutting alone, over the rule writer's seeds."""
    from engine.flow.limits import Limits
    from engine.runtime.seed_stream import split_into_partitions

    with tempfile.TemporaryDirectory(prefix="foil-bench-") as name:
        reader, _ = rules(told, Path(name))
        began = time.process_time()
        seeds = sum(len(p.seeds) for p in split_into_partitions(reader, (), Limits(partition_seeds=PARTITION_SEEDS)))
        return 1e6 * (time.process_time() - began) / seeds


def run_layout(work: str, layout: str, told: argparse.Namespace, base_url: str = "") -> dict[str, Any]:
    command = [sys.executable, __file__, "--work", work, "--layout", layout, "--base-url", base_url]
    command += ["--topics", str(told.topics), "--requests", str(told.requests)]
    paths = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{work} {layout} ended with {done.returncode}: {done.stderr[-800:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=None)
    parser.add_argument("--topics", type=int, default=0)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--work", choices=("rules", "hosted"), help="measure this work in this process")
    parser.add_argument("--layout", help="and this layout")
    parser.add_argument("--base-url", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    told.topics = told.topics or (800 if told.quick else 10_000)
    told.requests = told.requests or (2_000 if told.quick else 20_000)
    if told.layout:
        print(json.dumps(measure(told)))
        return
    layouts = told.layouts or (QUICK_LAYOUTS if told.quick else LAYOUTS)
    found: dict[str, Any] = {"reading_us_per_seed": reading_us(told)}
    print(f"reading and cutting: {found['reading_us_per_seed']:.0f} us of CPU a seed")
    for layout in layouts:
        found[f"rules {layout}"] = run_layout("rules", layout, told)
        print(_line("rules", layout, found), flush=True)
    from benchmarks.generation import server

    for layout in layouts:
        with server(argparse.Namespace(base_url=""), LATENCY) as (url, _):
            found[f"hosted {layout}"] = run_layout("hosted", layout, told, url)
        print(_line("hosted", layout, found), flush=True)
    if told.json:
        print(json.dumps(found))


def _line(work: str, layout: str, found: dict[str, Any]) -> str:
    numbers, base = found[f"{work} {layout}"], found.get(f"{work} local:0")
    text = "  ".join(f"{name} {value:,.2f}" for name, value in numbers.items())
    if base and base is not numbers:
        text += (
            f"  ratio_cpu {numbers['cpu_ms'] / base['cpu_ms']:.2f}  ratio_per_s {numbers['per_s'] / base['per_s']:.2f}"
        )
    return f"{work:7} {layout:8} {text}"


if __name__ == "__main__":
    main()
