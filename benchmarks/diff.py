"""How long `foil diff` takes over two runs of a million topics each, of which every file differs.

    python benchmarks/diff.py [--quick] [--json] [--data FOLDER]

The runs are those of benchmarks/query.py; of the second's topics 1 % are missing, 1 % have another instruction, 1 %
another label and 1 % another outcome. What is found is checked against that. `ratio_budget` is the whole comparison,
its processes included, against the 10 s that it may take (under 1 is good).
"""

import argparse
import json
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.query import PARTITION_TOPICS, build
from datasets_out.diff.run_diff import diff_runs
from engine.topic import Topic, intent_id

BUDGET_S = 10.0
EVERY = 100


def change(topic: Topic, number: int) -> Topic | None:
    """The second run's topic: of every hundred the first is missing, and the next three are changed."""
    if number % EVERY == 0:
        return None
    if number % EVERY == 1:
        old, text = topic.intents[1], "another instruction"
        new = replace(old, id=intent_id(topic.id, text, old.query), instruction=text)
        judgments = tuple(replace(j, intent_id=new.id) if j.intent_id == old.id else j for j in topic.judgments)
        return replace(topic, intents=(topic.intents[0], new, *topic.intents[2:]), judgments=judgments)
    if number % EVERY == 2:
        first, *others = topic.judgments
        return replace(topic, judgments=(replace(first, relevance=-first.relevance), *others))
    if number % EVERY == 3:
        return replace(topic, status="rejected", reason="other")
    return topic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 topics instead of 1,000,000; under 60 s")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--data", type=Path, help="folder that keeps the data between runs (default: a temporary one)")
    options = parser.parse_args()
    partitions = 50 if options.quick else 500
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        for name in ("a", "b"):
            (folder / name).mkdir(exist_ok=True, parents=True)
        build(folder / "a", partitions)
        build(folder / "b", partitions, change)
        start, cpu = time.perf_counter(), time.process_time()
        found = diff_runs(folder / "a", folder / "b")
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        start = time.perf_counter()
        diff_runs(folder / "a", folder / "a")
        same_seconds = time.perf_counter() - start
    topics = partitions * PARTITION_TOPICS
    share = topics // EVERY
    expected = {("topic", "only_in_a"): share, ("instruction", "changed"): share, ("outcome", "changed"): share}
    for (kind, how), count in expected.items():
        if found.counts[kind][how] != count:
            raise SystemExit(f"{found.counts[kind][how]} {kind} {how} were found, and {count} were made")
    summary = {
        "topics": topics,
        "seconds": seconds,
        "cpu_s": cpu_seconds,
        "same_files_s": same_seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "ratio_budget": seconds / BUDGET_S,
        "counts": found.counts,
    }
    print(
        f"{topics:,} topics a run: {seconds:.2f} s ({cpu_seconds:.2f} s of CPU), {summary['ratio_budget']:.2f} of the "
        f"budget; a run with itself {same_seconds:.2f} s; peak {summary['peak_mib']} MiB"
    )
    if options.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
