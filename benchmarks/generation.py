"""What the way to a hosted model costs: Foil's whole path, beside clients that do nothing else, at the same server.

foil    seed -> prompt from a template -> model `hosted` -> journal, synced -> typed answer -> topic -> validator
        `shape` -> commit; one process, no workers
bare    aiohttp and nothing else: one task a place, which sleeps in its place when it gets a 429, and goes on trying
openai  AsyncOpenAI with its defaults (two retries of its own), one task a place
peers   with --peers: every peer that `benchmarks/peers/setup` has installed, with its defaults

Each runs in a process of its own, against a fresh fault server in another, or at --base-url. CPU time is
that of the contender's process. Scenarios: `plain`; `limited`: 20 % of all requests get a 429 with Retry-After 0.3 s;
`stragglers`: 2 % take ten times as long; `refused`: 2 % are refused for good; `quota`: 1,800 requests a minute, burst
30, with the job's `rpm` set and without; `ways`: Foil by each of the two ways that it sends by (`client`).

    python -m benchmarks.generation [--scenario plain|limited|stragglers|refused|quota|ways] [--base-url URL]
        [--requests N] [--concurrency C] [--peers] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from benchmarks.peers.generation_prompts import (
    MAX_TOKENS,
    MODEL,
    SYSTEM,
    TEMPERATURE,
    USER,
    passage,
    query,
    usable,
    user,
)

if TYPE_CHECKING:
    from foil.engine.protocols import Ask, Parts
    from foil.engine.seeds.files.ledger import Ledger
    from foil.engine.topic import Seed, Topic

HERE = Path(__file__).resolve().parent
SERVER = HERE.parent / "tests" / "support" / "models" / "fault_server.py"
TEMPLATE = f"=== system ===\n{SYSTEM}\n=== user ===\n{USER.format(query='{{ query }}', passage='{{ passage }}')}"
WINDOW = 2
"""Seeds in flight for each request in flight, so that a seed that waits for another attempt costs no place."""


@dataclass(frozen=True)
class Scenario:
    """How the server behaves (options of its script), how much is asked of it, and who runs."""

    server: tuple[str, ...]
    requests: int
    quick: int
    concurrency: int
    contenders: tuple[str, ...] = ("foil", "bare", "openai")


LATENCY = ("--latency", "0.2")
SCENARIOS = {
    "plain": Scenario(LATENCY, 20_000, 4_000, 256),
    "limited": Scenario((*LATENCY, "--fault", "429_seconds=0.2", "--worst", "1000"), 1_000, 1_000, 32),
    "stragglers": Scenario((*LATENCY, "--straggler-share", "0.02"), 3_000, 1_500, 64),
    "refused": Scenario((*LATENCY, "--refused-share", "0.02"), 1_000, 1_000, 32),
    "quota": Scenario((*LATENCY, "--rpm", "1800", "--burst", "30"), 3_000, 600, 32, ("foil", "foil_rpm", "bare")),
    "ways": Scenario(LATENCY, 8_000, 2_000, 64, ("foil", "foil_openai", "foil_aiohttp", "bare", "openai")),
}


class Variant(BaseModel):
    """What the model answers."""

    instruction: str
    passage: str


@dataclass
class Corpus:
    """Seeds of one positive passage each."""

    count: int

    @property
    def ledger(self) -> Ledger:
        """An empty one."""
        from foil.engine.seeds.files.ledger import Ledger

        return Ledger()

    def __iter__(self) -> Iterator[Seed]:
        from foil.engine.topic import Passage, Seed

        for i in range(self.count):
            yield Seed(f"s{i:09d}", "bench", query(i), (Passage(passage(i), "seed_positive"),))


@dataclass
class OnePrompt:
    """A recipe of one question a seed: a topic of two intents and two passages. It notes the memory at a tenth."""

    tenth: int
    name: str = "one_prompt"
    fingerprint: str = "1"
    asked: int = 0
    memory: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from foil.prompts.render import compile_template

        self._template = compile_template("bench/one_prompt", TEMPLATE)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        (given,) = seed.positives
        answer = await ask(self._template.render(query=seed.query, passage=given.text), Variant)
        self.asked += 1
        if self.asked == self.tenth:
            self.memory["peak_mib_at_a_tenth"] = peak_mib()
        return [topic_of(self.name, seed, answer)]


def topic_of(recipe: str, seed: Seed, answer: Variant) -> Topic:
    from foil.engine.topic import Intent, Judgment, Passage, Topic, intent_id, topic_id

    tid, (given,) = topic_id(recipe, seed), seed.positives
    plain = Intent(intent_id(tid, "", seed.query), "original", "", seed.query)
    told = Intent(intent_id(tid, answer.instruction, seed.query), "instructed", answer.instruction, seed.query)
    made = Passage(answer.passage, "generated_positive")
    said = [(plain, given, 1, "seed"), (told, given, -1, "construction"), (told, made, 1, "construction")]
    judgments = tuple(Judgment(intent.id, text.id, relevance, judge) for intent, text, relevance, judge in said)
    return Topic(tid, seed.id, seed.corpus, recipe, seed.query, (plain, told), (given, made), judgments)


def build(out: Path, recipe: OnePrompt, told: argparse.Namespace, asked: dict[str, Any]) -> Parts:
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.models.endpoints import HostedSettings
    from foil.engine.models.hosted import Hosted
    from foil.engine.protocols import Parts
    from foil.prompts.parse import parse_reply
    from foil.validators.checks.shape import ShapeCheck, ShapeSettings

    params = {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}
    settings = HostedSettings.model_validate(
        {"model": MODEL, "url": told.base_url, "params": params, "max_concurrency": told.concurrency} | asked
    )
    chain = (ShapeCheck(ShapeSettings()),)
    return Parts(recipe, chain, {"writer": Hosted(settings)}, parse_reply, CommitLog(out), str(out))


def foil(told: argparse.Namespace, **asked: Any) -> dict[str, Any]:
    """The run of a job, from its first seed to its last commit; `asked` are settings of its model."""
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.errors import RunFailedError
    from foil.engine.flow.limits import Limits, RuntimeSettings
    from foil.engine.runtime.run_local import run
    from foil.engine.runtime.session import RunSpec, WorkerSpec

    recipe = OnePrompt(max(told.requests // 10, 1))
    with tempfile.TemporaryDirectory(prefix="foil-bench-") as name:
        CommitLog(Path(name)).open("bench", {})
        parts = partial(build, Path(name), recipe, told, asked)
        runtime = RuntimeSettings(window=WINDOW * told.concurrency)
        summary = run(RunSpec(Corpus(told.requests), (), WorkerSpec(parts, Limits(), runtime)), lambda _: None)
    if summary.exit_code not in {0, RunFailedError.exit_code}:
        raise SystemExit(f"the run stopped: {summary.stopped}")
    found = dict(summary.counts.seeds)
    return {
        "answers": found.get("accepted", 0),
        "seeds": found,
        "reasons": dict(summary.counts.reasons),
        **recipe.memory,
    }


async def bare(told: argparse.Namespace) -> int:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(i: int) -> bool:
            while True:
                async with session.post(told.base_url + "/chat/completions", json=body(i)) as got:
                    if got.status == 200:
                        return usable((await got.json())["choices"][0]["message"]["content"])
                    if got.status == 400:
                        return False
                    pause = float(got.headers.get("Retry-After", "0.5"))
                await asyncio.sleep(pause)

        return await in_places(told, one)


async def openai(told: argparse.Namespace) -> int:
    from openai import AsyncOpenAI, OpenAIError

    async with AsyncOpenAI(base_url=told.base_url, api_key="none") as client:

        async def one(i: int) -> bool:
            try:
                got = await client.chat.completions.create(**body(i))
            except OpenAIError:
                return False
            return usable(got.choices[0].message.content or "")

        return await in_places(told, one)


def body(i: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user(i)}]
    return {"model": MODEL, "messages": messages, "temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}


async def in_places(told: argparse.Namespace, one: Callable[[int], Awaitable[bool]]) -> int:
    """Asks every prompt once from as many tasks as requests may be in flight; the usable answers."""
    numbers = iter(range(told.requests))

    async def place() -> int:
        return sum([await one(i) for i in numbers])

    return sum(await asyncio.gather(*(place() for _ in range(told.concurrency))))


CONTENDERS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "foil": foil,
    "foil_rpm": partial(foil, rpm=1800.0),
    "foil_openai": partial(foil, client="openai"),
    "foil_aiohttp": partial(foil, client="aiohttp"),
    "bare": lambda told: {"answers": asyncio.run(bare(told))},
    "openai": lambda told: {"answers": asyncio.run(openai(told))},
}


LIBRARIES = {
    "foil": (
        "foil.datasets_out.commits.encoding",
        "foil.engine.runtime.run_local",
        "foil.engine.models.hosted",
        "foil.prompts.render",
        "foil.validators.checks.shape",
    ),
    "bare": ("aiohttp",),
    "openai": ("openai.resources.chat",),
}
"""What a contender imports; done before its clock starts."""


def peak_mib() -> float:
    return float(import_module("tests.support.memory").peak_memory() / 2**20)


def run_one(told: argparse.Namespace) -> dict[str, Any]:
    """Runs one contender in this process and measures it."""
    for library in LIBRARIES[told.only.partition("_")[0]]:
        import_module(library)
    wall, cpu = time.perf_counter(), time.process_time()
    found = CONTENDERS[told.only](told)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rates = {"requests_per_s": told.requests / wall, "cpu_ms_per_request": 1000 * cpu / told.requests, "wall_s": wall}
    return {"name": told.only, **rates, **found, "peak_mib": peak_mib()}


@contextlib.contextmanager
def server(told: argparse.Namespace, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The URL to ask and the one with statistics ("" where there are none); a fresh server unless one was given."""
    if told.base_url:
        yield told.base_url, ""
        return
    with subprocess.Popen(
        [sys.executable, str(SERVER), "--leash", *options], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip(), child.stdout.readline().strip()
        finally:
            child.terminate()


def contend(command: Sequence[str], told: argparse.Namespace, scenario: Scenario) -> dict[str, Any]:
    """One contender's line, and what the server saw of it."""
    with server(told, scenario.server) as (url, admin):
        asked = ["--base-url", url, "--requests", str(told.requests), "--concurrency", str(told.concurrency)]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        done = subprocess.run([*command, *asked], capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            return {"failed": done.returncode, "said": (done.stderr or done.stdout).strip()[-400:]}
        line: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return line | (seen(admin, told) if admin else {})


def seen(admin: str, told: argparse.Namespace) -> dict[str, Any]:
    """What the server counted, as far as a scenario is judged by it."""
    with urllib.request.urlopen(admin + "/stats?tasks=1") as got:
        stats = json.load(got)
    found: dict[str, Any] = {
        "sent": stats["requests"],
        "sent_per_request": stats["requests"] / told.requests,
        "kinds": stats["kinds"],
        "max_in_flight": stats["max_in_flight"],
        "server_cpu_ms": 1000 * stats["cpu_s"] / max(stats["requests"], 1),
    }
    if told.scenario == "quota":
        could = 1800 / 60 * stats["span_s"] + 30
        busiest = stats["busiest_60s"]
        found |= {"share_of_quota": stats["admitted"] / could, "most_sent_in_60s": busiest["arrived"]}
        found["ratio_most_sent_in_60s_to_quota"] = busiest["arrived"] / 1800
        found["ratio_most_admitted_in_60s_to_quota"] = busiest["admitted"] / 1800
    return found


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Foil against each other contender that ended: requests a second, and CPU."""
    mine = found["foil"]
    made: dict[str, float] = {}
    if "failed" in mine:
        return made
    if "peak_mib_at_a_tenth" in mine:
        made["ratio_peak_to_a_tenth"] = mine["peak_mib"] / mine["peak_mib_at_a_tenth"]
    for name, other in found.items():
        if name != "foil" and "failed" not in other:
            made[f"ratio_rate_to_{name}"] = mine["requests_per_s"] / other["requests_per_s"]
            made[f"ratio_cpu_to_{name}"] = mine["cpu_ms_per_request"] / other["cpu_ms_per_request"]
    return made


def installed_peers() -> dict[str, list[str]]:
    """The command of every peer that has an environment and a script."""
    scripts = {script.stem.removeprefix("generation_"): script for script in (HERE / "peers").glob("generation_*.py")}
    pythons = {path.name: path / "bin" / "python" for path in (HERE / "peers" / ".venvs").glob("*")}
    return {
        name: [str(python), str(scripts[name.replace("-", "_")])]
        for name, python in sorted(pythons.items())
        if python.exists() and name.replace("-", "_") in scripts
    }


def shown(name: str, numbers: dict[str, Any]) -> str:
    if "failed" in numbers:
        return f"{name:14} ended with exit code {numbers['failed']}: {numbers['said']}"
    wanted = ("requests_per_s", "cpu_ms_per_request", "peak_mib", "answers", "sent", "max_in_flight", "share_of_quota")
    text = "  ".join(f"{key} {numbers[key]:,.2f}".removesuffix(".00") for key in wanted if key in numbers)
    return f"{name:14} {text}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="plain")
    parser.add_argument("--base-url", default="", help="a server that runs already, up to and with /v1")
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=0)
    parser.add_argument("--peers", action="store_true", help="run the installed peers too")
    parser.add_argument("--only", choices=sorted(CONTENDERS), help="run this contender in this process")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    scenario = SCENARIOS[told.scenario]
    told.requests = told.requests or (scenario.quick if told.quick else scenario.requests)
    told.concurrency = told.concurrency or scenario.concurrency
    return told


def main() -> None:
    told = arguments()
    if told.only:
        print(json.dumps(run_one(told)))
        return
    scenario = SCENARIOS[told.scenario]
    commands = {name: [sys.executable, "-m", "benchmarks.generation", "--only", name] for name in scenario.contenders}
    commands |= installed_peers() if told.peers else {}
    found: dict[str, Any] = {}
    print(f"{told.scenario}: {told.requests:,} requests, {told.concurrency} in flight")
    for name, command in commands.items():
        found[name] = contend(command, told, scenario)
        print(shown(name, found[name]), flush=True)
    made = ratios(found)
    for name, ratio in made.items():
        print(f"{name:32} {ratio:.3f}")
    if told.json:
        print(json.dumps({"scenario": asdict(scenario) | {"name": told.scenario}, **found, **made}))


if __name__ == "__main__":
    main()
