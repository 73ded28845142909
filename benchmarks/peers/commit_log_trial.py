"""One table format tried as a log of commits, in a process of its own: cost, races for one key, kills.

    python -m benchmarks.peers.commit_log_trial NAME TABLES FOLDER COMMITS ROUNDS    prints one JSON object

TABLES holds NAME.parquet for each of the six tables of a partition.
"""

import json
import multiprocessing as mp
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.peers.commit_log_stores import STORES, Rows, missing, versions

MANY = 10_000
"""Keys of a writer that is killed: more than it can commit."""


def main() -> None:
    name, given, folder, commits, rounds = sys.argv[1:]
    if why := missing(name):
        print(json.dumps({"skipped": why}))
        return
    print(json.dumps(trial(name, Path(given), Path(folder), int(commits), int(rounds))))


def trial(name: str, given: Path, folder: Path, commits: int, rounds: int) -> dict[str, Any]:
    """The figures of a store."""
    tables = read_tables(given)
    store = STORES[name](folder)
    store.begin(tables)
    start, cpu = time.perf_counter(), time.process_time()
    for key in range(commits):
        if not store.commit(key, tables):
            raise SystemExit(f"{name}: commit {key} was refused")
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    files = [path for path in folder.rglob("*") if path.is_file()]
    sizes = {table: rows.total() // commits for table, rows in store.rows().items()}
    figures = {
        "versions": versions(name), "ms_a_commit": 1e3 * seconds / commits, "cpu_ms_a_commit": 1e3 * cpu / commits,
        "files_a_commit": len(files) / commits,
        "bytes_a_commit": sum(path.stat().st_size for path in files) / commits,
    }  # fmt: skip
    start = time.perf_counter()
    race(name, given, folder, range(commits, commits + rounds))
    figures["s_of_races"] = time.perf_counter() - start
    figures |= {"races": rounds, **after_races(STORES[name](folder).rows(), sizes, range(commits, commits + rounds))}
    return figures | {"kills": rounds, "kills_that_parted_tables": kills(name, given, folder, rounds)}


def after_races(rows: Rows, sizes: dict[str, int], keys: range) -> dict[str, int]:
    """Keys that stand twice in a table, in no table, or in one table by one writer and in the next by the other."""
    twice, lost, mixed = set(), set(), set()
    for key in keys:
        writers = {table: frozenset(by for k, by in rows[table] if k == key) for table in sizes}
        counts = {table: sum(n for (k, _), n in rows[table].items() if k == key) for table in sizes}
        twice |= {key for table in sizes if counts[table] > sizes[table]}
        lost |= {key for table in sizes if counts[table] < sizes[table]}
        mixed |= {key} if len(set(writers.values())) > 1 else set()
    return {"keys_stored_twice": len(twice), "keys_lost": len(lost), "keys_of_two_writers": len(mixed)}


def read_tables(given: Path) -> dict[str, Any]:
    """The tables of a partition."""
    return {path.stem: pq.read_table(path) for path in sorted(given.glob("*.parquet"))}


def race(name: str, given: Path, folder: Path, keys: range) -> None:
    """Two processes commit each key at one time, with other rows."""
    context = mp.get_context("spawn")
    barrier = context.Barrier(2)
    writers = [context.Process(target=_race, args=(name, given, folder, (keys, each, barrier))) for each in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(600)
        if writer.exitcode:
            raise SystemExit(f"{name}: a racing writer ended with {writer.exitcode}")


def _race(name: str, given: Path, folder: Path, task: tuple[range, int, Any]) -> None:
    keys, writer, barrier = task
    tables, store = read_tables(given), STORES[name](folder)
    for key in keys:
        barrier.wait(120)
        store.commit(key, tables, writer)


def kills(name: str, given: Path, folder: Path, rounds: int) -> int:
    """After how many kills of a writer a new key stands in some tables and not in others."""
    context, rng = mp.get_context("spawn"), random.Random(1)
    for number in range(rounds):
        ready = context.Event()
        writer = context.Process(target=_write, args=(name, given, folder, MANY * (number + 1), ready))
        writer.start()
        ready.wait(120)
        time.sleep(rng.uniform(0.05, 0.4))
        writer.kill()
        writer.join(60)
    keys = [{key for key, _ in rows if key >= MANY} for rows in STORES[name](folder).rows().values()]
    return len({key // MANY for key in set.union(*keys) - set.intersection(*keys)})


def _write(name: str, given: Path, folder: Path, first: int, ready: Any) -> None:
    tables, store = read_tables(given), STORES[name](folder)
    ready.set()
    for key in range(first, first + MANY):
        store.commit(key, tables)


if __name__ == "__main__":
    main()
