"""What a provider's bytes and headers mean, whatever they are: sane numbers, or one kind of error."""

import json
import math
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.ids import canonical_json
from foil.engine.models.pacing import Endpoint
from foil.engine.models.reading import LONGEST_RETRY_AFTER_S, header_number, read_answer, read_logprobs, retry_after
from foil.engine.rates.bucket import Bucket
from foil.engine.requests import MOST_TOKENS, Message, Request
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
        ({"prompt_tokens": MOST_TOKENS, "completion_tokens": 3}, (20, 3, 0, True)),
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


def outside(**told):
    return {"prompt_tokens": 40, "completion_tokens": 9, **told}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        # thoughts beside the completion are billed, and a sum that does not add up is marked
        (outside(total_tokens=849, completion_tokens_details={"reasoning_tokens": 800}), (40, 809, False)),
        (outside(total_tokens=849), (40, 809, True)),
        (outside(completion_tokens_details={"reasoning_tokens": 800}), (40, 809, False)),
        (outside(reasoning_tokens=800), (40, 809, False)),
        (outside(total_tokens=49, reasoning_tokens=800), (40, 809, True)),
        (outside(total_tokens=849, reasoning_tokens=300), (40, 809, True)),
        (outside(total_tokens=49), (40, 9, False)),
        (outside(total_tokens=40), (40, 9, True)),
        (outside(total_tokens=-1), (40, 9, True)),
        (outside(total_tokens="many"), (40, 9, True)),
        (outside(completion_tokens=40, total_tokens=80, reasoning_tokens=30), (40, 40, False)),
        # other names of the same
        ({"input_tokens": 40, "output_tokens": 9, "total_tokens": 49}, (40, 9, False)),
        ({"input_tokens": 40, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 80}}, (40, 89, False)),
        # a text is not free
        (outside(completion_tokens=0, total_tokens=40), (40, 10, True)),
        (outside(prompt_tokens=0, total_tokens=9), (20, 9, True)),
        # nor does one cost more than was allowed
        (outside(completion_tokens=80), (40, 80, False)),
        (outside(completion_tokens=81), (40, 10, True)),
        (outside(completion_tokens=MOST_TOKENS), (40, 10, True)),
        (outside(total_tokens=MOST_TOKENS), (40, 10, True)),
        (outside(reasoning_tokens=MOST_TOKENS), (40, 10, True)),
        (outside(completion_tokens=MOST_TOKENS, reasoning_tokens=MOST_TOKENS), (40, 10, True)),
        (outside(prompt_tokens=10_400), (20, 9, True)),
    ],
)  # fmt: skip
def test_every_token_is_billed_and_no_more_than_can_be(usage, tokens):
    told = read_answer(body(usage), REQUEST).usage
    assert (told.prompt_tokens, told.completion_tokens, told.guessed) == tokens


def test_several_choices_may_take_more_and_no_limit_is_none():
    usage = {"prompt_tokens": 40, "completion_tokens": 200}
    several = Request("m", REQUEST.messages, {"max_tokens": 64, "n": 4})
    assert not read_answer(body(usage), several).usage.guessed
    assert not read_answer(body(usage), Request("m", REQUEST.messages, {})).usage.guessed


def test_thoughts_that_are_guessed_count_as_well():
    message = {"content": "", "reasoning": "x" * 400}
    answer = read_answer(body(None, message=message), REQUEST)
    assert (answer.usage.completion_tokens, answer.elsewhere) == (100, "reasoning")


@pytest.mark.parametrize(
    ("message", "text", "elsewhere"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        ({"content": [{"type": "output_text", "text": "a\n\u00e9"}]}, "a\n\u00e9", ""),
        ({"content": [{"text": "a"}, "b"]}, "ab", ""),
        ({"content": {"type": "text", "text": "a"}}, "a", ""),
        ({"content": [{"type": "text", "text": {"value": "a", "annotations": []}}]}, "a", ""),
        ({"content": {"text": "é"}}, '{"text": "é"}', ""),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "d"}]}, {"text": "a"}]}, "a", ""),
        ({"content": [{"type": "reasoning", "text": "d"}]}, "", "content (parts that are no text)"),
        ({"content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "a"}]}, "a", ""),
        ({"content": None, "reasoning_content": "d"}, "", "reasoning_content"),
        ({"content": "  ", "reasoning": "d"}, "  ", "reasoning"),
        ({"content": "a", "reasoning": "d"}, "a", ""),
        ({"content": []}, "", ""),
    ],
)
def test_of_a_message_the_text_is_read_and_never_a_thought(message, text, elsewhere):
    answer = read_answer(body(message=message), REQUEST)
    assert (answer.choices[0][0], answer.elsewhere) == (text, elsewhere)


@pytest.mark.parametrize("content", [5, True, [5], [{"type": "text", "text": 5}], [[{"text": "a"}]]])
def test_a_content_of_no_known_form_is_no_answer(content):
    with pytest.raises(ValueError, match="not a chat completion"):
        read_answer(body(message={"content": content}), REQUEST)


@pytest.mark.parametrize(
    ("told", "reason"),
    [(None, "stop"), ("", "stop"), ("MAX_TOKENS", "MAX_TOKENS"), (7, "7"), ({"type": "stop"}, '{"type": "stop"}')],
)
def test_an_ending_of_no_known_form_is_not_taken_for_a_whole_reply(told, reason):
    assert read_answer(body(finish_reason=told), REQUEST).choices[0][1] == reason


def test_a_refusal_or_an_error_of_a_choice_goes_over_its_ending():
    refusing = [{"type": "refusal", "refusal": "no"}]
    assert read_answer(body(message={"content": refusing}), REQUEST).choices[0][1] == "content_filter"
    assert read_answer(body(error={"code": 502}), REQUEST).choices[0][1] == "error"


def token(logprob, *others):
    return {"token": "a", "logprob": logprob, "top_logprobs": [{"token": "b", "logprob": each} for each in others]}


def test_logprobs_are_numbers_or_none():
    plain = {"content": [token(-0.5, -1.0)]}
    assert read_logprobs({"content": [{**token(-0.5, -1.0), "bytes": [97]}], "refusal": None}) == plain
    assert read_logprobs({"content": [token(-0.5, -1.0, -math.inf)]}) == plain
    for broken in (token(math.nan), token(-math.inf), token("0"), token(None), token(10**400), {}, 5, None):
        assert read_logprobs({"content": [broken]}) is None
    for candidate in (math.nan, None, "0", 10**400, True):
        assert read_logprobs({"content": [token(-0.5, -1.0, candidate)]}) == plain
    listed = {"token": "b", "logprob": None, "top_logprobs": [*plain["content"][0]["top_logprobs"], None, {}]}
    assert read_logprobs({"content": [listed]})["content"][0]["logprob"] == -1.0
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
