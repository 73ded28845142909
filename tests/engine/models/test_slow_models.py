"""Slow is not gone, and gone is not slow: the real client and its retries in virtual time, over a model of any pace."""

import asyncio
import json

import pytest

from foil.engine.errors import ModelOutageError, TransientModelError
from foil.engine.models import retry
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.sending.bounded_http import RawAnswer
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.engine.requests import Message, Request
from tests.support.models.scripted_server import answered
from tests.support.virtual_time import run_virtually

GOOD = answered()


async def _lists_its_models(_client):
    return True


class Paced:
    """A model that answers the n-th send after `seconds(n)`, `slots` at a time; it stops work that nobody waits for."""

    def __init__(self, seconds, slots=10**6, answer=lambda _: GOOD):
        self.seconds, self.slots, self.answer, self.sends = seconds, slots, answer, 0

    async def fetch(self, _body):
        number, self.sends = self.sends, self.sends + 1
        async with self.room:
            await asyncio.sleep(self.seconds(number))
        answer = self.answer(number)
        return RawAnswer(answer.status, answer.headers, json.dumps(answer.body).encode())

    def ask(self, monkeypatch, requests, window, **patience):
        """What became of each request, and the seconds that it took in all."""
        monkeypatch.setattr(EndpointClient, "fetch", lambda _client, body: self.fetch(body))
        monkeypatch.setattr(EndpointClient, "up", _lists_its_models)
        told = {"model": "m", "url": "http://127.0.0.1:9/v1", "patience": patience}

        async def run():
            self.room, at_once = asyncio.Semaphore(self.slots), asyncio.Semaphore(window)
            hosted, loop = Hosted(HostedSettings.model_validate(told)), asyncio.get_running_loop()

            async def one(number):
                async with at_once:
                    return await retry.complete(hosted, Request("m", (Message("user", f"task {number}"),)))

            ended = await asyncio.gather(*map(one, range(requests)), return_exceptions=True)
            await hosted.close()
            return ended, loop.time()

        return run_virtually(run())


def failures(ended):
    return [each for each in ended if isinstance(each, BaseException)]


SLOW = {
    "eight first replies of 400 s": (lambda n: 400 if n < 8 else 30, 8, 8),
    "one at a time, a minute each": (lambda _: 60, 1, 12),
    "a model that is loaded for ten minutes": (lambda n: 600 if n < 16 else 5, 16, 16),
    "every reply takes eight minutes": (lambda _: 480, 4, 4),
    "alone and slow": (lambda _: 350, 1, 1),
    "slower with every reply": (lambda n: 100 + 10 * n, 8, 8),
}


@pytest.mark.parametrize("pace", SLOW)
def test_a_connection_that_is_open_is_waited_for_and_nothing_is_sent_twice(monkeypatch, pace):
    seconds, slots, window = SLOW[pace]
    model = Paced(seconds, slots)
    ended, _ = model.ask(monkeypatch, 24, window)
    assert failures(ended) == []
    assert model.sends == 24


def test_one_send_that_hangs_among_others_is_cut_and_sent_again(monkeypatch):
    model = Paced(lambda n: 1e6 if n == 5 else 2)
    ended, took = model.ask(monkeypatch, 200, 8)
    assert failures(ended) == []
    assert model.sends == 201
    assert took < 200


def test_what_the_job_says_of_one_send_holds(monkeypatch):
    model = Paced(lambda _: 400)
    ended, took = model.ask(monkeypatch, 8, 8, timeout_s=120)
    assert all(isinstance(each, ModelOutageError) for each in ended)
    assert "is connected, and did not answer within 120 s (patience.timeout_s, deadline_s)" in str(ended[0])
    assert took < 900


@pytest.mark.parametrize("window", [1, 8, 64])
def test_who_never_answers_is_gone_at_last(monkeypatch, window):
    ended, took = Paced(lambda _: 1e9).ask(monkeypatch, window, window)
    assert all(isinstance(each, ModelOutageError) for each in ended)
    assert took < 1100  # the last two minutes ask another prompt


GONE = {
    "429": lambda _: answered(429, {}),
    "429 with a pause": lambda _: answered(429, {}, retry_after="20"),
    "429 with a long pause": lambda _: answered(429, {}, retry_after="200"),
    "503": lambda _: answered(503, {}),
    "503 with a pause": lambda _: answered(503, {}, retry_after="45"),
    "429 and 503 in turn": lambda n: answered(429 if n % 2 else 503, {}),
    "not a chat completion": lambda _: answered(200, {"choices": 1}),
    "an overload of one provider": lambda _: answered(529, {}),
}


@pytest.mark.parametrize("window", [1, 8, 64])
@pytest.mark.parametrize("kind", GONE)
def test_who_lets_nothing_pass_for_long_is_an_outage_and_fails_nobody(monkeypatch, kind, window):
    model = Paced(lambda _: 0.5, answer=GONE[kind])
    ended, took = model.ask(monkeypatch, window, window)
    assert {isinstance(each, ModelOutageError) for each in ended} == {True}
    assert 290 < took < 520
    assert model.sends < 40 + 25 * window


def test_a_request_that_alone_is_never_answered_fails_alone(monkeypatch):
    async def fetch(_client, body):
        await asyncio.sleep(0.5)
        answer = answered(500, {}) if b'task 7"' in body else GOOD
        return RawAnswer(answer.status, answer.headers, json.dumps(answer.body).encode())

    model = Paced(lambda _: 0.5)
    model.fetch = lambda body: fetch(None, body)
    ended, _ = model.ask(monkeypatch, 400, 4)
    assert [type(each) for each in failures(ended)] == [TransientModelError], failures(ended)[:3]
