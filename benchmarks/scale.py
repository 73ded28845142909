"""One million topics on one machine: generated, validated and committed in bounded memory, then queried.

Real seeds (the documentation of installed libraries) are repeated under new ids, so every topic is made and checked
anew. Prints the rate, CPU per topic, peak memory at a tenth and at the whole, and the time of `foil status` and of
GROUP BY queries over the views.

    python -m benchmarks.scale [--topics 1000000] [--workers 2] [--out DIR] [--quick] [--json]
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from foil.cluster.build import build_run
from foil.cluster.job import load_job
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.sql.query import run_sql
from foil.engine.flow.progress import Progress
from foil.engine.runtime import run_local
from foil.engine.runtime.session import RunSpec
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.topic import Seed

BASE_SEEDS = 2000
QUERIES = {
    "topics by status": "SELECT status, reason, count(*) FROM topics GROUP BY ALL",
    "intents by role": "SELECT role, count(*) FROM intents GROUP BY ALL",
    "judgments by judge": "SELECT judge, relevance, count(*) FROM judgments GROUP BY ALL",
    "verdicts by outcome": "SELECT validator, outcome, count(*) FROM verdicts GROUP BY ALL",
    "passages by role": "SELECT role, count(*) FROM passages GROUP BY ALL",
    "calls by model": "SELECT model, count(*), sum(completion_tokens) FROM calls GROUP BY ALL",
}
JOB = """\
seeds: {kind: python_docs}
recipe: {kind: verifiable}
validators: [{kind: shape}, {kind: leak}, {kind: constraint_check}]
out: OUT
limits: {seeds: TOPICS, partition_seeds: 2000}
runtime: {kind: local, window: 32, workers: WORKERS}
"""


class Repeated:
    """The first seeds of a reader, over and over, each time under new ids."""

    ledger = Ledger()

    def __init__(self, seeds: list[Seed]) -> None:
        self._seeds = seeds

    def __iter__(self) -> Iterator[Seed]:
        for lap in count():
            for seed in self._seeds:
                yield replace(seed, id=f"{seed.id}#{lap}")


class Watch:
    """Follows a run: peak resident memory of the whole process tree, at a tenth of the way and at the end."""

    def __init__(self, topics: int) -> None:
        self.topics, self.tenth_mib, self.peak_mib, self._next = topics, 0.0, 0.0, 0.0

    def __call__(self, state: Progress) -> None:
        self.peak_mib = max(self.peak_mib, tree_mib())
        if state.counts.seeds.total() <= self.topics / 10:
            self.tenth_mib = self.peak_mib
        if state.seconds >= self._next:
            self._next = state.seconds + 30
            print(f"{state.seconds:6.0f} s {state.counts.seeds.total():9,} seeds, {self.peak_mib:,.0f} MiB", flush=True)


def tree_mib() -> float:
    """Resident memory of this process and its descendants, in MiB, each shared page counted in shares."""
    pids = [str(i) for i in descendants()]
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def descendants() -> list[int]:
    pids = [int(Path("/proc/self").resolve().name)]
    for pid in pids:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                pids += map(int, children.read_text().split())
            except OSError:
                continue
    return pids


def timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--topics", type=int, default=1_000_000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--out", type=Path)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true")
    args = options.parse_args()
    topics = 6000 if args.quick else args.topics
    folder = args.out or Path(tempfile.mkdtemp(prefix="foil-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.yaml").write_text(
        JOB.replace("OUT", str(folder / "run")).replace("TOPICS", str(topics)).replace("WORKERS", str(args.workers))
    )
    job = load_job(folder / "job.yaml")
    spec = build_run(job)
    seeds = list(islice(spec.reader, BASE_SEEDS))
    CommitLog(job.out).open(spec.fingerprint, spec.identity)
    watch, cpu = Watch(topics), cpu_s()
    summary = run_local.run(RunSpec(Repeated(seeds), spec.screens, spec.worker), watch)
    cpu = cpu_s() - cpu
    foil = [sys.executable, "-m", "foil"]
    figures = {
        "topics": summary.counts.topics.total(),
        "accepted": summary.counts.topics["accepted"],
        "seconds": round(summary.seconds, 1),
        "topics_per_s": round(topics / summary.seconds, 1),
        "cpu_ms_per_topic": round(1000 * cpu / topics, 3),
        "peak_mib": round(watch.peak_mib),
        "bytes_per_topic": round(sum(p.stat().st_size for p in (job.out / "data").rglob("*.parquet")) / topics),
        "status_s": round(timed([*foil, "status", str(job.out), "--json"]), 2),
        "ratio_memory_whole_to_tenth": round(watch.peak_mib / max(watch.tenth_mib, 1), 2),
    }
    for name, sql in QUERIES.items():
        start = time.perf_counter()
        run_sql(job.out, sql)
        figures[f"sql_s {name}"] = round(time.perf_counter() - start, 2)
    for name, value in figures.items():
        print(f"{name:40} {value:,}")
    if not args.out:
        shutil.rmtree(folder)
    if args.json:
        print(json.dumps(figures))


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
