"""A loopback server that speaks the OpenAI API and misbehaves on demand, for drills and benchmarks.

    POST /v1/chat/completions   GET /v1/models   POST /v1/files   /v1/batches ...     what a provider has
    GET /stats   POST /control                                                        what a drill needs

Promise: whether a request meets a fault follows from the seed, its first user message and how often that message was
admitted before, so a correction turn counts for its task and the order of requests does not matter. The answer
follows from the request alone. Load decides only what it decides in life: quota, capacity, outage.
Price: 0.15 ms of CPU a request or so; memory for one small entry a task, one a request.

    async with FaultServer(Behaviour(latency=0.2, faults={"503": 0.1})) as server:  # in this event loop
    with serving(Behaviour(...)) as server:                                         # in a thread of its own
    python tests/support/models/fault_server.py --port 0 --latency 0.2 --fault 503=0.1  # prints its URLs
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import re
import socket
import struct
import sys
import threading
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from email.utils import formatdate
from hashlib import blake2b
from importlib import import_module
from random import Random
from typing import Any

from aiohttp import web

TOO_MANY = ("429_seconds", "429_ms", "429_date", "429_long", "429_bare")
BROKEN = ("500", "502", "503", "timeout", "reset", "truncated", "error_200", "duplicate")
CONTENT = ("empty", "wrong_schema", "length", "content_filter")
FAULTS = (*TOO_MANY, *BROKEN, *CONTENT, "slow")
"""Every fault kind. `duplicate` is answered and lost before its first byte, so that the same answer is given twice."""
MIX = (*TOO_MANY, *BROKEN, *CONTENT)
"""What `--mix` spreads its probability over, evenly."""

Answer = Callable[[Mapping[str, Any], int], str | tuple[str, str] | tuple[str, str, Mapping[str, float]]]
"""The text of the `n`-th choice of a request, or text and finish reason, and for a text of one token the likeliest
tokens with their probabilities; it must depend on nothing else."""
_LINGER_NOT = struct.pack("ii", 1, 0)
_JSON = "application/json"


@dataclass
class Behaviour:
    """What the server does; every field can be changed while it runs, by POST /control or by assignment."""

    seed: int = 0
    latency: float = 0.0  # seconds an answer takes; a 429 takes none
    faults: Mapping[str, float] = field(default_factory=dict)  # kind -> probability, see FAULTS
    worst: int = 3  # most faults in a row for one task
    worst_content: int = 1  # most faults of CONTENT for one task between two good answers
    retry_after: float = 0.3  # what 429_seconds, 429_ms and capacity ask for; 429_date rounds up to seconds
    long_retry_after: float = 600.0  # what 429_long asks for
    straggler_share: float = 0.0
    straggler_factor: float = 10.0
    refused_share: float = 0.0  # tasks that get 400 for good
    refused_parameters: Sequence[str] = ()  # of a request's body; "system": the role of a message
    ignored: Sequence[str] = ()  # "n": one choice comes; "usage": none is told; "batches": there is no Batch API
    context: int = 0  # prompt tokens that are read, the others cut without a word; 0: all
    longest_prompt: int = 0  # prompt tokens above which a request gets 400; 0: none
    thoughts: int = 0  # tokens of thoughts before each answer, which count in its limit
    thoughts_in: str = "reasoning_content"  # the field of a message for thoughts; "content": before the answer
    answer_in: str = "content"  # the field for answers
    slow_bytes_per_s: float = 1.0
    rpm: float = 0.0  # requests a minute, 0 without limit
    tpm: float = 0.0  # tokens a minute, 0 without limit
    burst: float = 30.0  # requests at once under `rpm`; `tpm` allows as many seconds' worth
    ratelimit_headers: bool = False
    capacity: int = 0  # more in flight than this get 429; 0 without limit
    slots: int = 0  # more in flight than this wait for their turn, as at a vLLM server; 0 without limit
    outage: str = ""  # "503", or "refuse": nothing listens (the admin URL still does)
    api_keys: Sequence[str] = ()  # others get 401; empty: not asked for
    cached_share: float = 0.0  # of the prompt tokens that are said to come from a prefix cache
    batch_seconds: float = 1.0  # from creation to the end of a batch
    batch_fail: float = 0.0  # probability that a request of a batch ends in its error file
    batch_expire: float = 0.0  # probability that it expires
    models: Sequence[str] = ("test-model",)

    def change(self, values: Mapping[str, Any]) -> None:
        """Sets the named fields. ValueError for a name or a fault kind that there is not."""
        names = {one.name for one in fields(self)}
        if unknown := (set(values) - names) | (set(values.get("faults", ())) - set(FAULTS)):
            raise ValueError(f"unknown {sorted(unknown)}; fields are {sorted(names)}, faults are {FAULTS}")
        for name, value in values.items():
            setattr(self, name, value)


def mix(share: float) -> dict[str, float]:
    """Faults of every kind of MIX that come to `share` together."""
    return dict.fromkeys(MIX, share / len(MIX))


_CORRECTS = ("once more",)
"""Words of the turns by which engine.flow.ask has a reply corrected."""
_NOTE = re.compile(r"\n\nYour answer could not be used: .*?(?=\n\n|\Z)", re.DOTALL)
"""How engine.flow.ask goes on within a turn, where the reply is not shown again."""


def without_notes(content: str) -> tuple[str, int]:
    """A turn as it was before replies to it were found of no use, and how many were."""
    return _NOTE.subn("", content)


def task_key(messages: Sequence[Mapping[str, Any]]) -> str:
    """What counts as one task: the hash of the prompt's turns, without what corrects a reply."""
    turns = list(messages)
    while len(turns) > 2 and any(words in without_notes(str(turns[-1].get("content", "")))[0] for words in _CORRECTS):
        del turns[-2:]
    text = json.dumps([without_notes(str(one.get("content", "")))[0] for one in turns if one.get("role") != "system"])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def default_answer(request: Mapping[str, Any], choice: int) -> str:
    """A JSON object with an instruction and a passage that no other task gets."""
    key = task_key(request["messages"])
    return json.dumps(
        {
            "instruction": f"Only documents that mention the code {key[:8]}-{choice} are wanted.",
            "passage": f"This text answers the question, and mentions {key[8:]}-{choice} in passing. " * 2,
            "text": f"{key}-{choice}",
            "score": int(key[:2], 16) % 5,
        }
    )


@dataclass
class Task:
    """What became of one task so far."""

    seen: int = 0
    answered: int = 0
    in_a_row: int = 0
    content: int = 0


class Bucket:
    """A token bucket by the monotonic clock."""

    def __init__(self) -> None:
        self._level, self._at = math.inf, time.monotonic()

    def take(self, amount: float, per_s: float, most: float) -> float:
        """0.0 if the amount was taken, else the seconds until it could be."""
        now = time.monotonic()
        self._level = min(most, self._level + (now - self._at) * per_s)
        self._at = now
        if self._level >= min(amount, most):
            self._level -= amount
            return 0.0
        return (min(amount, most) - self._level) / per_s

    @property
    def level(self) -> int:
        return max(0, int(self._level)) if self._level < math.inf else 0


class Stats:
    """What happened, and when."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.kinds: Counter[str] = Counter()
        self.by_second: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.keys: Counter[str] = Counter()
        self.arrived, self.admitted, self.tokens = array("d"), array("d"), array("q")
        self.delivered: Counter[bytes] = Counter()
        self.in_flight = self.max_in_flight = self.prompt_tokens = self.completion_tokens = 0

    def count(self, kind: str) -> None:
        self.kinds[kind] += 1
        self.by_second[int(time.monotonic() - self.started)][kind] += 1

    def report(self, tasks: Mapping[str, Task], connections: int) -> dict[str, Any]:
        admitted = self.admitted
        return {
            "uptime_s": time.monotonic() - self.started,
            "cpu_s": time.process_time(),
            "requests": len(self.arrived),
            "admitted": len(admitted),
            "kinds": dict(self.kinds),
            "tasks": len(tasks),
            "tasks_answered": sum(task.answered > 0 for task in tasks.values()),
            "delivered_twice": sum(count - 1 for count in self.delivered.values()),
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "connections": connections,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "keys": dict(self.keys),
            "span_s": admitted[-1] - admitted[0] if admitted else 0.0,
            "busiest_60s": {
                "arrived": busiest(self.arrived, [1] * len(self.arrived)),
                "admitted": busiest(admitted, [1] * len(admitted)),
                "tokens": busiest(admitted, self.tokens),
            },
            "by_second": [dict(self.by_second[s]) for s in range(max(self.by_second, default=-1) + 1)],
        }


def busiest(times: Sequence[float], amounts: Sequence[int], window_s: float = 60.0) -> int:
    """The most that falls into any window of this length."""
    most = total = first = 0
    for at, amount in zip(times, amounts, strict=True):
        total += amount
        while times[first] <= at - window_s:
            total -= amounts[first]
            first += 1
        most = max(most, total)
    return most


class FaultServer:
    """The server, listening while it is entered. `url` ends with /v1; `admin` never goes down."""

    def __init__(self, behaviour: Behaviour | None = None, answer: Answer = default_answer, port: int = 0) -> None:
        self.behaviour, self._answer, self._port = behaviour or Behaviour(), answer, port
        self.url = self.admin = ""
        self.stats = Stats()
        self.tasks: defaultdict[str, Task] = defaultdict(Task)
        self._requests, self._tokens = Bucket(), Bucket()
        self._turn = asyncio.Condition()
        self._serving = 0
        self._batches = Batches(self)
        self._listening: asyncio.Server | None = None

    async def __aenter__(self) -> FaultServer:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"access_log": None, "handler_cancellation": True, "request_factory": self._request}
        self._web = web.Server(self._handle, keepalive_timeout=3600.0, **options)
        self._admin_web = web.Server(self._handle, **options)
        self._admin_listening = await loop.create_server(self._admin_web, "127.0.0.1", 0)
        await self._listen()
        await self.control({})
        self.url = f"http://127.0.0.1:{self._port}/v1"
        self.admin = f"http://127.0.0.1:{self._admin_listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hang_up()
        self._admin_listening.close()
        await self._web.shutdown(0.1)
        await self._admin_web.shutdown(0.1)

    async def control(self, values: Mapping[str, Any]) -> None:
        """Changes the behaviour; `reset: true` also begins new statistics (what is known of the tasks stays)."""
        values = dict(values)
        if values.pop("reset", False):
            flying, self.stats = self.stats.in_flight, Stats()
            self.stats.in_flight = self.stats.max_in_flight = flying
        self.behaviour.change(values)
        if self.behaviour.outage == "refuse":
            self._hang_up()
        elif self._listening is None:
            await self._listen()
        async with self._turn:
            self._turn.notify_all()

    def report(self, *, tasks: bool = False) -> dict[str, Any]:
        """What GET /stats says; with `tasks` (`/stats?tasks=1`) also what became of every task, by `task_key`."""
        found = self.stats.report(self.tasks, len(self._web.connections))
        return found | ({"by_task": {key: asdict(task) for key, task in self.tasks.items()}} if tasks else {})

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._web, "127.0.0.1", self._port, backlog=4096)
        self._port = self._listening.sockets[0].getsockname()[1]

    def _hang_up(self) -> None:
        """Stops listening and cuts every connection."""
        if self._listening:
            self._listening.close()
            self._listening = None
        for connection in self._web.connections:
            if connection.transport:
                connection.transport.abort()

    @staticmethod
    def _request(*parts: Any) -> web.BaseRequest:
        message, payload, protocol, writer, task = parts
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=1 << 30)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path
        if path == "/v1/chat/completions":
            return await self._chat(request)
        if path.startswith("/stats"):
            return web.json_response(self.report(tasks="tasks=1" in path))
        if path == "/control":
            return await self._controlled(request)
        if (refusal := self._closed(request)) is not None:
            return refusal
        if path == "/v1/models":
            listed = [{"id": name, "object": "model", "owned_by": "tests"} for name in self.behaviour.models]
            return web.json_response({"object": "list", "data": listed})
        return await self._batches.handle(request) or problem(404, "not_found", f"there is no {path}")

    async def _controlled(self, request: web.BaseRequest) -> web.Response:
        try:
            await self.control(json.loads(await request.read()))
        except ValueError as error:
            return problem(400, "bad_control", str(error))
        return web.json_response(asdict(self.behaviour))

    def _closed(self, request: web.BaseRequest) -> web.Response | None:
        """The refusal of a request that does not come in at all: a wrong key, an outage."""
        told = self.behaviour
        if told.api_keys:
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if key not in told.api_keys:
                self.stats.count("401")
                return problem(401, "invalid_api_key", "the key is not known")
            self.stats.keys[key] += 1
        if told.outage:
            self.stats.count("outage")
            return problem(503, "outage", "the provider is down")
        return None

    async def _chat(self, request: web.BaseRequest) -> web.StreamResponse:
        stats = self.stats
        stats.arrived.append(time.monotonic())
        stats.in_flight += 1
        stats.max_in_flight = max(stats.max_in_flight, stats.in_flight)
        try:
            if (refusal := self._closed(request)) is not None:
                return refusal
            raw = await request.read()
            try:
                asked = json.loads(raw)
                key = task_key(asked["messages"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                stats.count("bad_request")
                return problem(400, "bad_request", f"not a chat request: {error!r}")
            return self._over(asked) or await self._admitted(request, raw, asked, key)
        finally:
            stats.in_flight -= 1

    def _over(self, asked: Mapping[str, Any]) -> web.Response | None:
        """The 429 of a request above capacity or quota."""
        told = self.behaviour
        if told.capacity and self.stats.in_flight > told.capacity:
            self.stats.count("capacity")
            return too_many({"Retry-After": f"{told.retry_after:g}"})
        wait = 0.0
        if told.rpm:
            wait = self._requests.take(1, told.rpm / 60, told.burst)
        if told.tpm and not wait:
            wait = self._tokens.take(self._size(asked), told.tpm / 60, told.tpm / 60 * told.burst)
            self._requests.take(-1 if wait else 0, told.rpm / 60, told.burst)
        if not wait:
            return None
        self.stats.count("quota")
        return too_many({"Retry-After": f"{wait:.3f}"} | self._limits(wait))

    def _size(self, asked: Mapping[str, Any]) -> int:
        prompt = sum(len(str(one.get("content", ""))) for one in asked["messages"]) // 4
        return prompt + int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 0)

    def _limits(self, wait: float = 0.0) -> dict[str, str]:
        """The x-ratelimit-* headers, where they are wanted."""
        told = self.behaviour
        if not (told.ratelimit_headers and told.rpm):
            return {}
        return {
            "x-ratelimit-limit-requests": f"{told.rpm:g}",
            "x-ratelimit-remaining-requests": str(self._requests.level),
            "x-ratelimit-reset-requests": f"{wait:.3f}s",
        }

    async def _admitted(
        self, request: web.BaseRequest, raw: bytes, asked: Mapping[str, Any], key: str
    ) -> web.StreamResponse:
        told, stats = self.behaviour, self.stats
        stats.admitted.append(time.monotonic())
        stats.tokens.append(self._size(asked))
        if self.refuses(key):
            stats.count("refused")
            return problem(400, "invalid_prompt", "this prompt is refused for good")
        if wrong := refused_parameter(asked, told.refused_parameters):
            stats.count("refused_parameter")
            return problem(400, "unsupported_parameter", wrong)
        if 0 < told.longest_prompt < prompt_tokens(asked):
            stats.count("too_long")
            return problem(400, "context_length_exceeded", f"the context is {told.longest_prompt} tokens long")
        task = self.tasks[key]
        draw = Draw(told.seed, key, task.seen)
        task.seen += 1
        fault = self.fault(task, draw)
        if fault in TOO_MANY:
            stats.count(fault)
            return self._too_many(fault)
        factor = told.straggler_factor if draw.second < told.straggler_share else 1.0
        await self._work(told.latency * factor)
        return await self._send(request, fault, raw, asked, task)

    async def _work(self, seconds: float) -> None:
        """Takes a slot, where they are limited, and the time of an answer."""
        if not self.behaviour.slots:
            if seconds:
                await asyncio.sleep(seconds)
            return
        async with self._turn:
            await self._turn.wait_for(lambda: not self.behaviour.slots or self._serving < self.behaviour.slots)
            self._serving += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._serving -= 1
            async with self._turn:
                self._turn.notify()

    def refuses(self, key: str) -> bool:
        """Whether a task is refused for good."""
        share = self.behaviour.refused_share
        return share > 0 and Draw(self.behaviour.seed, key, -1).first < share

    def fault(self, task: Task, draw: Draw, among: Sequence[str] = FAULTS) -> str:
        """The fault that this sending meets, or ""; counts it for its task."""
        told = self.behaviour
        found = next_kind(told.faults, draw.first) if told.faults and task.in_a_row < told.worst else ""
        if found not in among or (found in CONTENT and task.content >= told.worst_content):
            found = ""
        task.in_a_row = task.in_a_row + 1 if found else 0
        task.content = task.content + (found in CONTENT) if found else 0
        return found

    def _too_many(self, kind: str) -> web.Response:
        told = self.behaviour
        headers = {
            "429_seconds": {"Retry-After": f"{told.retry_after:g}"},
            "429_ms": {"retry-after-ms": f"{told.retry_after * 1000:.0f}"},
            "429_date": {"Retry-After": formatdate(math.ceil(time.time() + told.retry_after), usegmt=True)},
            "429_long": {"Retry-After": f"{told.long_retry_after:g}"},
        }
        return too_many(headers.get(kind, {}))

    async def _send(
        self, request: web.BaseRequest, fault: str, raw: bytes, asked: Mapping[str, Any], task: Task
    ) -> web.StreamResponse:
        """The answer, or what the fault makes of it."""
        self.stats.count(fault or "answered")
        if fault in {"500", "502", "503"}:
            return problem(int(fault), "server_error", f"fault {fault}")
        if fault == "timeout":
            await asyncio.Event().wait()
        if fault == "error_200":
            return web.json_response({"error": {"message": "overloaded", "type": "server_error", "code": "overloaded"}})
        body, prompt, completion = self.completion(asked, fault)
        self.stats.prompt_tokens += prompt
        self.stats.completion_tokens += completion
        if fault == "truncated":
            return web.Response(body=body[: len(body) // 2], content_type=_JSON)
        if fault in {"reset", "duplicate", "slow"}:
            return await self._broken(request, fault, body)
        self.stats.delivered[blake2b(raw, digest_size=8).digest()] += 1
        task.answered += not fault
        return web.Response(body=body, content_type=_JSON, headers=self._limits() or None)

    async def _broken(self, request: web.BaseRequest, fault: str, body: bytes) -> web.StreamResponse:
        """An answer of which the connection breaks, before it or within it, or that comes a byte at a time."""
        response = web.StreamResponse(headers={"Content-Type": _JSON, "Content-Length": str(len(body))})
        if fault == "slow":
            await response.prepare(request)
            for at in range(len(body)):
                await response.write(body[at : at + 1])
                await asyncio.sleep(1 / self.behaviour.slow_bytes_per_s)
            return response
        if fault == "reset":
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            await asyncio.sleep(0.01)  # else the reset overtakes the bytes
        if request.transport is not None:
            request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            request.transport.abort()
        return response

    def completion(self, asked: Mapping[str, Any], fault: str = "") -> tuple[bytes, int, int]:
        """The body of an answer, its prompt tokens and its completion tokens."""
        told, choices, written = self.behaviour, [], 0
        for index in range(1 if "n" in told.ignored else int(asked.get("n") or 1)):
            answer = self._answer(asked, index)
            text, reason, *chances = (answer, "stop") if isinstance(answer, str) else answer
            if index == 0 and fault in CONTENT:
                text, reason = spoilt(text, fault)
            written += len(text) // 4 + 1 + told.thoughts
            message, reason = self._message(asked, text, reason)
            choices.append(
                f'{{"index":{index},"message":{json.dumps(message)},'
                f'"logprobs":{logprobs_of(asked, text, *chances)},"finish_reason":"{reason}"}}'
            )
        prompt = min(prompt_tokens(asked), told.context or sys.maxsize)
        usage = (
            f',"usage":{{"prompt_tokens":{prompt},"completion_tokens":{written},"total_tokens":{prompt + written},'
            f'"prompt_tokens_details":{{"cached_tokens":{int(prompt * told.cached_share)}}}}}'
        )
        name = json.dumps(asked.get("model", ""))
        body = (
            f'{{"id":"chatcmpl-{len(self.stats.admitted)}","object":"chat.completion","created":{int(time.time())},'
            f'"model":{name},"system_fingerprint":"fp_test","choices":[{",".join(choices)}]'
            f"{'' if 'usage' in told.ignored else usage}}}"
        )
        return body.encode(), prompt, written

    def _message(self, asked: Mapping[str, Any], text: str, reason: str) -> tuple[dict[str, Any], str]:
        """The message that holds a text and the thoughts before it, and why it ended."""
        told, thoughts = self.behaviour, "hmm " * self.behaviour.thoughts
        limit = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or sys.maxsize)
        if limit <= told.thoughts:
            thoughts, text, reason = "hmm " * limit, "", "length"
        message = {"role": "assistant", "content": "", "refusal": None, told.answer_in: text}
        if thoughts and told.thoughts_in == "content":
            mark = "</think>" if reason != "length" else ""
            message["content"] = f"<think>{thoughts}{mark}{text}"
        elif thoughts:
            message[told.thoughts_in] = thoughts
        return message, reason


def prompt_tokens(asked: Mapping[str, Any]) -> int:
    """The tokens of a request's prompt."""
    return sum(len(str(one.get("content", ""))) for one in asked["messages"]) // 4 + 1


def logprobs_of(asked: Mapping[str, Any], text: str, chances: Mapping[str, float] | None = None) -> str:
    """The logprobs of a text of one token, where they are asked for and known; an impossible token is left out."""
    if not (chances and asked.get("logprobs")):
        return "null"
    listed = [
        {"token": token, "logprob": math.log(chance), "bytes": None} for token, chance in chances.items() if chance
    ]
    likeliest = sorted(listed, key=lambda each: -float(str(each["logprob"])))[: int(asked.get("top_logprobs") or 0)]
    chosen = {"token": text, "logprob": math.log(max(chances.get(text, 0.0), 1e-9)), "bytes": None}
    return json.dumps({"content": [{**chosen, "top_logprobs": likeliest}], "refusal": None})


class Draw:
    """Two numbers in [0, 1) that follow from a seed, a task and how often it was seen."""

    __slots__ = ("first", "second")

    def __init__(self, seed: int, key: str, seen: int) -> None:
        first, second = struct.unpack("QQ", blake2b(f"{seed}:{key}:{seen}".encode(), digest_size=16).digest())
        self.first, self.second = first / 2**64, second / 2**64


def next_kind(faults: Mapping[str, float], draw: float) -> str:
    """The kind into whose share the draw falls, or ""."""
    for kind, share in faults.items():
        if draw < share:
            return kind
        draw -= share
    return ""


def spoilt(text: str, fault: str) -> tuple[str, str]:
    """The text and finish reason that a fault of CONTENT makes of an answer."""
    return {
        "empty": ("", "stop"),
        "wrong_schema": ('{"unexpected": {"answer": [1, 2, 3]}}', "stop"),
        "length": (text[: len(text) // 2], "length"),
        "content_filter": ("", "content_filter"),
    }[fault]


def problem(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as a provider words it."""
    body = {"error": {"message": message, "type": "server_error" if status >= 500 else code, "code": code}}
    return web.json_response(body, status=status, headers=headers)


def refused_parameter(asked: Mapping[str, Any], refused: Sequence[str]) -> str:
    """What a provider says of the first parameter that it does not take, or ""."""
    if "system" in refused and any(message.get("role") == "system" for message in asked["messages"]):
        return "Unsupported value: 'messages[0].role' does not support 'system' with this model."
    if "max_tokens" in refused and "max_tokens" in asked:
        return "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    if "temperature" in refused and asked.get("temperature", 1) != 1:
        return f"Unsupported value: 'temperature' does not support {asked['temperature']} with this model."
    name = next((name for name in refused if name in asked and name not in {"temperature", "max_tokens"}), "")
    return f"Unsupported parameter: '{name}' is not supported with this model." if name else ""


def too_many(headers: Mapping[str, str]) -> web.Response:
    return problem(429, "rate_limit_exceeded", "too many requests", headers)


@dataclass
class Batch:
    """One batch; its files are made when it is first looked at after its end."""

    id: str
    input_id: str
    created: float
    metadata: Any
    lines: list[dict[str, Any]]
    problem: str = ""
    cancelled: bool = False
    output_id: str | None = None
    error_id: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    created_at: int = field(default_factory=lambda: int(time.time()))


class Batches:
    """The Batch API: files, and batches that take `batch_seconds`. All of it is in memory."""

    def __init__(self, server: FaultServer) -> None:
        self._server = server
        self._files: dict[str, tuple[str, str, bytes]] = {}
        self._batches: dict[str, Batch] = {}

    async def handle(self, request: web.BaseRequest) -> web.Response | None:
        method, (kind, *rest) = request.method, request.path.removeprefix("/v1/").split("/")
        routes: dict[tuple[str, str, int], Callable[..., Any]] = {
            ("POST", "files", 0): self._upload,
            ("GET", "files", 0): self._list_files,
            ("GET", "files", 1): self._file,
            ("DELETE", "files", 1): self._delete,
            ("GET", "files", 2): self._content,
            ("POST", "batches", 0): self._create,
            ("GET", "batches", 0): self._list,
            ("GET", "batches", 1): self._get,
            ("POST", "batches", 2): self._cancel,
        }
        action = routes.get((method, kind, len(rest)))
        if action is None or "batches" in self._server.behaviour.ignored:
            return None
        self._server.stats.count(f"{method} {kind}{'/*' if rest else ''}")
        try:
            found: web.Response = await action(request, *rest[:1])
        except KeyError as error:
            return problem(404, "not_found", f"there is no {error}")
        return found

    async def _upload(self, request: web.BaseRequest) -> web.Response:
        name, content, purpose = "", b"", ""
        parts: AsyncIterator[Any] = await request.multipart()
        async for part in parts:
            if part.name == "file":
                name, content = part.filename or "", bytes(await part.read(decode=False))
            elif part.name == "purpose":
                purpose = await part.text()
        if purpose != "batch":
            return problem(400, "bad_purpose", f"purpose {purpose!r} is not batch")
        return web.json_response(self._file_object(self._put(name, purpose, content)))

    def _put(self, name: str, purpose: str, content: bytes) -> str:
        file_id = f"file-{len(self._files):06d}"
        self._files[file_id] = (name, purpose, content)
        return file_id

    def _file_object(self, file_id: str) -> dict[str, Any]:
        name, purpose, content = self._files[file_id]
        return {
            "id": file_id, "object": "file", "bytes": len(content), "created_at": int(time.time()), "filename": name,
            "purpose": purpose, "status": "processed",
        }  # fmt: skip

    async def _list_files(self, request: web.BaseRequest) -> web.Response:
        return web.json_response({"object": "list", "data": [*map(self._file_object, self._files)], "has_more": False})

    async def _file(self, request: web.BaseRequest, file_id: str) -> web.Response:
        return web.json_response(self._file_object(file_id))

    async def _delete(self, request: web.BaseRequest, file_id: str) -> web.Response:
        del self._files[file_id]
        return web.json_response({"id": file_id, "object": "file", "deleted": True})

    async def _content(self, request: web.BaseRequest, file_id: str) -> web.Response:
        return web.Response(body=self._files[file_id][2], content_type="application/octet-stream")

    async def _create(self, request: web.BaseRequest) -> web.Response:
        asked = json.loads(await request.read())
        lines, wrong = read_lines(self._files[asked["input_file_id"]][2])
        batch_id = f"batch-{len(self._batches):06d}"
        self._batches[batch_id] = Batch(
            batch_id, asked["input_file_id"], time.monotonic(), asked.get("metadata"), lines, wrong
        )
        return await self._get(request, batch_id)

    async def _list(self, request: web.BaseRequest) -> web.Response:
        """Newest first, in pages of `limit` after the id `after`."""
        ids = list(reversed(self._batches))
        after, limit = request.query.get("after"), int(request.query.get("limit", "20"))
        ids = ids[ids.index(after) + 1 :] if after else ids
        page = [self._object(self._batches[one]) for one in ids[:limit]]
        more = {"has_more": len(ids) > limit, "last_id": ids[:limit][-1] if ids else None}
        return web.json_response({"object": "list", "data": page} | more)

    async def _get(self, request: web.BaseRequest, batch_id: str) -> web.Response:
        return web.json_response(self._object(self._batches[batch_id]))

    async def _cancel(self, request: web.BaseRequest, batch_id: str) -> web.Response:
        self._batches[batch_id].cancelled = True
        return await self._get(request, batch_id)

    def _status(self, batch: Batch) -> str:
        share = (time.monotonic() - batch.created) / max(self._server.behaviour.batch_seconds, 1e-9)
        if batch.problem or batch.cancelled:
            return "failed" if batch.problem else "cancelled"
        if share < 1 and batch.output_id is None:
            return "validating" if share < 0.2 else "in_progress"
        if batch.output_id is None:
            self._finish(batch)
        return "expired" if batch.counts["expired"] else "completed"

    def _object(self, batch: Batch) -> dict[str, Any]:
        status = self._status(batch)
        wrong = {"object": "list", "data": [{"code": "invalid", "message": batch.problem}]} if batch.problem else None
        return {
            "id": batch.id, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
            "input_file_id": batch.input_id, "status": status, "metadata": batch.metadata,
            "created_at": batch.created_at,
            "output_file_id": batch.output_id or None, "error_file_id": batch.error_id or None,
            "errors": wrong,
            "request_counts": {
                "total": len(batch.lines),
                "completed": batch.counts["completed"],
                "failed": batch.counts["failed"] + batch.counts["expired"],
            },
        }  # fmt: skip

    def _finish(self, batch: Batch) -> None:
        """Answers every line and writes the two files, each in an order of its own."""
        done: list[str] = []
        failed: list[str] = []
        for line in batch.lines:
            kind, result = self._result(line)
            batch.counts[kind] += 1
            (done if kind == "completed" else failed).append(json.dumps(result))
        for made, shuffler in ((done, Random(batch.id)), (failed, Random(batch.id + "e"))):
            shuffler.shuffle(made)
        batch.output_id = self._put("output.jsonl", "batch_output", jsonl(done)) if done else ""
        batch.error_id = self._put("error.jsonl", "batch_output", jsonl(failed)) if failed else ""

    def _result(self, line: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        server, asked = self._server, line["body"]
        told, key = server.behaviour, task_key(asked["messages"])
        result: dict[str, Any] = {"id": f"r-{key}", "custom_id": line["custom_id"], "response": None, "error": None}
        if server.refuses(key):
            server.stats.count("batch_refused")
            return "failed", result | {"response": response(400, "invalid_prompt")}
        task = server.tasks[key]
        draw = Draw(told.seed, key, task.seen)
        task.seen += 1
        if task.in_a_row < told.worst and draw.second < told.batch_fail + told.batch_expire:
            task.in_a_row += 1
            if draw.second < told.batch_fail:
                server.stats.count("batch_failed")
                return "failed", result | {"response": response(500, "server_error")}
            server.stats.count("batch_expired")
            return "expired", result | {"error": {"code": "batch_expired", "message": "it was not answered in time"}}
        fault = server.fault(task, draw, CONTENT)
        body, prompt, completion = server.completion(asked, fault)
        server.stats.prompt_tokens += prompt
        server.stats.completion_tokens += completion
        server.stats.count(f"batch_{fault or 'answered'}")
        server.stats.delivered[blake2b(json.dumps(asked).encode(), digest_size=8).digest()] += 1
        task.answered += not fault
        return "completed", result | {"response": {"status_code": 200, "request_id": "r", "body": json.loads(body)}}


def read_lines(content: bytes) -> tuple[list[dict[str, Any]], str]:
    """The lines of a batch's input, and what is wrong with them or ""."""
    try:
        lines = [json.loads(line) for line in content.splitlines() if line.strip()]
        names = [line["custom_id"] for line in lines]
        for line in lines:
            task_key(line["body"]["messages"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [], f"a line is no request: {error!r}"
    if len(set(names)) < len(names):
        return lines, "a custom_id stands twice"
    if not 0 < len(lines) <= 50_000:
        return lines, f"{len(lines)} requests; a batch has 1 to 50,000"
    return lines, ""


def jsonl(lines: Sequence[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def response(status: int, code: str) -> dict[str, Any]:
    return {"status_code": status, "request_id": "r", "body": {"error": {"message": code, "code": code}}}


class Served:
    """A server in a thread of its own, for code that has no event loop or runs its own."""

    def __init__(self, server: FaultServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self._loop = server, loop
        self.url, self.admin = server.url, server.admin

    def control(self, **values: Any) -> None:
        """Changes the behaviour, as POST /control does."""
        asyncio.run_coroutine_threadsafe(self.server.control(values), self._loop).result()

    def report(self, *, tasks: bool = False) -> dict[str, Any]:
        """What GET /stats says."""

        async def read() -> dict[str, Any]:
            return self.server.report(tasks=tasks)

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result()


@contextlib.contextmanager
def serving(behaviour: Behaviour | None = None, answer: Answer = default_answer, port: int = 0) -> Iterator[Served]:
    """A server in a thread; it ends with the block."""
    with ThreadLoop() as loop:
        stack = contextlib.AsyncExitStack()

        async def start() -> FaultServer:
            return await stack.enter_async_context(FaultServer(behaviour, answer, port))

        server = asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            yield Served(server, loop)
        finally:
            asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()


class ThreadLoop:
    """An event loop that runs in a thread while it is entered."""

    def __enter__(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault server", daemon=True)
        self._thread.start()
        return self._loop

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def arguments() -> argparse.Namespace:
    """One option for each field of Behaviour, and `--port`, `--fault`, `--mix`, `--answer`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--leash", action="store_true", help="end when the process that started this one ends")
    parser.add_argument("--fault", action="append", default=[], metavar="KIND=P", help=", ".join(FAULTS))
    parser.add_argument("--mix", type=float, default=0.0, metavar="P", help="spread over every kind but `slow`")
    parser.add_argument("--answer", default="", metavar="MODULE:NAME", help="a callable of (request, choice)")
    for name, default in asdict(Behaviour()).items():
        option = "--" + name.replace("_", "-")
        if isinstance(default, bool):
            parser.add_argument(option, action="store_true")
        elif isinstance(default, tuple):
            parser.add_argument(option, nargs="*", default=default)
        elif not isinstance(default, dict):
            parser.add_argument(option, type=type(default), default=default)
    return parser.parse_args()


def behaviour_of(told: argparse.Namespace) -> Behaviour:
    values = {one.name: getattr(told, one.name) for one in fields(Behaviour) if hasattr(told, one.name)}
    faults = {kind: float(share) for kind, _, share in (text.partition("=") for text in told.fault)}
    behaviour = Behaviour()
    behaviour.change(values | {"faults": (mix(told.mix) if told.mix else {}) | faults})
    return behaviour


async def main() -> None:
    """Serves until it is stopped."""
    told, parent = arguments(), os.getppid()
    module, _, name = told.answer.partition(":")
    answer = getattr(import_module(module), name) if module else default_answer
    async with FaultServer(behaviour_of(told), answer, told.port) as server:
        print(server.url, server.admin, sep="\n", flush=True)
        while not told.leash or os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
    sys.exit(0)
