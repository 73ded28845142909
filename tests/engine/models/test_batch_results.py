"""What a batch answers with, whatever it is: one line kept for each request, and an error for its request alone."""

import asyncio
import io
import json
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import OversizeReplyError, TransientModelError
from foil.engine.keys import know_key
from foil.engine.models.batch import Batched
from foil.engine.models.batch_results import custom_id, keep_results
from foil.engine.models.endpoints import HostedSettings
from foil.engine.requests import Message, Request
from tests.support.fuzzing import fuzzed
from tests.support.models.raw_server import answering, http

KEY = "sk-canary-c3d9077b1e"
MOST = 2000
REQUESTS = [Request("m", (Message("user", f"task {number}"),), {"max_tokens": 64}) for number in range(5)]
IDS = [each.id for each in REQUESTS]


def line(request_id, text="fine", usage=None):
    told = {"choices": [{"message": {"content": text}}], "usage": usage}
    return json.dumps({"custom_id": request_id, "response": {"status_code": 200, "body": told}}).encode() + b"\n"


async def in_parts(data, size):
    for at in range(0, len(data), size):
        yield data[at : at + size]


def keep(data, size=7):
    file, waiting = io.BytesIO(), set(IDS)
    asyncio.run(keep_results(in_parts(data, size), waiting, MOST, file.write))
    lines = file.getvalue().splitlines()
    return {custom_id(kept): kept for kept in lines}, lines


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_line_for_each_request_is_kept_and_none_too_long(size):
    odd = [b"\n", b"no JSON\n", b'{"custom_id": 5}\n', b"[" * 1500 + b"\n", line("0" * 40), line(IDS[0], "again")]
    last = line(IDS[3]).rstrip()
    kept, lines = keep(line(IDS[0]) + b"".join(odd) + line(IDS[1], "x" * MOST) + line(IDS[2]) + last, size)
    assert list(kept) == IDS[:4]
    assert len(lines) == 4
    assert json.loads(kept[IDS[0]]) == json.loads(line(IDS[0]))
    assert json.loads(kept[IDS[1]])["error"]["code"] == "oversize_reply"


def test_a_file_without_an_end_is_left_soon():
    read = []

    async def endless(data):
        for part in repeat(data):
            read.append(len(part))
            yield part

    for data in (b"x" * 1000, b"junk\n" * 200, b"\n" * 1000):
        read.clear()
        asyncio.run(asyncio.wait_for(keep_results(endless(data), set(IDS), MOST, io.BytesIO().write), 20))
        assert sum(read) < 10_000_000


@fuzzed(400)
@given(
    st.lists(st.binary(max_size=30) | st.sampled_from([b"\n", line(IDS[0]), line(IDS[1])[:-9], b"\xff\n"]), max_size=8),
    st.integers(1, 50),
)
def test_any_bytes_leave_lines_that_can_be_read(pieces, size):
    kept, lines = keep(b"".join(pieces), size)
    assert len(kept) == len(lines)
    assert set(kept) <= set(IDS)
    assert all(isinstance(json.loads(each), dict) for each in lines)


def test_each_request_of_a_hostile_batch_ends_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", KEY)
    know_key("${FOIL_TEST_KEY}")
    absurd = {"prompt_tokens": 2**63, "completion_tokens": -1}
    results = [
        line(IDS[0], usage=absurd),
        line(IDS[1], "x" * MOST),
        line(IDS[2], f"the key {KEY}"),
        json.dumps({"custom_id": IDS[3], "response": [1], "error": f"as {KEY} says"}).encode() + b"\n",
        b'{"custom_id": "' + IDS[4].encode() + b'", "response": {"status_code": 200, "body": ' + b"[" * 1500,
    ]
    answers = {
        b"POST /v1/files": {"id": "f"},
        b"GET /v1/batches?": {"object": "list", "data": []},
        b"POST /v1/batches": {"id": "b"},
        b"GET /v1/batches/b": {"id": "b", "status": "completed", "output_file_id": "o"},
    }

    def answer(first):
        if b"/files/o/content" in first:
            return http(b"".join(results))
        told = next(told for place, told in answers.items() if first.startswith(place))
        return http(json.dumps(told).encode())

    async def ask(url):
        told = {"model": "m", "url": url, "mode": "batch", "batch": {"linger_s": 0.1, "poll_s": 0.1}}
        model = Batched(HostedSettings.model_validate(told | {"most_reply_bytes": MOST}), tmp_path)
        ended = await asyncio.gather(*map(model.complete, REQUESTS), return_exceptions=True)
        await model.close()
        return ended

    with answering(answer) as server:
        guessed, oversize, scrubbed, odd, cut = asyncio.run(ask(server.url))
    assert (guessed.guessed, guessed.completion_tokens) == (True, 1)
    assert type(oversize) is OversizeReplyError
    assert scrubbed.text == "the key ***"
    assert [type(odd), type(cut)] == [TransientModelError] * 2
    assert KEY not in str(odd)
    assert not [path for path in tmp_path.iterdir() if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("told", [b"{}", b"[]", b'"text"', b"null", b'{"id": 5}', b"<html>"])
def test_an_answer_of_another_shape_is_an_outage_not_a_traceback(tmp_path, told):
    async def ask(url):
        settings = {"batch": {"linger_s": 0.0}, "patience": {"outage_s": 0.1}}
        model = Batched(HostedSettings.model_validate({"model": "m", "url": url, "mode": "batch"} | settings), tmp_path)
        try:
            await asyncio.wait_for(model.complete(REQUESTS[0]), 20)
        finally:
            await model.close()

    with answering(lambda _: http(told)) as server, pytest.raises(Exception, match="nothing worked") as raised:
        asyncio.run(ask(server.url))
    assert type(raised.value).__name__ == "ModelOutageError"
