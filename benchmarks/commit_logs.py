"""The commit log beside Delta Lake, Iceberg, Lance and DuckLake: what a commit costs, and what races and kills leave.

    python -m benchmarks.commit_logs [--commits 200] [--rounds 20] [--quick] [--json] [--python PYTHON ...]

Each commits the six tables of a partition of 20 topics under a key, once; then two processes race for each of some
keys, and writers are killed. `--python`: a Python that has `deltalake`, `pyiceberg[sql-sqlite]`, `pylance`, or `duckdb`
with `duckdb-ext-ducklake` and `duckdb-ext-sqlite`, none of which is Foil's own. What no Python has is left out.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.commits import make_topic
from foil.datasets_out.commits.schema import to_tables

STORES = ("foil", "delta", "iceberg", "lance", "ducklake")
QUICK, TOPICS = 20, 20
REPO = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200, help="commits that are timed")
    parser.add_argument("--rounds", type=int, default=20, help="keys that are raced for, and kills")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} commits, 5 rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--python", action="append", default=[], help="another Python to look for a library in")
    args = parser.parse_args()
    commits, rounds = (QUICK, 5) if args.quick else (args.commits, args.rounds)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder))
        for name in STORES:
            tries = (measure(python, name, Path(folder), commits, rounds) for python in (sys.executable, *args.python))
            found[name] = next((each for each in tries if "skipped" not in each), {"skipped": "no Python given has it"})
            print(name, *(f"{key} {value}" for key, value in found[name].items()), sep="\n    ")
    if args.json:
        print(json.dumps(found))


def write_tables(folder: Path) -> None:
    """The tables of a partition, a file each."""
    words = [f"w{number}" for number in range(500)]
    topics = [make_topic(number, random.Random(number), words) for number in range(TOPICS)]
    for name, table in to_tables(topics, 0).items():
        pq.write_table(table, folder / f"{name}.parquet")


def measure(python: str, name: str, tables: Path, commits: int, rounds: int) -> dict[str, Any]:
    """The figures of a store in a folder of its own, by this Python."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "benchmarks.peers.commit_log_trial", name, tables, folder, commits, rounds]
        ended = subprocess.run([*map(str, command)], cwd=REPO, capture_output=True, text=True, check=False)
    if ended.returncode:
        return {"failed": ended.stderr.strip().splitlines()[-1][:300]}
    return dict(json.loads(ended.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
