"""What a provider's bytes and headers mean, whatever they are: sane numbers, or one kind of error."""

import json
import math
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ids import canonical_json
from engine.models.pacing import Endpoint
from engine.models.reading import LONGEST_RETRY_AFTER_S, header_number, read_answer, read_logprobs, retry_after
from engine.rates.bucket import Bucket
from engine.requests import MOST_TOKENS, Message, Request
from tests.support.fuzzing import fuzzed

REQUEST = Request("test-model", (Message("user", "y" * 80),), {"max_tokens": 64})


def body(usage=None, **choice):
    told = {"message": {"content": "x" * 40}, "finish_reason": "stop", **choice}
    return json.dumps({"choices": [told], "usage": usage}).encode()


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3}, (7, 3, 0, False)),
        ({"prompt_tokens": 7.0, "completion_tokens": 3, "prompt_tokens_details": None}, (7, 3, 0, False)),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 7}}, (7, 3, 7, False)),
        (
            {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}},
            (20, 10, 0, True),
        ),
        ({"prompt_tokens": MOST_TOKENS, "completion_tokens": 0}, (MOST_TOKENS, 0, 0, False)),
        ({"prompt_tokens": MOST_TOKENS + 1, "completion_tokens": 0}, (20, 10, 0, True)),
        ({"prompt_tokens": 2**63, "completion_tokens": 3}, (20, 10, 0, True)),
        ({"prompt_tokens": -1_000_000, "completion_tokens": 3}, (20, 10, 0, True)),
        ({"prompt_tokens": 7}, (20, 10, 0, True)),
        ({"prompt_tokens": "7", "completion_tokens": 3}, (20, 10, 0, True)),
        ({"prompt_tokens": True, "completion_tokens": 3}, (20, 10, 0, True)),
        ({"prompt_tokens": math.nan, "completion_tokens": math.inf}, (20, 10, 0, True)),
        ([1, 2], (20, 10, 0, True)),
        (None, (20, 10, 0, True)),
    ],
)
def test_usage_that_is_absent_or_cannot_be_is_guessed_and_marked(usage, tokens):
    told = read_answer(body(usage), REQUEST).usage
    assert (told.prompt_tokens, told.completion_tokens, told.cached_tokens, told.guessed) == tokens


def token(logprob, *others):
    return {"token": "a", "logprob": logprob, "top_logprobs": [{"token": "b", "logprob": each} for each in others]}


def test_logprobs_are_numbers_or_none():
    plain = {"content": [token(-0.5, -1.0)]}
    assert read_logprobs({"content": [{**token(-0.5, -1.0), "bytes": [97]}], "refusal": None}) == plain
    assert read_logprobs({"content": [token(-0.5, -1.0, -math.inf)]}) == plain
    for broken in (token(math.nan), token(-math.inf), token("0"), token(-0.5, math.nan), token(10**400), {}, 5, None):
        assert read_logprobs({"content": [broken]}) is None
    assert read_logprobs({"content": None}) is read_logprobs([1]) is None


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1e400", None),
        ("-5", None),
        ("1_0", None),
        ("١٢", None),
        ("3, 4", None),
        ("", None),
        ("999999999999", LONGEST_RETRY_AFTER_S),
        ("9" * 400, None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER_S),
        ("Fri, 31 Dec 9999 23:59:59 -2359", LONGEST_RETRY_AFTER_S),
        (formatdate(900, usegmt=True), 0.0),
        (formatdate(1030, usegmt=True), 30.0),
        ("Fri, 99 Foo 2000 99:99:99 GMT", None),
    ],
)
def test_a_pause_is_read_strictly_and_bounded(told, seconds):
    assert retry_after({"retry-after": told}, wall=lambda: 1000.0) == seconds
    assert retry_after({"retry-after-ms": "nan", "retry-after": "2"}) == 2.0


@pytest.mark.parametrize("told", ["nan", "inf", "1e400", "-3", "0", "0.0001", "1_000", "many"])
def test_a_limit_that_cannot_be_changes_nothing(told):
    endpoint = Endpoint("e", 1.0, 8, None, None)
    for remaining in ("5", "nan"):
        headers = {"x-ratelimit-limit-requests": told, "x-ratelimit-remaining-requests": remaining}
        endpoint.learn(headers, 1.0)
        endpoint.learn({**headers, "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": told}, 1.0)
    assert Bucket(None).wait(1, 2.0) == 0.0
    assert endpoint.ready_at(10, 100.0) <= 101.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NUMBER = st.integers() | st.floats() | JSON


def some(**fields):
    """A mapping with any of these keys, or something else."""
    return st.fixed_dictionaries({}, optional=fields) | JSON


USAGE = some(prompt_tokens=NUMBER, completion_tokens=NUMBER, prompt_tokens_details=some(cached_tokens=NUMBER))
TOKEN = some(token=st.text(max_size=3) | JSON, logprob=NUMBER, top_logprobs=st.lists(some(token=JSON, logprob=NUMBER)))
CHOICE = some(
    message=some(content=st.text() | JSON, refusal=JSON),
    finish_reason=st.text() | JSON,
    logprobs=some(content=st.lists(TOKEN, max_size=2) | JSON),
)
BODY = some(choices=st.lists(CHOICE, max_size=2) | JSON, usage=USAGE, model=JSON, system_fingerprint=JSON)
GOOD = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"message": st.fixed_dictionaries({"content": st.text()})}), min_size=1, max_size=2
        ),
        "usage": USAGE,
    }
)


def check_answer(content):
    try:
        answer = read_answer(content, REQUEST)
    except ValueError:
        return
    usage = answer.usage
    numbers = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    assert all(type(number) is int and 0 <= number <= MOST_TOKENS for number in numbers)
    assert usage.cached_tokens <= usage.prompt_tokens
    assert all(isinstance(text, str) and reason.encode() for text, reason in answer.choices)
    canonical_json([answer.model, answer.revision, answer.logprobs])


@fuzzed(400)
@given(BODY | GOOD)
def test_any_json_is_an_answer_with_sane_numbers_or_a_value_error(told):
    check_answer(json.dumps(told).encode())


@fuzzed(1000)
@given(st.binary() | st.builds(lambda cut, end: body()[:cut] + end, st.integers(0, 90), st.binary(max_size=9)))
def test_any_bytes_are_an_answer_or_a_value_error(content):
    check_answer(content)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"choices":' + b'{"message":' * 100_000,
        b'{"choices": [{"message": {"content": ' + b"[" * 900 + b"]" * 900 + b"}}]}",
        b'{"usage": ' + b"9" * 5000 + b"}",
        body(finish_reason="\ud800", logprobs={"content": [{"token": "a", "logprob": 1e308}]}),
        "\ufeff{}".encode(),
        body().decode().encode("utf-16"),
    ],
)
def test_deep_long_and_odd_bodies_end_at_once(content):
    began = time.monotonic()
    check_answer(content)
    assert time.monotonic() - began < 2.0


HEADER = st.text(st.characters(max_codepoint=255), max_size=40) | st.sampled_from(
    ["nan", "inf", "1e999", "-1", "0x10", formatdate(usegmt=True), "Fri, 31 Dec 9999 23:59:59 GMT"]
)


@fuzzed(1500)
@given(HEADER | st.integers().map(str) | st.floats().map(str) | st.datetimes().map(str))
def test_any_header_is_a_pause_and_a_limit_in_range_or_none(told):
    for name in ("retry-after", "retry-after-ms"):
        seconds = retry_after({name: told})
        assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER_S
    number = header_number({"a": told}, "a")
    assert number is None or 0 <= number < 1e16
    endpoint = Endpoint("e", 1.0, 8, None, None)
    units = [(f"x-ratelimit-{part}-{unit}", told) for part in ("limit", "remaining") for unit in ("requests", "tokens")]
    endpoint.learn(dict(units), 1.0)
    assert math.isfinite(endpoint.ready_at(10, 2.0))
