"""How long curators' SQL takes over a million topics: the answer alone, and the whole command with its process.

    python -m benchmarks.query [--quick] [--json] [--data FOLDER]

One partition of topics is made, and copied with fresh ids until there are enough; files and commit entries are written
by the product's own code. `ratio_budget` is the slowest GROUP BY, its process included, against the 2 s that it may
take (under 1 is good); `ratio_walls` is what all of them take against DuckDB's own Parquet reader without protection.
"""

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import get_args

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from foil.datasets_out.commits.encoding import encode, seal
from foil.datasets_out.commits.entries import CommitEntry, CommittedFile
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import SCHEMA_VERSION, to_tables
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.lineage.lineage import trace_lineage
from foil.datasets_out.lineage.records import choose_topics, find_records, read_topics
from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.sql.views import views_script
from foil.engine.flow.progress import count_topics
from foil.engine.ids import content_id, sha256_hex
from foil.engine.topic import Call, Intent, IntentRole, Judgment, Passage, PassageRole, Topic, Verdict, intent_id

PARTITION_TOPICS = 2000
BUDGET_S = 2.0
PLAIN = {
    "topics by status": "SELECT status, reason, count(*) FROM topics GROUP BY ALL",
    "intents by role": "SELECT role, count(*), avg(length(instruction)) FROM intents GROUP BY ALL",
    "passages by role": "SELECT role, count(*) FROM passages GROUP BY ALL",
    "judgments by judge": "SELECT judge, relevance, count(*) FROM judgments GROUP BY ALL",
    "verdicts by validator": "SELECT validator, outcome, reason, count(*) FROM verdicts GROUP BY ALL",
    "calls by model": "SELECT model, sum(prompt_tokens), sum(cost_usd) FROM calls GROUP BY ALL",
    "topics by split": "SELECT split, count(*) FROM topics GROUP BY ALL",
    "rejects by validator": "SELECT validator, reason, count(*) FROM rejects GROUP BY ALL",
}
JOINS = {
    "triplets of 10 partitions": "SELECT intent_role, count(*) FROM triplets WHERE partition < 10 GROUP BY ALL",
    "one topic's triplets": "SELECT intent_role, positive, negative FROM triplets WHERE topic_id = '{topic}'",
    "longest passages": "SELECT passage_id, length(text) AS n FROM passages ORDER BY n DESC LIMIT 5",
}


def topics(rng: random.Random) -> Iterator[Topic]:
    words = [content_id(str(i))[: rng.randint(3, 9)] for i in range(5000)]

    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length))

    for number in range(PARTITION_TOPICS):
        name = content_id("bench", str(number))
        query = text(8)
        intents = tuple(
            Intent(intent_id(name, str(i), query), role, text(25) if i else "", query)
            for i, role in enumerate(get_args(IntentRole)[:5])
        )
        passages = tuple(Passage(text(90), role, attributes={"library": "any"}) for role in get_args(PassageRole)[:5])
        yield Topic(
            id=name, seed_id=f"seed-{number}", corpus="bench", recipe="verifiable", query=query,
            intents=intents, passages=passages,
            judgments=tuple(
                Judgment(intent.id, passages[(i + j) % 5].id, 1 if j == 0 else -1, "construction")
                for i, intent in enumerate(intents) for j in range(2)
            ),
            verdicts=(
                *(Verdict(validator, "topic", "pass") for validator in ("shape", "constraint_check", "contamination")),
                Verdict("leak", "topic", "pass" if number % 8 else "reject", "" if number % 8 else "leak"),
            ),
            calls=(Call(content_id(name), "writing.passage", "model", "t@1", 200, 100, 0.0, "stop", text(100)),),
            status="accepted" if number % 8 else "rejected", reason="" if number % 8 else "leak",
        )  # fmt: skip


def build(out: Path, partitions: int, change: Callable[[Topic, int], Topic | None] = lambda topic, _: topic) -> None:
    """Commits the partitions that are not there. `change` makes of a topic and its number another, or none."""
    log = CommitLog(out)
    log.open("bench", {"recipe": "bench"})
    changed = (change(topic, number) for number, topic in enumerate(topics(random.Random(7))))
    made = [topic for topic in changed if topic]
    counts = count_topics(made)
    first = to_tables(made, 0)
    for partition in range(partitions):
        if (out / f"commits/{partition:08d}.json").exists():
            continue
        files = {}
        for table, rows in first.items():
            blob = encode(renamed(rows, partition))
            fact = CommittedFile(
                f"data/{table}/part-{partition:08d}.parquet", rows.num_rows, len(blob), sha256_hex(blob)
            )
            (out / fact.path).write_bytes(blob)
            files[table] = fact
        entry = CommitEntry(partition, "bench", SCHEMA_VERSION, files, counts, {})
        (out / f"commits/{partition:08d}.json").write_bytes(seal(entry.plain()))


def renamed(rows: pa.Table, partition: int) -> pa.Table:
    """The rows with ids of their own: topics and intents are of one partition, passages may recur."""
    for name in {"topic_id", "intent_id"} & set(rows.column_names):
        column = rows.schema.get_field_index(name)
        fresh = pc.utf8_replace_slice(rows.column(name), 6, 12, f"{partition:06x}")
        rows = rows.set_column(column, rows.schema.field(name), fresh)
    number = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
    return rows.set_column(rows.schema.get_field_index("partition"), rows.schema.field("partition"), number)


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The median wall time of the work, and of the CPU time of the processes that it started."""
    walls, cpus = [], []
    for _ in range(repeats):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        work()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - start)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(walls), statistics.median(cpus)


def measure(out: Path, repeats: int) -> dict[str, dict[str, float]]:
    plain = duckdb.connect()
    plain.execute(views_script({"run": out}))
    topic = run_sql(out, "SELECT min(topic_id) AS id FROM topics WHERE status = 'accepted'")["id"][0].as_py()
    result = {}
    for name, template in ({"start": "SELECT 1"} | PLAIN | JOINS).items():
        sql = template.format(topic=topic)
        wall, cpu = seconds(partial(run_sql, out, sql), repeats)
        bare, _ = seconds(lambda sql=sql: plain.execute(sql).fetchall(), repeats)  # type: ignore[misc]
        result[name] = {"command_s": wall, "cpu_s": cpu, "unprotected_s": bare}
    snapshot = load_snapshot(out, None)

    def show_id() -> None:
        read_topics(snapshot, [match.place for match in find_records(snapshot, topic[:16])])

    def show_sample() -> None:
        read_topics(snapshot, choose_topics(out, "status = 'accepted'", most=20, sample_seed=0).places)

    looks: dict[str, Callable[[], object]] = {
        "why": partial(trace_lineage, out, topic),
        "show, an id": show_id,
        "show, a sample of 20": show_sample,
    }
    for name, look in looks.items():
        start = time.process_time()
        wall, children = seconds(look, repeats)
        result[name] = {"command_s": wall, "cpu_s": children + (time.process_time() - start) / repeats}
    return result


def asked(doc: str) -> argparse.Namespace:
    """The command line of a benchmark over these topics; its help begins as the module's own words do."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 topics instead of 1,000,000; under 60 s")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--data", type=Path, help="folder that keeps the data between runs (default: a temporary one)")
    options = parser.parse_args()
    options.partitions = 50 if options.quick else 500
    return options


@contextmanager
def data_folder(options: argparse.Namespace) -> Iterator[Path]:
    """The folder `--data`, which stays, or one that does not."""
    with tempfile.TemporaryDirectory() as temporary:
        yield options.data or Path(temporary)


def main() -> None:
    options = asked(__doc__)
    partitions = options.partitions
    with data_folder(options) as out:
        build(out, partitions)
        rows = measure(out, 3)
    for name, row in rows.items():
        print(f"{name:26} " + "  ".join(f"{key} {value:7.3f}" for key, value in row.items()))
    slowest = max(rows[name]["command_s"] for name in PLAIN)
    summary = {
        "topics": partitions * PARTITION_TOPICS,
        "partitions": partitions,
        "slowest_group_by_s": slowest,
        "ratio_budget": slowest / BUDGET_S,
        "ratio_walls": sum(rows[n]["command_s"] for n in PLAIN) / sum(rows[n]["unprotected_s"] for n in PLAIN),
        "seconds": rows,
    }
    if options.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
