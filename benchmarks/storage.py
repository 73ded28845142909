"""What the log of a very large run costs: opening it, its state, counts over it, commits a second, requests to S3.

    python -m benchmarks.storage [--quick] [--json] [--topics 100000000] [--keep FOLDER]

One partition of real topics is committed, and its entry is the template of all others, with digests of their own; the
log's own code folds them into manifests. Packs are synthetic: one file of topics under many names, and no other table.
`status` and each query run in a process of their own, by the product's own commands. `sums` asks the view `runs`, and
`count by status` groups `topics`: both are known from the version. `count by recipe` reads that column of every topic.
`one topic` asks for a topic by its id, which three packs hold: its own, and as many as filters let pass by chance. The
filters have as many ids as real ones; those of the other packs are sixteen files under many names.

Requests are counted by a store around the one on disk, for the log alone (no journal), and priced as S3 in us-east-1
lists them: 0.005 USD for 1,000 puts or lists, 0.0004 for 1,000 gets, 0.023 a GB and month.
`ratio_open` is the slowest of opening, status, the sums and the count by status against 2 s; `ratio_memory` their most
memory against 200 MB; `ratio_commits` is 100 commits a second against those measured. Under 1 is good.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.commits import make_topic
from foil.datasets_out.commits.encoding import RowWriter
from foil.datasets_out.commits.entries import CommitEntry, CommittedFile, shared_name
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES, record_key, to_tables
from foil.datasets_out.commits.versions import (
    Pack,
    added,
    encode_manifest,
    first_version,
    ids_name,
    pack_name,
)
from foil.datasets_out.compaction.folding import MANIFEST_PARTITIONS, fold
from foil.datasets_out.compaction.packing import compact
from foil.datasets_out.sql.query import WITHOUT_PANDAS
from foil.engine.ids import sha256_hex
from foil.engine.storage import bloom_filter
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.store import StoredObject
from foil.engine.topic import Topic

PARTITION = 256
PACKED = 200
"""Partitions in a pack: 128 MB of a table of these topics, about."""
SUMS = "SELECT topics_accepted, topics_rejected, topics_failed FROM runs"
COUNT = "SELECT {column}, count(*) AS topics FROM topics GROUP BY {column}"
IDS = 12
"""Topic, seed, five intents, five passages; the only call of a topic of these is left out."""
HOLDERS = 3
ONE = "SELECT count(*), any_value(query) FROM topics WHERE topic_id = '{topic}'"
OPEN = (
    "from pathlib import Path; from foil.datasets_out.commits.snapshot import load_snapshot; "
    "load_snapshot(Path({out!r}), None).rows('topics')"
)
STATUS = (
    "from foil.cluster.commands.app import app; from foil.cluster.endings import run_command; "
    "run_command(app, ['status', {out!r}])"
)
QUERY = (
    "from foil.datasets_out.sql import query_process as q; "
    "c = q.connect(dict(runs={{'r': {out!r}}}, snapshot=None, sql={sql!r}, timeout_s=600, memory_bytes=4 << 30)); "
    "print(c.sql({sql!r}).fetchall())"
)
PEAK = "; import tests.support.memory as m; print('peak', m.peak_memory())"
MB = 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000_000)
    parser.add_argument("--quick", action="store_true", help="2,000,000 topics")
    parser.add_argument("--keep", type=Path, help="where the large log lies, or is to lie, instead of being made anew")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = args.keep or Path(folder) / "large"
        figures = measure(Path(folder), large, 2_000_000 if args.quick else args.topics, 200 if args.quick else 1000)
    for name, value in figures.items():
        print(f"{name:44} {value:16,.4f}")
    if args.json:
        print(json.dumps(figures))


def measure(folder: Path, large: Path, topics: int, commits: int) -> dict[str, float]:
    sample = template()
    partitions = topics // PARTITION
    if not (large / "plan.json").exists():
        make_log(large, partitions, sample)
    figures = {"partitions": float(partitions), "topics": float(partitions * PARTITION)} | reading(large, sample[7].id)
    figures |= rates(folder / "rates", commits, sample)
    figures |= requests(folder / "requests", 64, sample)
    aimed = ("open", "status", "sums", "count_by_status")
    slowest, most = (max(figures[f"{name}_{unit}"] for name in aimed) for unit in ("s", "mb"))
    return figures | {
        "ratio_open": slowest / 2,
        "ratio_memory": most / 200,
        "ratio_commits": 100 / figures["commits_per_s"],
    }


def template() -> list[Topic]:
    """The topics of one partition."""
    rng = random.Random(1)
    words = [f"{rng.randrange(1 << 40):x}"[: rng.randrange(2, 9)] for _ in range(20_000)]
    topics = (make_topic(number, rng, words) for number in range(PARTITION))
    return [replace(topic, id=sha256_hex(topic.id)[:24]) for topic in topics]


def make_log(out: Path, partitions: int, topics: list[Topic]) -> None:
    """A log of so many partitions, as version 2."""
    log = CommitLog(out)
    log.open("bench", {"recipe": "bench"})
    log.commit(0, topics, {"seeds": {"seeds": "0" * 8 * PARTITION, "stream": "0" * 32}})
    first = log.entry(0)
    fold(log)
    version = first_version("bench")
    manifests = []
    for begin in range(0, partitions, MANIFEST_PARTITIONS):
        entries = [like(first, number) for number in range(begin, min(begin + MANIFEST_PARTITIONS, partitions))]
        manifest, blobs = encode_manifest(entries)
        for name, blob in blobs.items():
            log.files.put_content(name, blob)
        manifests.append(manifest)
        version = added(version, entries, manifests)
    log.put_version(replace(version, number=2, packs=tuple(packs(log, topics, partitions))))
    log.put_plan({"seeds": partitions * PARTITION, "partitions": partitions})


def reading(out: Path, topic: str) -> dict[str, float]:
    """What opening a large log takes, its state, counts over it, and a topic of it."""
    versions = [path.stat().st_size for path in (out / "versions").iterdir()]
    figures = {"version_mb": (out / "versions/00000002.json").stat().st_size / MB, "log_mb": sum(versions) / MB}
    for name, code, repeats in (
        ("open", OPEN.format(out=str(out)), 5),
        ("status", STATUS.format(out=str(out)), 5),
        ("sums", WITHOUT_PANDAS + QUERY.format(out=str(out), sql=SUMS), 5),
        ("count_by_status", WITHOUT_PANDAS + QUERY.format(out=str(out), sql=COUNT.format(column="status")), 5),
        ("one_topic", WITHOUT_PANDAS + QUERY.format(out=str(out), sql=ONE.format(topic=topic)), 5),
        ("count_by_recipe", WITHOUT_PANDAS + QUERY.format(out=str(out), sql=COUNT.format(column="recipe")), 1),
    ):
        figures[f"{name}_s"], figures[f"{name}_cpu_s"], figures[f"{name}_mb"] = fresh(code, repeats)
    return figures


def like(first: CommitEntry, partition: int) -> CommitEntry:
    """The entry of another partition, with digests of its own."""
    rng = random.Random(partition)
    files = {
        table: replace(file, path=shared_name(table, partition), sha256=rng.randbytes(32).hex())
        for table, file in first.files.items()
    }
    seeds = {"seeds": rng.randbytes(4 * PARTITION).hex(), "stream": rng.randbytes(16).hex()}
    return replace(first, partition=partition, files=files, facts={"seeds": seeds})


def packs(log: CommitLog, topics: list[Topic], partitions: int) -> Iterator[Pack]:
    """Packs of PACKED partitions whose topics lie in one file under many names, and of nothing else."""
    rows, path = to_tables(topics, 0)["topics"], log.out / "one.parquet"
    with RowWriter(path, TABLES["topics"]) as writer:
        for _ in range(PACKED):
            writer.write(rows)
    own, *others = filters(log, topics)
    holders = {partitions // PACKED * number // HOLDERS * PACKED for number in range(HOLDERS)}
    for begin in range(0, partitions, PACKED):
        last = min(begin + PACKED, partitions) - 1
        files = {}
        for table in TABLES:
            sha256 = hashlib.sha256(f"{table} {begin}".encode()).hexdigest()
            files[table] = CommittedFile(pack_name(table, sha256), PACKED * PARTITION, path.stat().st_size, sha256)
        (log.out / files["topics"].path).hardlink_to(path)
        yield Pack(begin, last, files, own if begin in holders else others[begin // PACKED % len(others)])


def filters(log: CommitLog, topics: list[Topic]) -> Iterator[CommittedFile]:
    """The filter of a pack with these topics and random ids, then sixteen of random ids alone."""
    rng, many = random.Random(2), PACKED * PARTITION * IDS
    for number in range(17):
        keys = {record_key(topic.id) for topic in topics} if number == 0 else set()
        while len(keys) < many:
            keys.add(f"{rng.getrandbits(32):08x}")
        blob = bloom_filter.encode(keys)
        file = CommittedFile(ids_name(sha256_hex(blob)), many, len(blob), sha256_hex(blob))
        log.files.put_content(file.path, blob)
        yield file


def fresh(code: str, repeats: int) -> tuple[float, float, float]:
    """Wall and CPU seconds and MB of a process of its own, the fastest of some; an interpreter's start is in them."""
    best = (float("inf"), float("inf"), float("inf"))
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", code + PEAK]
    for _ in range(repeats):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, (wall, cpu, int(child.stdout.split()[-1]) / MB))
    return best


def rates(out: Path, commits: int, topics: list[Topic]) -> dict[str, float]:
    """Commits a second of four processes; each partition has four topics. Then their entries are folded."""
    log = CommitLog(out)
    log.open("bench", {"recipe": "bench"})
    with ProcessPoolExecutor(4, get_context("fork")) as pool:
        list(pool.map(partial(commit_few, out, topics[:4]), range(commits, commits + 16)))  # they are up
        start = time.perf_counter()
        list(pool.map(partial(commit_few, out, topics[:4]), range(commits), chunksize=10))
        wall = time.perf_counter() - start
    start = time.perf_counter()
    fold(log)
    return {"commits_per_s": commits / wall, "folded_entries_per_s": (commits + 16) / (time.perf_counter() - start)}


def commit_few(out: Path, topics: list[Topic], partition: int) -> None:
    """Commits these topics under other ids."""
    renamed = [replace(t, id=f"{partition}-{t.id}", seed_id=f"{partition}-{t.seed_id}") for t in topics]
    log_of(out).commit(partition, renamed, {})


@cache
def log_of(out: Path) -> CommitLog:
    """The log of this process, as a worker has one."""
    return CommitLog(out)


class CountingStore(LocalStore):
    """Counts requests by what S3 asks for them, and the bytes that they move."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.counts: Counter[str] = Counter()

    def _count(self, kind: str, nbytes: int = 0) -> None:
        self.counts[kind] += 1
        self.counts[f"{kind}_bytes"] += nbytes

    def put_if_absent(self, key: str, data: bytes) -> bytes | None:
        self._count("put", len(data))
        return super().put_if_absent(key, data)

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        self._count("put", len(data))
        super().put(key, data, durable=durable)

    def put_file(self, key: str, path: Path) -> None:
        parts = max(1, -(-path.stat().st_size // (8 << 20)))  # multipart: begin, parts, end
        self.counts["put"] += parts + 2
        self.counts["put_bytes"] += path.stat().st_size
        super().put_file(key, path)

    def get(self, key: str) -> bytes | None:
        data = super().get(key)
        self._count("get", len(data or b""))
        return data

    def list_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        found = list(super().list_objects(prefix, after=after))
        self.counts["list"] += 1 + len(found) // 1000
        return iter(found)

    def delete(self, keys: Iterable[str]) -> None:
        self.counts["delete"] += 1
        super().delete(keys)


def requests(out: Path, partitions: int, topics: list[Topic]) -> dict[str, float]:
    """Requests and bytes of partitions of PARTITION topics, committed, folded and packed; and for a million topics."""
    store = CountingStore(out)
    log = CommitLog(store)
    log.open("bench", {"recipe": "bench"})
    began = Counter(store.counts)
    for number in range(partitions):
        renamed = [replace(t, id=f"{number}-{t.id}", seed_id=f"{number}-{t.seed_id}") for t in topics]
        log.commit(number, renamed, {"seeds": {"seeds": "0" * 8 * PARTITION}})
    committed = store.counts - began
    fold(log)
    folded = store.counts - began - committed
    compact(log)
    packed = store.counts - began - committed - folded
    figures: dict[str, float] = {}
    many = 1_000_000 / (partitions * PARTITION)
    for name, counts in (("commit", committed), ("fold", folded), ("compact", packed)):
        figures |= {f"{name}_{kind}s_a_partition": counts[kind] / partitions for kind in ("put", "get", "list")}
        usd = 0.005 * (counts["put"] + counts["list"]) / 1000 + 0.0004 * counts["get"] / 1000
        figures[f"{name}_usd_a_million_topics"] = usd * many
    stored = committed["put_bytes"] * many
    return figures | {
        "stored_gb_a_million_topics": stored / 1e9,
        "usd_a_month_and_million_topics": 0.023 * stored / 1e9,
    }


if __name__ == "__main__":
    main()
