"""What the machine itself costs: a recipe that makes a fixed topic, no validators, one process.

Prints topics a second and CPU ms per topic without a question and with one, whose reply is synced; each into a store
that keeps nothing and into real commits; and the peak memory of a longer run.

    python -m benchmarks.machine [--topics 100000] [--quick] [--json]
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from foil.datasets_out.commits.log import CommitLog
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.flow.progress import Counts
from foil.engine.protocols import Ask, Model, Parts, Prompt
from foil.engine.requests import Message, Reply, Request
from foil.engine.runtime.run_local import run
from foil.engine.runtime.session import RunSpec, WorkerSpec
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.topic import Call, Intent, Judgment, Passage, Seed, Topic, intent_id, topic_id
from tests.support.memory import peak_memory


class Line(BaseModel):
    """What the model answers."""

    text: str


@dataclass
class Corpus:
    """Equal seeds under different ids."""

    count: int
    ledger: Ledger = field(default_factory=Ledger)

    def __iter__(self) -> Iterator[Seed]:
        passage = Passage("A passage of a usual length. " * 20, "seed_positive")
        return (Seed(f"s{i:09d}", "bench", f"query {i}", (passage,)) for i in range(self.count))


@dataclass
class Fixed(Model):
    """A model of one answer."""

    name: str = "fixed"

    async def complete(self, request: Request) -> Reply:
        return Reply(request.id, '{"text":"an answer"}', self.name)


@dataclass
class One:
    """A recipe of one topic and `asks` questions a seed."""

    asks: int
    name: str = "one"
    fingerprint: str = ""

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        for _ in range(self.asks):
            await ask(Prompt("one.line", "one@0", (Message("user", seed.query),)), Line)
        topic = topic_id(self.name, seed)
        intent = Intent(intent_id(topic, "", seed.query), "original", "", seed.query)
        judgment = Judgment(intent.id, seed.positives[0].id, 1, "seed")
        return [Topic(topic, seed.id, seed.corpus, self.name, seed.query, (intent,), seed.positives, (judgment,))]


class Nowhere:
    """A store that keeps nothing."""

    def committed(self) -> Mapping[int, Mapping[str, Any]]:
        return {}

    def totals(self) -> Mapping[str, Any]:
        return {"partitions": 0, "counts": Counts().plain(), "reopened": []}

    def commit(self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]) -> bool:  # noqa: ARG002
        return True

    def plan(self) -> Mapping[str, int] | None:
        return None

    def put_plan(self, plan: Mapping[str, int]) -> None:
        pass

    def asked_again(self, _partition: int) -> Mapping[str, tuple[str, ...]]:
        """None: nothing failed."""
        return {}

    def replaced_calls(self, _partition: int) -> tuple[Call, ...]:
        """None: nothing was asked again."""
        return ()

    def short_partitions(self) -> None:
        pass


def build(out: Path, *, asks: int, kept: bool) -> Parts:
    store = CommitLog(out) if kept else Nowhere()
    return Parts(One(asks), (), {"writer": Fixed()}, lambda text, kind: kind.model_validate_json(text), store, str(out))


def measure(topics: int, **kind: Any) -> dict[str, float]:
    """Topics a second, CPU ms per topic, and the peak memory of this process in MiB so far."""
    with tempfile.TemporaryDirectory() as name:
        CommitLog(Path(name)).open("bench", {})
        wall, cpu = time.perf_counter(), time.process_time()
        build_parts = partial(build, Path(name), **kind)
        worker = WorkerSpec(build_parts, Limits(partition_seeds=1000), RuntimeSettings(window=64))
        run(RunSpec(Corpus(topics), (), worker), lambda _: None)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"topics_per_s": topics / wall, "cpu_ms_per_topic": 1000 * cpu / topics, "peak_mib": peak_memory() / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    topics = 10_000 if options.quick else options.topics
    figures = {
        "no question, nothing kept": measure(topics, asks=0, kept=False),
        "one question, nothing kept": measure(topics, asks=1, kept=False),
        "no question, committed": measure(topics, asks=0, kept=True),
        "one question, committed": measure(topics, asks=1, kept=True),
    }
    small, large = (measure(n, asks=1, kept=True)["peak_mib"] for n in (topics, 3 * topics))
    for name, numbers in figures.items():
        print(f"{name:36}", *(f"{key} {value:10.3f}" for key, value in numbers.items()))
    print(f"peak memory at {topics:,} topics {small:.0f} MiB, at {3 * topics:,} topics {large:.0f} MiB")
    if options.json:
        print(json.dumps({**figures, "ratio_peak_3x_topics": large / small}))


if __name__ == "__main__":
    main()
