"""`python -m tests.support.simulator --seed N` plays one seed; `--seeds A:B` many, with a table at the end."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from multiprocessing import Pool
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.simulator.life import Outcome

COLUMNS = (
    "kills", "I/O failures", "lost writes", "edited inputs", "provider faults", "absurd usage", "races", "signals",
    "clock jumps", "lost answers", "flipped bits", "trainings", "mined and exported", "killed processes",
    "moved folders", "packed runs", "damaged snapshots",
)  # fmt: skip
_PROGRESS_SEEDS = 250
_COMMAND = " ".join(["python -m tests.support.simulator", *(["--bucket"] if "--bucket" in sys.argv else [])])
_CHUNK, _CHUNKS = 10, 40
"""Seeds that a worker process is handed at a time, and how often before another takes its place: caches grow."""


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":  # else the order of sets would differ from one process to the next
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.support.simulator", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulator")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print every call of the disk and every request")
    parser.add_argument("--processes", type=int, default=0, help="play each so-manieth seed in real processes, 0: none")
    parser.add_argument("--bucket", action="store_true", help="runs that lie in a bucket")
    parser.add_argument("--stop", action="store_true", help="end at the first violation")
    told = parser.parse_args()
    first, _, end = told.seeds.partition(":")
    seeds = range(told.seed, told.seed + 1) if told.seed is not None else range(int(first), int(end))
    play_one = {"traced": told.trace, "processes": told.processes, "bucket": told.bucket}
    sys.exit(play_all(seeds, told.workers, play_one, stop=told.stop))


def play_all(seeds: range, workers: int, options: dict[str, Any], *, stop: bool) -> int:
    """Plays the seeds and prints the table; 1 if there is a violation."""
    from tests.support.simulator.play import play

    play_one = partial(play, **options)
    new = Pool(workers, maxtasksperchild=_CHUNKS) if workers > 1 else nullcontext()
    with new as pool:
        return _report(pool.imap(play_one, seeds, _CHUNK) if pool else map(play_one, seeds), len(seeds), stop=stop)


def _report(outcomes: Iterable["Outcome"], seeds: int, *, stop: bool) -> int:
    began, told, violations, played = time.perf_counter(), Counter[str](), 0, 0
    for outcome in outcomes:  # in the order of their seeds
        played += 1
        told += outcome.told
        print(*(outcome.trace or ()), sep="\n", end="\n" if outcome.trace else "")
        for violation in dict.fromkeys(outcome.violations):
            violations += 1
            print(
                f"seed {outcome.seed}: {violation}\n    {_COMMAND} --seed {outcome.seed}",
                flush=True,
            )
        if played % _PROGRESS_SEEDS == 0:
            print(
                f"played to seed {outcome.seed}, {violations} violations, {time.perf_counter() - began:.0f} s; "
                f"go on with --seeds {outcome.seed + 1}:",
                file=sys.stderr,
                flush=True,
            )
        if seeds == 1:
            print(f"digest of the trace: {outcome.digest}")
        if stop and violations:
            break
    for name, number in {"seeds": played, **{name: told[name] for name in COLUMNS}, "violations": violations}.items():
        print(f"{name:<20} {number:>9,}")
    print(f"{'seconds':<20} {time.perf_counter() - began:>9.1f}")
    return int(violations > 0)


if __name__ == "__main__":
    main()
