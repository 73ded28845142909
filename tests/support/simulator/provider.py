"""A provider in this process, in the place of the network: it answers in character, misbehaves, keeps its own bill.

Whether a send meets a fault follows from the seed, the request and how often it was sent; the answer follows from the
request alone, so that an undisturbed run makes the same rows.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx2
import pytest

from foil.engine.models.sending.bounded_http import Connections, RawAnswer
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.engine.requests import Request
from tests.support.models.character import Character, request_of
from tests.support.simulator.disk import KilledError
from tests.support.simulator.world import Process, World

PRICE = {"prompt": 3.0, "completion": 11.0}
FAULTS = (
    "429", "429_odd", "429_date", "500", "503", "reset", "reset_after_work", "hang", "cut", "garbage", "error_200",
)  # fmt: skip
LOST = ("reset_after_work", "hang", "cut")
"""Faults whose work is billed, though no reply arrives."""
USAGES: tuple[Any, ...] = (-5, 1e30, "12", None, float("inf"), float("nan"), 10**400, {"a": 1}, True, -(10**12))
_ODD_PAUSES = ("nan", "inf", "-1", "1e400", "soon", "")
_ERRORS = {
    "429": (429, {"retry-after": "0.5"}),
    "429_date": (429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "500": (500, {}),
    "503": (503, {}),
    "error_200": (200, {}),
}
_IN_A_ROW = 3
_MOST_LATENCY_S = 2.0


@dataclass
class Sent:
    """A send that was billed: by whom it was asked, what it cost, when the reply arrived (None: never). `lost`: the
    network or the provider lost the reply."""

    request: str
    process: Process
    usd: float
    lost: bool
    arrived: float | None = None


class Provider:
    """`rate` is how often a send goes wrong, `odd_usage` how often a reply counts its tokens absurdly."""

    def __init__(self, world: World, rate: float, odd_usage: float, said: float) -> None:
        self._world, self.rate, self._odd_usage = world, rate, odd_usage
        self._answer = Character(said=said, broken=said / 2)
        self._salt = world.dice.random()
        self._sends: Counter[str] = Counter()
        self.bill: list[Sent] = []
        self.odd: set[str] = set()
        self.outage: tuple[float, float] = (0.0, 0.0)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Every HTTP client of this process talks to this provider."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connections, "exchange", self._exchange)
            patch.setattr(EndpointClient, "fetch", lambda _client, body: self._fetch(body))
            yield

    async def _fetch(self, body: bytes) -> RawAnswer:
        return await self._exchange("POST", "http://provider.example", {}, body)

    async def _exchange(self, method: str, url: str, _headers: Any, body: bytes, _patience: Any = None) -> RawAnswer:
        answer = await self._answered(httpx2.Request(method, url, content=body))
        return RawAnswer(answer.status_code, answer.headers, answer.content)

    async def _answered(self, sent: httpx2.Request) -> httpx2.Response:
        process = self._world.running
        if process is None or process.dead:
            raise KilledError
        if sent.method == "GET":
            return _reply(503 if self._down() else 200, {"data": []})
        body = json.loads(sent.content)
        request = request_of(body)
        self._sends[request.id] += 1
        times = self._sends[request.id]
        dice = Random(f"{self._salt} {request.id} {times}")
        fault = dice.choice(FAULTS) if times <= _IN_A_ROW and dice.random() < self.rate else ""
        self._world.note(f"{process.pid} asks {request.id} {fault}")
        self._world.told["provider faults"] += bool(fault)
        bill = Sent(request.id, process, usd_of(tokens_of(request)), fault in LOST)
        fault = "503" if self._down() else fault
        if not fault or fault in LOST:
            self.bill.append(bill)
        await asyncio.sleep(dice.uniform(0.01, _MOST_LATENCY_S))
        if process.dead:
            raise KilledError
        response = await self._respond(request, body, fault, dice)
        bill.arrived = None if fault else self._world.now
        return response

    def _down(self) -> bool:
        return self.outage[0] <= self._world.now < self.outage[1]

    async def _respond(self, request: Request, body: Any, fault: str, dice: Random) -> httpx2.Response:
        text, reason = self._answer(body, 0)
        usage: dict[str, Any] = tokens_of(request)
        if fault in {"reset", "reset_after_work"}:
            raise httpx2.ReadError("connection reset")
        if fault == "hang":
            await asyncio.sleep(1e5)
        if fault in _ERRORS:
            status, headers = _ERRORS[fault]
            return _reply(status, {"error": {"message": "sorry"}}, headers)
        if fault == "429_odd":
            return _reply(429, {"error": {"message": "slower"}}, {"retry-after": dice.choice(_ODD_PAUSES)})
        if fault == "garbage":
            return httpx2.Response(200, content=b"<html>busy</html>")
        if dice.random() < self._odd_usage:
            self.odd.add(request.id)
            self._world.told["absurd usage"] += 1
            usage[dice.choice(list(usage))] = dice.choice(USAGES)
        choice = {"message": {"content": text}, "finish_reason": reason}
        raw = json.dumps({"model": "sim", "choices": [choice] * body.get("n", 1), "usage": usage}).encode()
        return httpx2.Response(200, content=raw[: len(raw) // 2] if fault == "cut" else raw)


def tokens_of(request: Request) -> dict[str, int]:
    """What a request uses: numbers of its own."""
    return {"prompt_tokens": 100 + int(request.id[:3], 16), "completion_tokens": 10 + int(request.id[3:5], 16)}


def usd_of(tokens: dict[str, int]) -> float:
    """What a request costs."""
    return (tokens["prompt_tokens"] * PRICE["prompt"] + tokens["completion_tokens"] * PRICE["completion"]) / 1e6


def _reply(status: int, body: Any, headers: Any = None) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers=headers or {})
