"""Small real parts for the tests of the machine: a reader, a recipe, validators, a model that keeps its own bill."""

import asyncio
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.schema import TABLES, from_tables
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.engine.errors import Rejected, UnreadableReplyError
from foil.engine.flow.journal_records import checked, parsed
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.flow.progress import Summary
from foil.engine.protocols import Cost, Model, Parts, Prompt
from foil.engine.requests import Message, Reply
from foil.engine.runtime.run_local import run
from foil.engine.runtime.session import RunSpec, WorkerSpec
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.topic import Intent, Judgment, Passage, Seed, Topic, Verdict, intent_id, topic_id
from tests.support.drills.history_checker import History, Violations, check
from tests.support.memory import peak_memory


class Line(BaseModel):
    """What the model of these tests answers."""

    text: str


def parse(text: str, answer: type[Any]) -> Any:
    try:
        return answer.model_validate_json(text)
    except ValidationError as error:
        raise UnreadableReplyError(f"not a {answer.__name__}: {error.error_count()} mistakes") from error


def seed(number: int, *, query: str = "") -> Seed:
    return Seed(
        f"s{number:06d}", "letters", query or f"query {number}", (Passage(f"answer {number}", "seed_positive"),)
    )


@dataclass
class Numbers:
    """A corpus of `count` seeds; `reads` counts how often the stream was opened. `traps` are seeds' queries."""

    count: int
    traps: dict[int, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    reads: int = 0

    def __iter__(self) -> Iterator[Seed]:
        self.reads += 1
        return (seed(i, query=self.traps.get(i, "")) for i in range(self.count))


@dataclass
class Echo(Model):
    """Answers after up to `delay_s`, and notes each answer that it was paid for in the file `bill`.

    `prepaid`: it is paid when it is asked, so that an answer which nobody lives to hear was paid for.
    """

    bill: Path | None = None
    delay_s: float = 0.0
    name: str = "echo"
    prepaid: bool = False

    async def complete(self, request: Any) -> Reply:
        text = request.messages[-1].content
        if self.prepaid:
            self._pay(request)
        await asyncio.sleep(self.delay_s * random.random())
        if not self.prepaid:
            self._pay(request)
        body = Line(text=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]).model_dump_json()
        return Reply(request.id, body, self.name, prompt_tokens=len(text), completion_tokens=8, cost_usd=0.001)

    def _pay(self, request: Any) -> None:
        if self.bill is not None:
            with self.bill.open("a") as file:
                file.write(f"{request.id} {os.getpid()}\n")


class OneTopic:
    """A recipe of `asks` questions a seed; the query may be a trap: reject, raise, refuse."""

    name = "one"
    fingerprint = "1"

    def __init__(self, asks: int = 1) -> None:
        self.asks = asks

    async def __call__(self, seed: Seed, ask: Any) -> list[Topic]:
        lines = [await ask(prompt_for(seed, i), Line) for i in range(self.asks)]
        if seed.query == "reject":
            raise Rejected("unsuitable", "it says so")
        if seed.query == "raise":
            raise ValueError(f"a broken recipe, {object()!r}")
        return [topic_of(seed, " ".join(line.text for line in lines))]


def prompt_for(seed: Seed, i: int = 0) -> Prompt:
    return Prompt("one.line", "one@0", (Message("user", f"{seed.id} {seed.query} {i}"),))


def topic_of(seed: Seed, text: str = "") -> Topic:
    topic = topic_id("one", seed)
    intent = Intent(intent_id(topic, text, seed.query), "instructed", text, seed.query)
    judgment = Judgment(intent.id, seed.positives[0].id, 1, "seed")
    return Topic(topic, seed.id, seed.corpus, "one", seed.query, (intent,), seed.positives, (judgment,))


class Traps:
    """A validator that passes all but its traps; `vanish` leaks a cancellation, `hog` wants 2 GiB."""

    name = "traps"
    cost = Cost.TOPIC
    fingerprint = "1"

    def __call__(self, topic: Topic) -> tuple[Topic, list[Verdict]]:
        match topic.query:
            case "hang":
                time.sleep(3600)
            case "quit":
                sys.exit(0)
            case "exit":
                os._exit(7)
            case "hog":
                bytearray(2 << 30)
            case "shout":
                raise RuntimeError("the validator broke")
            case "vanish":
                raise asyncio.CancelledError
            case "refuse":
                return topic, [Verdict(self.name, "topic", "reject", "refused", "because of its query")]
        return topic, [Verdict(self.name, "topic", "pass")]


def build(
    out: Path, *, model: Echo, asks: int = 1, validators: tuple[Any, ...] = (Traps(),), repairs: int = 1
) -> Parts:
    return Parts(OneTopic(asks), validators, {"writer": model}, parse, CommitLog(out), str(out), repairs)


def billed(bill: Path) -> list[str]:
    """The requests that were paid for, one each time."""
    return [line.split()[0] for line in bill.read_text().splitlines()] if bill.exists() else []


def paid_twice(bill: Path) -> int:
    requests = billed(bill)
    return len(requests) - len(set(requests))


def opened(out: Path) -> Path:
    CommitLog(out).open("job", {"job": "test"})
    return out


def builder(out: Path, **settings: Any) -> Any:
    """A picklable builder of parts over a run that is opened."""
    settings.setdefault("model", Echo())
    return partial(build, opened(out), **settings)


def digest(out: Path) -> str:
    return load_snapshot(out, None).digest


def topics(out: Path) -> list[Topic]:
    """Every committed topic, in order."""
    snapshot = load_snapshot(out, None)
    return from_tables({table: pa.concat_tables(map(pq.read_table, snapshot.files(table))) for table in TABLES})


def sound(out: Path, seeds: int, *, finished: bool = True) -> None:
    """The one judge of all drills finds nothing wrong with the run."""
    assert check(History([seed(i).id for i in range(seeds)], finished=finished), out) == Violations()


def read_replies(journal: Path) -> list[dict[str, Any]]:
    """Each journalled reply but its text: what shards leave out (latency_s, attempts)."""
    records = [checked(line) for path in sorted(journal.rglob("*.log")) for line in path.open("rb")]
    facts = [parsed(record[1]) for record in records if record]
    return [{k: v for k, v in fact["reply"].items() if k != "text"} for fact in facts if "reply" in fact]


def quiet(_: Any) -> None:
    """No progress is wanted."""


def run_parts(reader: Any, build_parts: Any, limits: Limits, runtime: RuntimeSettings, **options: Any) -> Summary:
    """One session. `options`: `screens`, `on_progress`, and `runner` (`run_local.run` unless named)."""
    spec = RunSpec(reader, options.get("screens", ()), WorkerSpec(build_parts, limits, runtime))
    return options.get("runner", run)(spec, options.get("on_progress", quiet))


def main() -> None:
    """`python -m tests.support.small_run OUT JSON`: one session in a process of its own; prints its summary as JSON."""
    out, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    model = Echo(Path(told["bill"]), told.get("delay_s", 0.0), prepaid=told.get("prepaid", False))
    limits, runtime = Limits(**told["limits"]), RuntimeSettings(**told["runtime"])
    runner = run
    if runtime.kind == "ray":
        import ray

        from foil.engine.runtime.run_ray import run as runner

        if (
            "node_ip" in told
        ):  # the run's own process belongs to this node, else to the head where one is on this machine
            ray.init(address=runtime.ray_address, _node_ip_address=told["node_ip"], log_to_driver=False)
    print("started", flush=True)
    summary = run_parts(Numbers(told["seeds"]), builder(out, model=model), limits, runtime, runner=runner)
    told = {"complete": summary.complete, "exit_code": summary.exit_code, "peak": peak_memory()}
    print(json.dumps(told), flush=True)
    sys.exit(summary.exit_code)
