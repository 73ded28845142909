"""The hosted model against a real loopback server: what each answer means, which endpoint is asked, what is kept."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from email.utils import formatdate

import openai
import pytest
from pydantic import ValidationError

from foil.engine.answer_forms import AnswerForm, body_of
from foil.engine.errors import (
    ModelError,
    ModelOutageError,
    RateLimitedError,
    RefusedRequestError,
    TransientModelError,
)
from foil.engine.models import retry
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.reading import retry_after
from foil.engine.requests import Message, Request
from tests.support.models.fault_server import Behaviour, FaultServer
from tests.support.models.raw_server import answering, http
from tests.support.models.scripted_server import answered, scripted
from tests.support.small_parts import Line

CANARY = "sk-canary-4f1d2c7b9a"
pytestmark = pytest.mark.usefixtures("each_way")


def request(text="a task", *, affinity="", schema=None, **params):
    return Request("test-model", (Message("user", text),), {"max_tokens": 64, **params}, schema, affinity=affinity)


def drill(work, *behaviours, **settings):
    """Runs `work(hosted, *servers)` on servers that behave so."""

    async def run():
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(FaultServer(one)) for one in behaviours or (Behaviour(),)]
            told = {"model": "test-model", "endpoints": [{"url": server.url} for server in servers]} | settings
            hosted = Hosted(HostedSettings.model_validate(told))
            try:
                return await work(hosted, *servers)
            finally:
                await hosted.close()

    return asyncio.run(run())


def once(kind, **more):
    return Behaviour(faults={kind: 1.0}, worst=1, worst_content=1, **more)


def test_a_reply_says_who_answered_what_it_used_and_what_it_cost():
    async def work(hosted, server):
        reply = await hosted.complete(request())
        assert json.loads(reply.text)["text"]
        assert (reply.model, reply.endpoint, reply.finish_reason) == ("test-model", server.url, "stop")
        assert reply.prompt_tokens > 0 < reply.completion_tokens
        fresh = reply.prompt_tokens - reply.cached_tokens
        assert reply.cached_tokens > 0
        assert reply.cost_usd == pytest.approx(
            (fresh * 2 + reply.cached_tokens * 1 + reply.completion_tokens * 8) / 1e6
        )

    drill(work, Behaviour(cached_share=0.5), price={"prompt": 2, "completion": 8, "cached": 1})


def test_logprobs_and_a_reply_without_usage_are_read():
    tokens = {"content": [{"token": "a", "logprob": -0.1, "top_logprobs": []}]}
    choice = {"message": {"content": "x" * 40}, "finish_reason": "stop", "logprobs": tokens}

    async def work(hosted, server):
        client = hosted._clients[server.url]
        reply = client.reply(json.dumps({"choices": [choice]}).encode(), request("y" * 80), 0.0)
        assert reply.logprobs == tokens
        assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd) == (20, 10, pytest.approx(3e-05))

    drill(work, price={"prompt": 1, "completion": 1})


def test_further_choices_are_kept():
    async def work(hosted, server):
        reply = await hosted.complete(request(n=3))
        texts = {reply.text, *(text for text, _ in reply.others)}
        assert len(texts) == 3
        assert {reason for _, reason in reply.others} == {"stop"}

    drill(work)


@pytest.mark.parametrize(
    ("kind", "error", "unsure", "cause"),
    [
        ("429_seconds", RateLimitedError, False, openai.RateLimitError),
        ("429_bare", RateLimitedError, False, openai.RateLimitError),
        ("500", TransientModelError, True, openai.InternalServerError),
        ("502", TransientModelError, True, openai.InternalServerError),
        ("503", TransientModelError, False, openai.InternalServerError),
        ("timeout", TransientModelError, True, openai.APITimeoutError),
        ("reset", TransientModelError, True, openai.APIConnectionError),
        ("truncated", TransientModelError, True, openai.APIResponseValidationError),
        ("error_200", TransientModelError, True, openai.APIResponseValidationError),
        ("slow", TransientModelError, True, openai.APITimeoutError),
    ],
)
def test_each_fault_is_a_typed_error_and_the_next_send_answers(kind, error, unsure, cause):
    async def work(hosted, server):
        with pytest.raises(error) as raised:
            await hosted.complete(request())
        assert raised.value.unsure is unsure
        assert type(raised.value.__cause__) is cause
        assert hosted.pool.endpoints[0].in_flight == 0
        reply = await hosted.complete(request())
        assert json.loads(reply.text)["text"]

    drill(work, once(kind), patience={"timeout_s": 1.0 if kind in {"timeout", "slow"} else 60.0})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": formatdate(1030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(900, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_pause_is_read_in_all_its_forms(headers, seconds):
    assert retry_after(headers, wall=lambda: 1000.0) == seconds


def test_who_refuses_every_prompt_stops_the_run():
    async def work(hosted, server):
        with pytest.raises(ModelOutageError, match=r"answered 400.*another prompt is refused too"):
            await retry.complete(hosted, request())
        assert server.report()["requests"] == 2

    drill(work, Behaviour(refused_share=1.0))


def test_retries_count_their_sends_and_what_may_be_billed():
    async def work(hosted, server):
        reply = await retry.complete(hosted, request())
        assert (reply.attempts, reply.unsure) == (2, 1)

    drill(work, once("reset"))


def test_a_wrong_key_stops_the_run_and_is_in_no_message(monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", CANARY)

    async def work(hosted, server):
        with pytest.raises(ModelOutageError) as raised:
            await hosted.complete(request())
        assert "FOIL_TEST_KEY" in str(raised.value)
        assert CANARY not in str(raised.value) + repr(raised.value) + repr(vars(hosted))
        assert raised.value.exit_code == 9

    async def with_key():
        async with FaultServer(Behaviour(api_keys=("another",))) as server:
            hosted = Hosted(HostedSettings(model="m", url=server.url, api_key="${FOIL_TEST_KEY}"))
            await work(hosted, server)
            await hosted.close()

    asyncio.run(with_key())


def test_a_key_that_is_missing_is_named():
    async def work():
        hosted = Hosted(HostedSettings(model="m", url="http://127.0.0.1:9/v1", api_key="${FOIL_NO_SUCH_KEY}"))
        with pytest.raises(ModelOutageError, match="FOIL_NO_SUCH_KEY is empty on this machine"):
            await hosted.complete(request())

    asyncio.run(work())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_key": CANARY, "url": "https://a.example/v1"}, "a key does not belong in a job file"),
        ({"url": "ftp://a.example"}, "expected an http"),
        ({"url": "https://user:pass@a.example"}, "without a user name"),
        ({"url": "http://169.254.169.254/v1"}, "link-local"),
        ({"url": "http://[fe80::1]/v1"}, "link-local"),
        ({"url": "http://a.example/v1", "api_key": "${K}"}, "plain http"),
        ({"url": "http://2852039166/v1"}, "link-local"),
        ({"url": "http://[::ffff:169.254.169.254]/v1"}, "link-local"),
        ({"url": "http://169.254.169.254./v1"}, "link-local"),
        ({"endpoints": [{"url": "https://a.b"}, {"url": "https://a.b"}]}, "two endpoints have one url"),
        ({}, "either `url` or `endpoints`"),
        ({"mode": "batch", "endpoints": [{"url": "https://a.b"}, {"url": "https://c.d"}]}, "exactly one endpoint"),
    ],
)
def test_dangerous_or_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        HostedSettings.model_validate({"model": "m", **settings})


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_the_proxy_of_the_environment_is_asked_for_https_alone(monkeypatch, variable):
    seen = []

    async def ask(url):
        hosted = Hosted(HostedSettings(model="m", url=url))
        try:
            with pytest.raises(TransientModelError):
                await hosted.complete(request())
        finally:
            await hosted.close()

    with answering(lambda first: seen.append(first) or http(b"", "502 No")) as proxy:
        address = proxy.url.removesuffix("/v1")
        for name in (variable, "HTTP_PROXY"):
            monkeypatch.setenv(name, address)
        asyncio.run(ask("https://api.example/v1"))
        asyncio.run(ask("http://127.0.0.1:9/v1"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        asyncio.run(ask("https://127.0.0.1:9/v1"))
    assert seen == [b"CONNECT api.example:443 HTTP/1.1\r\n"]


def test_the_load_follows_the_weights():
    async def weighted():
        async with FaultServer(Behaviour(latency=0.05)) as one, FaultServer(Behaviour(latency=0.05)) as two:
            places = [{"url": one.url, "weight": 3}, {"url": two.url}]
            hosted = Hosted(HostedSettings.model_validate({"model": "m", "endpoints": places}))
            at_once = asyncio.Semaphore(24)

            async def ask(i):
                async with at_once:
                    await hosted.complete(request(f"task {i}"))

            await asyncio.gather(*(ask(i) for i in range(160)))
            await hosted.close()
            return one.report()["requests"], two.report()["requests"]

    heavy, light = asyncio.run(weighted())
    assert heavy > 1.8 * light > 0


def test_a_seed_stays_at_its_endpoint():
    async def work(hosted, *servers):
        homes = []
        for seed in range(40):
            both = (request(f"task {i}", affinity=f"seed {seed}") for i in range(2))
            homes.append({reply.endpoint for reply in await asyncio.gather(*map(hosted.complete, both))})
        assert {len(home) for home in homes} == {1}
        assert set.union(*homes) == {server.url for server in servers}

    drill(work, Behaviour(), Behaviour())


def test_a_dead_endpoint_is_left_alone_and_the_other_takes_over():
    async def work(hosted, dead, alive):
        replies = await asyncio.gather(*(retry.complete(hosted, request(f"task {i}")) for i in range(60)))
        assert {reply.endpoint for reply in replies} == {alive.url}
        assert hosted.pool.endpoints[0].breaker.opened is not None
        sent = dead.report()["requests"]
        await asyncio.gather(*(retry.complete(hosted, request(f"more {i}")) for i in range(60)))
        assert dead.report()["requests"] <= sent + 1

    drill(work, Behaviour(outage="503"), Behaviour())


@pytest.fixture
def probed_often(monkeypatch):
    """An open breaker is probed ten times as often; how often in truth is tested in virtual time."""
    monkeypatch.setattr("foil.engine.models.pacing._PROBES_S", (0.3, 0.6, 1.2, 1.5))


def test_an_outage_that_lasts_stops_the_run_and_a_short_one_does_not(probed_often):
    async def lasting(hosted, server):
        results = await asyncio.gather(
            *(retry.complete(hosted, request(f"task {i}")) for i in range(20)), return_exceptions=True
        )
        assert all(isinstance(result, ModelOutageError) for result in results)

    drill(lasting, Behaviour(outage="503"), patience={"outage_s": 1.0})

    async def short(hosted, server):
        async def mend():
            await asyncio.sleep(1)
            await server.control({"outage": ""})

        mending = asyncio.create_task(mend())
        replies = await asyncio.gather(*(retry.complete(hosted, request(f"task {i}")) for i in range(20)))
        await mending
        assert len(replies) == 20

    drill(short, Behaviour(outage="refuse"), patience={"outage_s": 60.0})


def test_a_pause_of_the_provider_that_is_too_long_stops_the_run():
    async def work(hosted, server):
        with pytest.raises(ModelOutageError, match="asks to wait 600 s"):
            await retry.complete(hosted, request())

    drill(work, once("429_long", long_retry_after=600.0))


def test_an_endpoint_without_json_schema_is_told_in_words_from_then_on():
    seen = []

    async def work(hosted, server):
        client = hosted._clients[server.url]
        client.form = AnswerForm("auto", local=False)  # as at an address that is not of this machine
        post = client._post

        async def picky(asked, structured):
            seen.append(structured)
            if structured == "json_schema":
                raise RefusedRequestError("400: response_format is not supported by this model")
            return await post(asked, structured)

        client._post = picky
        for i in range(3):
            await hosted.complete(request(f"task {i}", schema=Line.model_json_schema()))

    drill(work)
    assert seen == ["json_schema", "prompt", "prompt", "prompt"]


def test_a_schema_is_strict_only_where_it_is_closed():
    schema = Line.model_json_schema()
    loose = body_of(request(schema=schema), "json_schema")["response_format"]["json_schema"]
    closed = body_of(request(schema={**schema, "additionalProperties": False}), "json_schema")
    assert loose["strict"] is False
    assert closed["response_format"]["json_schema"]["strict"] is True
    assert '"text"' in body_of(request(schema=schema), "prompt")["messages"][-1]["content"]


def test_requests_a_minute_are_held_from_the_settings_and_from_headers():
    async def work(hosted, server):
        started = time.monotonic()
        await asyncio.gather(*(retry.complete(hosted, request(f"task {i}")) for i in range(40)))
        assert time.monotonic() - started > 1.3
        assert server.report()["kinds"] == {"answered": 40}

    drill(work, Behaviour(), rpm=1200)

    async def learnt(hosted, server):
        await hosted.complete(request())
        assert hosted.pool.endpoints[0].requests._rate == pytest.approx(20.0)

    drill(learnt, Behaviour(rpm=1200, ratelimit_headers=True))


def test_a_key_that_a_provider_repeats_is_cut_out_before_the_message_is_cut_short(monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", CANARY)

    async def work():
        settings = HostedSettings(model="m", url="http://127.0.0.1:9/v1", api_key="${FOIL_TEST_KEY}")
        client = next(iter(Hosted(settings)._clients.values()))
        for filler in range(470, 500):
            assert CANARY[:5] not in str(client.error_of(400, "x" * filler + CANARY, {}))

    asyncio.run(work())


@pytest.mark.slow
def test_two_poisoned_prompts_at_the_end_of_a_run_fail_alone_and_an_outage_stops_it(probed_often):
    async def poisoned(url):
        told = {"model": "m", "url": url, "patience": {"outage_s": 1.0, "attempts": 8}}
        hosted = Hosted(HostedSettings.model_validate(told))
        results = await asyncio.gather(
            *(retry.complete(hosted, request(f"task {i}")) for i in range(2)), return_exceptions=True
        )
        await hosted.close()
        assert {type(result) for result in results} == {ModelError}
        assert "another prompt passes, so this request is to blame" in str(results[0])

    with scripted(lambda text, _: answered(500, {"error": "no"}) if "task" in text else answered()) as server:
        asyncio.run(poisoned(server.url))

    async def outage(hosted, server):
        with pytest.raises(ModelOutageError):
            await retry.complete(hosted, request())

    drill(outage, Behaviour(outage="503"), patience={"outage_s": 1.0, "attempts": 4})


def test_one_request_at_a_time_survives_an_outage(probed_often):
    async def work(hosted, server):
        async def mend():
            await asyncio.sleep(1)
            await server.control({"outage": ""})

        mending = asyncio.create_task(mend())
        reply = await retry.complete(hosted, request())
        await mending
        assert reply.attempts >= 3

    drill(work, Behaviour(outage="503"), patience={"outage_s": 60.0, "attempts": 3})


def test_a_refused_connection_cannot_have_been_billed():
    async def work(hosted, server):
        await server.control({"outage": "refuse"})
        with pytest.raises(TransientModelError) as raised:
            await hosted.complete(request())
        assert raised.value.unsure is False

    drill(work)
