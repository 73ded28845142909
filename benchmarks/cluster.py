"""What workers cost: the same seeds in one process, over supervised children, and over Ray actors.

local 0         one process, no supervision
local 1, 2      children over pipes (engine.runtime.run_local)
ray 1, 2, 4     actors of a Ray that the run starts for itself (engine.runtime.run_ray)

`cpu_ms_a_topic`: CPU of the process and of all that it started, raylet and GCS too, for topics of `verifiable`, less
what a worker does in its last half second; `driver_us_a_seed`: the driver's own, less what this benchmark does in it to
watch. `calls_a_topic`: of the driver to its workers, with partitions of 100 seeds. `requests_a_s`: a hosted model on
loopback with 50 ms of latency. All three are the difference of a session and one over a third of the seeds, so that
what each worker does once is in neither. `start_s`: a whole first session over 8 seeds. `peak_mb`: proportional memory
(PSS) of all processes.
Each contender runs in a process of its own; `ratio` divides by `local 0` of the same run.

    python -m benchmarks.cluster [--seeds N] [--requests N] [--only "ray 1"] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
CONTENDERS = ("local 0", "local 1", "local 2", "ray 1", "ray 2", "ray 4")
FEW = 8
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Session:
    """One session: seconds, CPU seconds of all processes and of the driver, peak MiB, rows, calls of the driver."""

    seconds: float
    cpu_s: float
    driver_s: float
    peak_mb: float
    topics: int
    calls: int

    def __sub__(self, less: Session) -> Session:
        pairs = zip(astuple(self), astuple(less), strict=True)
        return Session(*(whole - part for whole, part in pairs))


@dataclass(frozen=True)
class Result:
    """What one contender cost."""

    contender: str
    cpu_ms_a_topic: float
    topics_a_s: float
    driver_us_a_seed: float
    calls_a_topic: float
    requests_a_s: float
    cpu_ms_a_request: float
    start_s: float
    peak_mb: float


def tree(root: int) -> Iterator[tuple[int, float]]:
    """Each process below `root`, itself too: (pid, CPU seconds)."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], seconds[pid] = int(values[1]), sum(map(int, values[11:13])) / TICKS
    for pid in parents:
        above = pid
        while above not in (root, 0):
            above = parents.get(above, 0)
        if above == root:
            yield pid, seconds[pid]


def memory_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def session(spec: Any, runner: Any) -> Session:
    """Runs it and measures what it took; Ray, where there is one, runs already."""
    peak, watching, before = 0.0, 0.0, dict(tree(os.getpid()))
    after = dict(before)

    def watch(_: Any) -> None:
        nonlocal peak, watching
        began = time.thread_time()
        after.update(tree(os.getpid()))
        peak = max(peak, sum(map(memory_mb, after)))
        watching += time.thread_time() - began

    driver, began = time.process_time(), time.monotonic()
    with counted_calls() as calls:
        summary = runner(spec, watch)
    seconds, own = time.monotonic() - began, time.process_time() - driver - watching
    after.update(tree(os.getpid()))
    assert summary.complete, summary
    return Session(
        seconds, sum(after.values()) - sum(before.values()), own, peak, summary.counts.topics.total(), len(calls)
    )


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """The names of the methods that the driver calls at its workers."""
    from foil.engine.runtime.workers import RemoteWorker

    made, plain = [], RemoteWorker.__init__

    def counting(worker: Any, call: Any, end: Any) -> None:
        def counted(method: str, *arguments: Any) -> Any:
            made.append(method)
            return call(method, *arguments)

        plain(worker, counted, end)

    with patch.object(RemoteWorker, "__init__", counting):
        yield made


def rule_spec(folder: Path, seeds: int, runtime: dict[str, Any]) -> Any:
    from foil.cluster.build import build_run
    from foil.cluster.job import load_job
    from foil.datasets_out.commits.log import CommitLog
    from tests.support.commands import write_job

    folder.mkdir()
    overrides = [f"runtime={json.dumps({'window': 64, **runtime})}", "limits={partition_seeds: 100}"]
    job = load_job(write_job(folder, seeds), overrides)
    spec = build_run(job)
    CommitLog(job.out).open(spec.fingerprint, spec.identity)
    return spec


def hosted_spec(folder: Path, requests: int, runtime: dict[str, Any], url: str) -> Any:
    from foil.engine.flow.limits import Limits, RuntimeSettings
    from foil.engine.runtime.session import RunSpec, WorkerSpec
    from tests.support.drills.run_drill import Builder
    from tests.support.small_parts import Numbers

    settings = RuntimeSettings(window=128, **runtime)
    worker = WorkerSpec(Builder(folder, url, max_concurrency=128), Limits(partition_seeds=100), settings)
    return RunSpec(Numbers(requests), (), worker)


def contend(name: str, seeds: int, requests: int, url: str) -> Result:
    """Runs one contender in this process."""
    kind, _, workers = name.partition(" ")
    runtime = {"kind": kind, "workers": int(workers)}
    if kind == "ray":
        from foil.engine.runtime.run_ray import run
    else:
        from foil.engine.runtime.run_local import run
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        few = session(rule_spec(folder / "few", FEW, runtime), run)
        with ray_kept(kind, int(workers)):
            rules = [session(rule_spec(folder / f"rules{of}", seeds // of, runtime), run) for of in (3, 1)]
            hosted = [session(hosted_spec(folder / f"hosted{of}", requests // of, runtime, url), run) for of in (3, 1)]
    topic, request = rules[1] - rules[0], hosted[1] - hosted[0]
    return Result(
        name,
        1000 * topic.cpu_s / topic.topics,
        topic.topics / topic.seconds,
        1e6 * topic.driver_s / (seeds - seeds // 3),
        topic.calls / topic.topics,
        (requests - requests // 3) / request.seconds,
        1000 * request.cpu_s / (requests - requests // 3),
        few.seconds,
        rules[1].peak_mb,
    )


def ray_kept(kind: str, cpus: int) -> Any:
    """A Ray for several sessions, so that its start is in none of them."""

    @contextmanager
    def kept() -> Iterator[None]:
        if kind != "ray":
            yield
            return
        import ray

        ray.init(address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False)
        try:
            yield
        finally:
            ray.shutdown()

    return kept()


def table(results: list[Result]) -> str:
    names = list(asdict(results[0]))[1:]
    lines = ["| contender | " + " | ".join(names) + " | CPU a topic, ratio |", "|---" * (len(names) + 2) + "|"]
    for result in results:
        cells = [f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in list(asdict(result).values())[1:]]
        ratio = result.cpu_ms_a_topic / results[0].cpu_ms_a_topic
        lines.append(f"| {result.contender} | " + " | ".join(cells) + f" | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--only", choices=CONTENDERS)
    parser.add_argument("--quick", action="store_true", help="within a minute")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.quick:
        told.seeds, told.requests = 600, 600
    if told.url:
        print(json.dumps(asdict(contend(told.only, told.seeds, told.requests, told.url))))
        return
    from tests.support.models.fault_server import Behaviour, serving

    results = []
    names = [told.only] if told.only else [*CONTENDERS[:1], "local 2", "ray 2"] if told.quick else list(CONTENDERS)
    with serving(Behaviour(latency=0.05)) as server:
        for name in names:
            options = [
                "--only",
                name,
                "--url",
                server.url,
                "--seeds",
                str(told.seeds),
                "--requests",
                str(told.requests),
            ]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
            command = [sys.executable, "-m", "benchmarks.cluster", *options]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            results.append(Result(**json.loads(done.stdout.splitlines()[-1])))
    print(json.dumps([asdict(result) for result in results]) if told.json else table(results))


if __name__ == "__main__":
    main()
