"""What storing costs: CPU per topic from nouns to Parquet and back, and what reading the state of a run takes.

A topic here has 5 intents, 5 passages of 100 words, 12 judgments, 6 verdicts and 1 call. CPU times are of this
process; a commit's wall time is mostly fsync. `ratio_budget` is what conversion and Parquet take of what they may.

    python -m benchmarks.commits [--topics 5000] [--quick] [--json]
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.encoding import encode, seal
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import from_tables, to_tables
from foil.datasets_out.commits.verify import verify
from foil.engine.flow.progress import total
from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict

ENTRIES = 1000
BUDGET_MS = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=5000, help="topics of the one partition that is timed")
    parser.add_argument("--quick", action="store_true", help="1,000 topics")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    args = parser.parse_args()
    found = measure(1000 if args.quick else args.topics)
    for name, value in found.items():
        print(f"{name:32} {value:10.4f}")
    if args.json:
        print(json.dumps(found))


def measure(size: int) -> dict[str, float]:
    rng = random.Random(1)
    words = [f"{rng.randrange(1 << 40):x}"[: rng.randrange(2, 9)] for _ in range(20_000)]
    topics = [make_topic(i, rng, words) for i in range(size)]
    to_tables(topics[:2], 0)  # imports what a first conversion imports
    tables, arrow = timed(lambda: to_tables(topics, 0))
    blobs, parquet = timed(lambda: {table: encode(rows) for table, rows in tables.items()})
    back, nouns = timed(lambda: from_tables(tables))
    if back != topics:
        raise SystemExit("the topics did not come back as they went")
    with tempfile.TemporaryDirectory() as folder:
        log = CommitLog(Path(folder))
        log.open("benchmark", {})
        start = time.perf_counter()
        _, commit = timed(lambda: log.commit(0, topics, {}))
        wall = time.perf_counter() - start
        damage, check = timed(lambda: [found for found in verify(log.out) if not found.harmless])
        if damage:
            raise SystemExit(f"a fresh commit is damaged: {damage}")
        fill(log)
        _, status = timed(lambda: total(entry.counts for entry in log.entries()))
    megabytes = sum(map(len, blobs.values())) / 1e6
    return {
        "topics": size,
        "to_tables_cpu_ms_per_topic": 1e3 * arrow / size,
        "parquet_cpu_ms_per_topic": 1e3 * parquet / size,
        "commit_cpu_ms_per_topic": 1e3 * commit / size,
        "commit_wall_s": wall,
        "from_tables_cpu_ms_per_topic": 1e3 * nouns / size,
        "stored_bytes_per_topic": 1e6 * megabytes / size,
        "verify_mb_per_cpu_s": megabytes / check,
        "status_of_1000_entries_cpu_s": status,
        "ratio_budget": 1e3 * (arrow + parquet) / size / BUDGET_MS,
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the CPU seconds that it took."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def fill(log: CommitLog) -> None:
    """Entries like the first one, ENTRIES in all."""
    first = log.entry(0).plain()
    for partition in range(1, ENTRIES):
        files = {t: f | {"path": f"data/{t}/part-{partition:08d}.parquet"} for t, f in first["files"].items()}
        path = log.out / f"commits/{partition:08d}.json"
        path.write_bytes(seal(first | {"partition": partition, "files": files}))


def make_topic(number: int, rng: random.Random, words: list[str]) -> Topic:
    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length))

    facts = {"language": "python", "library": "numpy"}
    passages = tuple(Passage(text(100), "distractor", source_id=f"d{i}", attributes=facts) for i in range(5))
    intents = tuple(Intent(f"i{number}-{i}", "instructed", text(20), text(6), {"style": "plain"}) for i in range(5))
    judgments = tuple(Judgment(intents[i % 5].id, passages[i // 3].id, 1 - i % 2 * 2, "rule") for i in range(12))
    verdicts = tuple(Verdict(validator, "topic", "pass") for validator in ("shape", "leak", "a", "b", "c", "d"))
    call = Call(f"c{number}", "writing.passage", "model", "topic@abc", 100, 200, 0.0, "stop", text(60))
    return Topic(
        f"t{number}", f"s{number}", "msmarco", "verifiable", text(6), intents, passages, judgments, verdicts, (call,)
    )


if __name__ == "__main__":
    main()
