"""How long `foil diff` takes over two runs of a million topics each.

    python -m benchmarks.diff [--quick] [--json] [--data FOLDER]

The runs are those of benchmarks/query.py; of the second's topics 1 % are missing, 1 % have another instruction, 1 %
another label and 1 % another outcome, so every file differs. A third run has one partition in a hundred of the second,
else the files of the first. What is found is checked against that. `ratio_budget` is the first comparison against the
10 s that it may take (under 1 is good).
"""

import json
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.query import PARTITION_TOPICS, asked, build, data_folder
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.diff.run_diff import RunDiff, diff_runs
from foil.engine.topic import Topic, intent_id

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


def blend(a: Path, b: Path, out: Path, partitions: int) -> None:
    """A run of the files of `a`, except that every hundredth partition is that of `b`."""
    CommitLog(out).open("bench", {"recipe": "bench"})
    for partition in range(partitions):
        source = a if partition % EVERY else b
        for path in source.rglob(f"*{partition:08d}*"):
            target = out / path.relative_to(source)
            if not target.exists():
                os.link(path, target)


def measure(a: Path, b: Path, changed: int) -> dict[str, float]:
    """Seconds and CPU seconds of a comparison in which so many topics of each kind have to be found."""
    start, cpu = time.perf_counter(), time.process_time()
    found = diff_runs(a, b)
    seconds = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    check(found, changed)
    return seconds


def check(found: RunDiff, changed: int) -> None:
    for kind, how in (("topic", "only_in_a"), ("instruction", "changed"), ("outcome", "changed")):
        if found.counts[kind][how] != changed:
            raise SystemExit(f"{found.counts[kind][how]} {kind} {how} were found, and {changed} were made")


def main() -> None:
    options = asked(__doc__)
    topics = options.partitions * PARTITION_TOPICS
    with data_folder(options) as folder:
        a, b, blended = (folder / name for name in ("a", "b", "blended"))
        for run in (a, b, blended):
            run.mkdir(exist_ok=True, parents=True)
        build(a, options.partitions)
        build(b, options.partitions, change)
        blend(a, b, blended, options.partitions)
        few = -(-options.partitions // EVERY) * PARTITION_TOPICS
        rows = {
            "every file differs": measure(a, b, topics // EVERY),
            "one partition in a hundred differs": measure(a, blended, few // EVERY),
            "no file differs": measure(a, a, 0),
        }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    ratio = rows["every file differs"]["seconds"] / BUDGET_S
    print(f"{topics:,} topics a run; peak {peak} MiB; {ratio:.2f} of the budget")
    for name, row in rows.items():
        print(f"{name:36} " + "  ".join(f"{key} {value:7.2f}" for key, value in row.items()))
    if options.json:
        print(json.dumps({"topics": topics, "peak_mib": peak, "ratio_budget": ratio, "cases": rows}))


if __name__ == "__main__":
    main()
