"""Providers that send too much, nonsense or a key: over real sockets, alone and in whole runs."""

import asyncio
import gzip
import json
import re
import time
import zlib
from functools import cache
from itertools import chain, repeat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foil.engine.errors import ModelError, ModelOutageError, OversizeReplyError, TransientModelError
from foil.engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from foil.engine.models import retry
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.requests import Message, Request
from tests.support.drills.run_drill import Builder
from tests.support.fuzzing import fuzzed
from tests.support.memory import forget_peak, peak_memory
from tests.support.models.raw_server import answering, http
from tests.support.small_parts import Numbers, read_replies, run_parts, sound, topics

KEY = "sk-canary-5d20c1f7aa"
SANE = {"prompt_tokens": 5, "completion_tokens": 2}
MOST = 100_000
pytestmark = pytest.mark.usefixtures("each_way")


def request(text="a task"):
    return Request("test-model", (Message("user", text),), {"max_tokens": 64})


def completion(text='{"text":"fine"}', usage=SANE, **more):
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "usage": usage, **more}).encode()


def ask(url, **settings):
    """What one send ends in."""

    async def send():
        hosted = Hosted(HostedSettings.model_validate({"model": "m", "url": url, "most_reply_bytes": MOST} | settings))
        try:
            return await hosted.complete(request())
        except ModelError as error:
            return error
        finally:
            await hosted.close()

    return asyncio.run(send())


@cache
def packed(kind, size=1 << 28):
    """`size` zeros in a few parts, packed."""
    packer = zlib.compressobj(9, wbits={"gzip": 31, "deflate": 15}[kind])
    parts = [packer.compress(bytes(1 << 24)) for _ in range(size >> 24)]
    return b"".join([*parts, packer.flush()])


def chunked(parts, status="200 OK", **headers):
    yield f"HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n".encode()
    yield from (f"{name.replace('_', '-')}: {value}\r\n".encode() for name, value in headers.items())
    yield b"\r\n"
    for part in parts:
        yield b"%x\r\n%b\r\n" % (len(part), part)


def test_a_reply_is_read_up_to_its_bound_however_it_is_packed():
    answers = {
        "gzip": http(packed("gzip"), content_encoding="gzip"),
        "deflate": http(packed("deflate"), content_encoding="deflate"),
        "endless": chunked(repeat(bytes(1 << 16))),
        "plain": http(completion("x" * MOST)),
    }
    for kind, answer in answers.items():
        forget_peak()
        before = peak_memory()
        with answering(lambda _, answer=answer: answer) as server:
            error = ask(server.url)
        assert type(error) is OversizeReplyError, kind
        assert error.unsure
        assert peak_memory() - before < 60 << 20, kind
    with answering(lambda _: http(gzip.compress(completion("x" * (MOST - 200))), content_encoding="gzip")) as server:
        assert len(ask(server.url).text) == MOST - 200


def test_a_reply_that_is_packed_twice_is_no_answer():
    with answering(lambda _: http(gzip.compress(packed("gzip", 1 << 26)), content_encoding="gzip, gzip")) as server:
        assert type(ask(server.url)) is TransientModelError


@pytest.mark.parametrize("charset", ["utf-8", "zip", "no-such"])
def test_of_an_error_only_the_beginning_is_read(charset):
    kinds = [({"content_encoding": "gzip"}, [packed("gzip")]), ({}, repeat(bytes(1 << 16)))]
    for headers, parts in kinds:
        forget_peak()
        before = peak_memory()
        told = {"content_type": f"text/plain; charset={charset}", **headers}
        with answering(lambda _, told=told, parts=parts: chunked(parts, "400 Bad", **told)) as server:
            error = ask(server.url)
        assert type(error) is ModelOutageError
        assert len(str(error)) < 1000
        assert peak_memory() - before < 40 << 20


def test_an_oversize_reply_fails_alone_and_is_asked_for_once(tmp_path):
    answers = iter(["x" * MOST, *['{"text":"fine"}'] * 99])
    with answering(lambda _: http(completion(next(answers)))) as server:
        summary = run(tmp_path, server.url, 20, most_reply_bytes=MOST)
        assert server.requests == 20
    assert summary.counts.reasons == {"oversize_reply": 1}
    assert (summary.counts.seeds["accepted"], summary.exit_code) == (19, 3)


def run(out, url, seeds, budget=None, **settings):
    limits = Limits(partition_seeds=10, budget=BudgetSettings.model_validate(budget or {}))
    return run_parts(Numbers(seeds), Builder(out, url, **settings), limits, RuntimeSettings(window=1))


ABSURD = [
    {"prompt_tokens": 9223372036854775808, "completion_tokens": 1},
    {"prompt_tokens": -1_000_000, "completion_tokens": -1},
    {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10**9}},
    {"prompt_tokens": 10**400, "completion_tokens": "many"},
]


@pytest.mark.parametrize("usage", ABSURD)
def test_absurd_usage_is_guessed_before_it_counts_and_the_run_ends_well(tmp_path, usage, caplog):
    with answering(lambda _: http(completion(usage=usage))) as server:
        summary = run(tmp_path, server.url, 20, {"usd": 1.0}, price={"prompt": 2.0, "completion": 2.0})
    assert (summary.complete, summary.exit_code) == (True, 0)
    sound(tmp_path, 20)
    assert 0 < summary.counts.cost_usd < 0.01
    assert all(reply["guessed"] and reply["cost_usd"] > 0 for reply in read_replies(tmp_path / "journal"))
    assert len(re.findall("are guessed from their characters", caplog.text)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("pause", ["nan", "inf", "0"])
def test_a_pause_that_is_none_is_backed_off_from(pause):
    async def ask_twice(url):
        patience = {"deadline_s": 2.0, "outage_s": 2.0}
        hosted = Hosted(HostedSettings.model_validate({"model": "m", "url": url, "patience": patience}))
        with pytest.raises(ModelOutageError):
            await retry.complete(hosted, request())
        await hosted.close()

    with answering(lambda _: http(b"{}", "429 Too Many", retry_after=pause)) as server:
        asyncio.run(asyncio.wait_for(ask_twice(server.url), 20))
        assert server.requests <= 15


def test_a_key_that_a_reply_repeats_is_in_no_byte_of_the_run(tmp_path, monkeypatch, capfd, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("FOIL_TEST_KEY", KEY)
    logprobs = {"content": [{"token": KEY, "logprob": -0.1, "top_logprobs": []}]}
    choice = {"message": {"content": json.dumps({"text": f"it is {KEY}"})}, "finish_reason": KEY, "logprobs": logprobs}
    told = {"model": KEY, "system_fingerprint": KEY, "usage": SANE}
    ended_so, body = (json.dumps({"choices": [choice | {"finish_reason": r}], **told}).encode() for r in (KEY, "stop"))
    begun = [http(f"no, {KEY}!".encode(), "400 No"), http(f'{{"error": "{KEY}"}}'.encode()), http(ended_so)]
    answers = chain([http(body)], begun, repeat(http(body)))
    with answering(lambda _: next(answers)) as server:
        summary = run(tmp_path, server.url, 10, api_key="${FOIL_TEST_KEY}")
    assert summary.counts.seeds["accepted"] == 9
    assert "it is ***" in str([topic.intents for topic in topics(tmp_path)])
    assert KEY not in "".join(capfd.readouterr()) + caplog.text + repr(topics(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


HEADERS = [
    "content-encoding", "content-length", "content-type", "retry-after", "transfer-encoding", "location", "set-cookie",
    "x-ratelimit-limit-requests", "x-should-retry",
]  # fmt: skip
VALUES = ["gzip", "br", "zstd", "gzip,gzip,gzip,gzip,gzip,gzip", "chunked", "nan", "-1", "a;charset=zip"]
ANYTHING = st.binary(max_size=200) | st.builds(
    lambda status, name, value, body: b"HTTP/1.1 %d X\r\n%b: %b\r\n\r\n%b" % (status, name.encode(), value, body),
    st.integers(100, 599),
    st.sampled_from(HEADERS),
    st.binary(max_size=30) | st.sampled_from(VALUES).map(str.encode),
    st.just(completion()) | st.binary(max_size=60) | st.just(gzip.compress(completion())[:40]),
)


def test_any_bytes_on_the_wire_are_a_reply_or_a_model_error():
    sent = [b""]
    with answering(lambda _: sent) as server:
        url = server.url

        async def send():
            hosted = Hosted(HostedSettings.model_validate({"model": "m", "url": url, "patience": {"timeout_s": 2.0}}))
            try:
                reply = await hosted.complete(request())
                assert reply.prompt_tokens >= 0
            except ModelError:
                pass
            finally:
                await hosted.close()

        @fuzzed(60)
        @given(ANYTHING)
        @example(b"HTTP/1.1 300 X\r\ncontent-encoding: gzip,gzip,gzip,gzip,gzip,gzip\r\n\r\n" + completion())
        def answers(told):
            sent[0] = told
            began = time.monotonic()
            asyncio.run(send())
            assert time.monotonic() - began < 5

        answers()
