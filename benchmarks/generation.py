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
    answers: int = 0
    memory: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from foil.prompts.render import compile_template

        self._template = compile_template("bench/one_prompt", TEMPLATE)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        (passage,) = seed.positives
        answer = await ask(self._template.render(query=seed.query, passage=passage.text), Variant)
        self.answers += 1
        if self.answers == self.tenth:
            self.memory["peak_mib_at_a_tenth"] = peak_mib()
        return [topic_of(self.name, seed, answer)]


def topic_of(recipe: str, seed: Seed, answer: Variant) -> Topic:
    from foil.engine.topic import Intent, Judgment, Passage, Topic, intent_id, topic_id

    tid, (natural,) = topic_id(recipe, seed), seed.positives
    plain = Intent(intent_id(tid, "", seed.query), "original", "", seed.query)
    steered = Intent(intent_id(tid, answer.instruction, seed.query), "instructed", answer.instruction, seed.query)
    written = Passage(answer.passage, "generated_positive")
    labels = [
        (plain, natural, 1, "seed"),
        (steered, natural, -1, "construction"),
        (steered, written, 1, "construction"),
    ]
    judgments = tuple(Judgment(intent.id, text.id, relevance, judge) for intent, text, relevance, judge in labels)
    return Topic(tid, seed.id, seed.corpus, recipe, seed.query, (plain, steered), (natural, written), judgments)


def build(out: Path, recipe: OnePrompt, args: argparse.Namespace, extra: dict[str, Any]) -> Parts:
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.models.endpoints import HostedSettings
    from foil.engine.models.hosted import Hosted
    from foil.engine.protocols import Parts
    from foil.prompts.parse import parse_reply
    from foil.validators.checks.shape import ShapeCheck, ShapeSettings

    params = {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}
    settings = HostedSettings.model_validate(
        {"model": MODEL, "url": args.base_url, "params": params, "max_concurrency": args.concurrency} | extra
    )
    chain = (ShapeCheck(ShapeSettings()),)
    return Parts(recipe, chain, {"writer": Hosted(settings)}, parse_reply, CommitLog(out), str(out))


def foil(args: argparse.Namespace, **extra: Any) -> dict[str, Any]:
    """The run of a job, from its first seed to its last commit; `extra` are settings of its model."""
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.errors import RunFailedError
    from foil.engine.flow.limits import Limits, RuntimeSettings
    from foil.engine.runtime.run_local import run
    from foil.engine.runtime.session import RunSpec, WorkerSpec

    recipe = OnePrompt(max(args.requests // 10, 1))
    with tempfile.TemporaryDirectory(prefix="foil-bench-") as name:
        CommitLog(Path(name)).open("bench", {})
        parts = partial(build, Path(name), recipe, args, extra)
        runtime = RuntimeSettings(window=WINDOW * args.concurrency)
        summary = run(RunSpec(Corpus(args.requests), (), WorkerSpec(parts, Limits(), runtime)), lambda _: None)
    if summary.exit_code not in {0, RunFailedError.exit_code}:
        raise SystemExit(f"the run stopped: {summary.stopped}")
    seeds = dict(summary.counts.seeds)
    return {
        "answers": seeds.get("accepted", 0),
        "seeds": seeds,
        "reasons": dict(summary.counts.reasons),
        **recipe.memory,
    }


async def bare(args: argparse.Namespace) -> int:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(i: int) -> bool:
            while True:
                async with session.post(args.base_url + "/chat/completions", json=body(i)) as got:
                    if got.status == 200:
                        return usable((await got.json())["choices"][0]["message"]["content"])
                    if got.status == 400:
                        return False
                    pause = float(got.headers.get("Retry-After", "0.5"))
                await asyncio.sleep(pause)

        return await in_places(args, one)


async def openai(args: argparse.Namespace) -> int:
    from openai import AsyncOpenAI, OpenAIError

    async with AsyncOpenAI(base_url=args.base_url, api_key="none") as client:

        async def one(i: int) -> bool:
            try:
                got = await client.chat.completions.create(**body(i))
            except OpenAIError:
                return False
            return usable(got.choices[0].message.content or "")

        return await in_places(args, one)


def body(i: int) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user(i)}]
    return {"model": MODEL, "messages": messages, "temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}


async def in_places(args: argparse.Namespace, ask: Callable[[int], Awaitable[bool]]) -> int:
    """Asks every prompt once from as many tasks as requests may be in flight; the usable answers."""
    numbers = iter(range(args.requests))

    async def place() -> int:
        return sum([await ask(i) for i in numbers])

    return sum(await asyncio.gather(*(place() for _ in range(args.concurrency))))


CONTENDERS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "foil": foil,
    "foil_rpm": partial(foil, rpm=1800.0),
    "foil_openai": partial(foil, client="openai"),
    "foil_aiohttp": partial(foil, client="aiohttp"),
    "bare": lambda args: {"answers": asyncio.run(bare(args))},
    "openai": lambda args: {"answers": asyncio.run(openai(args))},
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


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """Runs one contender in this process and measures it."""
    for library in LIBRARIES[args.only.partition("_")[0]]:
        import_module(library)
    wall, cpu = time.perf_counter(), time.process_time()
    figures = CONTENDERS[args.only](args)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rates = {"requests_per_s": args.requests / wall, "cpu_ms_per_request": 1000 * cpu / args.requests, "wall_s": wall}
    return {"name": args.only, **rates, **figures, "peak_mib": peak_mib()}


@contextlib.contextmanager
def server(args: argparse.Namespace, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The URL to ask and the one with statistics ("" where there are none); a fresh server unless one was given."""
    if args.base_url:
        yield args.base_url, ""
        return
    with subprocess.Popen(
        [sys.executable, str(SERVER), "--leash", *options], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip(), child.stdout.readline().strip()
        finally:
            child.terminate()


def contend(command: Sequence[str], args: argparse.Namespace, scenario: Scenario) -> dict[str, Any]:
    """One contender's line, and what the server saw of it."""
    with server(args, scenario.server) as (url, admin):
        flags = ["--base-url", url, "--requests", str(args.requests), "--concurrency", str(args.concurrency)]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        child = subprocess.run([*command, *flags], capture_output=True, text=True, env=environment, check=False)
        if child.returncode:
            return {"failed": child.returncode, "said": (child.stderr or child.stdout).strip()[-400:]}
        line: dict[str, Any] = json.loads(child.stdout.strip().splitlines()[-1])
        return line | (seen(admin, args) if admin else {})


def seen(admin: str, args: argparse.Namespace) -> dict[str, Any]:
    """What the server counted, as far as a scenario is judged by it."""
    with urllib.request.urlopen(admin + "/stats?tasks=1") as got:
        stats = json.load(got)
    figures: dict[str, Any] = {
        "sent": stats["requests"],
        "sent_per_request": stats["requests"] / args.requests,
        "kinds": stats["kinds"],
        "max_in_flight": stats["max_in_flight"],
        "server_cpu_ms": 1000 * stats["cpu_s"] / max(stats["requests"], 1),
    }
    if args.scenario == "quota":
        could = 1800 / 60 * stats["span_s"] + 30
        busiest = stats["busiest_60s"]
        figures |= {"share_of_quota": stats["admitted"] / could, "most_sent_in_60s": busiest["arrived"]}
        figures["ratio_most_sent_in_60s_to_quota"] = busiest["arrived"] / 1800
        figures["ratio_most_admitted_in_60s_to_quota"] = busiest["admitted"] / 1800
    return figures


def ratios(lines: dict[str, Any]) -> dict[str, float]:
    """Foil against each other contender that ended: requests a second, and CPU."""
    ours = lines["foil"]
    by_name: dict[str, float] = {}
    if "failed" in ours:
        return by_name
    if "peak_mib_at_a_tenth" in ours:
        by_name["ratio_peak_to_a_tenth"] = ours["peak_mib"] / ours["peak_mib_at_a_tenth"]
    for name, line in lines.items():
        if name != "foil" and "failed" not in line:
            by_name[f"ratio_rate_to_{name}"] = ours["requests_per_s"] / line["requests_per_s"]
            by_name[f"ratio_cpu_to_{name}"] = ours["cpu_ms_per_request"] / line["cpu_ms_per_request"]
    return by_name


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
    columns = ("requests_per_s", "cpu_ms_per_request", "peak_mib", "answers", "sent", "max_in_flight", "share_of_quota")
    text = "  ".join(f"{key} {numbers[key]:,.2f}".removesuffix(".00") for key in columns if key in numbers)
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
    args = parser.parse_args()
    scenario = SCENARIOS[args.scenario]
    args.requests = args.requests or (scenario.quick if args.quick else scenario.requests)
    args.concurrency = args.concurrency or scenario.concurrency
    return args


def main() -> None:
    args = arguments()
    if args.only:
        print(json.dumps(run_one(args)))
        return
    scenario = SCENARIOS[args.scenario]
    commands = {name: [sys.executable, "-m", "benchmarks.generation", "--only", name] for name in scenario.contenders}
    commands |= installed_peers() if args.peers else {}
    lines: dict[str, Any] = {}
    print(f"{args.scenario}: {args.requests:,} requests, {args.concurrency} in flight")
    for name, command in commands.items():
        lines[name] = contend(command, args, scenario)
        print(shown(name, lines[name]), flush=True)
    compared = ratios(lines)
    for name, ratio in compared.items():
        print(f"{name:32} {ratio:.3f}")
    if args.json:
        print(json.dumps({"scenario": asdict(scenario) | {"name": args.scenario}, **lines, **compared}))


if __name__ == "__main__":
    main()
