"""Numbers that a provider or a file tells: each is asked whether it can be true, by the figures worked out by hand."""

import json
import math

import pytest

from foil.engine.errors import UsageError
from foil.engine.models.reading import read_answer
from foil.engine.requests import Message, Request, is_prompt_cut
from foil.trainer.evaluate.measures.trec_files import read_run

WORDS_8000 = "a rule " * 4_000
WORDS_600 = "a rule " * 300
CODE = "x" * 32_000
CHINESE = "一条规则" * 2_000
TURNS = tuple(Message(role, "a rule " * 1_000) for role in ("system", "user", "assistant", "user"))


def request(*contents: str, **params: int) -> Request:
    return Request("m", tuple(Message("user", content) for content in contents), {"max_tokens": 64, **params})


@pytest.mark.parametrize(
    ("asked", "told", "cut"),
    [
        (request(WORDS_8000), 8_004, False),  # 8,000 words are as many tokens at least
        (request(WORDS_8000), 4_000, False),  # so few are odd, and might be another count
        (request(WORDS_8000), 3_999, True),
        (request(WORDS_8000), 2_048, True),  # the context that Ollama has by default
        (request(WORDS_8000), 256, True),
        (request(WORDS_8000), 255, False),  # no context is so short: the number is wrong, not the prompt
        (request(WORDS_8000), 1, False),
        (request(WORDS_600), 299, True),
        (request(WORDS_600), 300, False),
        (request(CODE), 2_048, False),  # one word: nobody can tell
        (request(CHINESE), 4_096, False),
        (Request("m", TURNS, {"max_tokens": 64}), 2_048, True),  # turns count together: 8,000 words
        (Request("m", TURNS, {"max_tokens": 64}), 8_020, False),
        (request("Short."), 2, False),
    ],
)
def test_a_prompt_of_which_fewer_tokens_were_read_than_it_has_words_was_cut(asked, told, cut):
    assert is_prompt_cut(asked, told) is cut


def usage(prompt=7, completion=3, **more):
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


@pytest.mark.parametrize(
    ("asked", "told", "read"),
    [
        (request("y" * 80), usage(), (7, 3, False)),
        (request("y" * 80), usage(prompt=0), (20, 3, True)),  # 80 characters are some token
        (request("y" * 80), usage(completion=0), (7, 10, True)),  # and so are 40 of a reply
        (request("y" * 80), usage(completion=10**7), (7, 10, True)),  # 64 were allowed
        (request("y" * 80), usage(prompt=10**6), (20, 3, True)),  # 80 characters are no million tokens
        (request("y" * 80), usage(completion=2.5), (20, 10, True)),
        (request("y" * 80), usage(completion=None), (20, 10, True)),
        (request("y" * 80), usage(prompt=[7]), (20, 10, True)),
        (request("y" * 80), usage(completion=math.inf), (20, 10, True)),
        (request("y" * 80), usage(total_tokens=10), (7, 3, False)),
        (request("y" * 80), usage(total_tokens=110), (7, 103, True)),  # thoughts that the total alone knows
        (request("y" * 80), usage(total_tokens=5), (7, 3, True)),  # a sum below its parts
        (request(WORDS_8000), usage(prompt=1), (7_000, 3, True)),  # 28,000 characters, four a token
        (request(WORDS_8000), usage(prompt=2_048), (2_048, 3, False)),  # cut, and billed as it was read
    ],
)
def test_what_is_billed_can_have_been_used(asked, told, read):
    body = {"choices": [{"message": {"content": "x" * 40}, "finish_reason": "stop"}], "usage": told}
    found = read_answer(json.dumps(body).encode(), asked).usage
    assert (found.prompt_tokens, found.completion_tokens, found.guessed) == read


@pytest.mark.parametrize(
    ("score", "read"),
    [("0.5", 0.5), ("-3", -3.0), ("1e-3", 0.001), ("0", 0.0), ("inf", math.inf), ("-inf", -math.inf),
     ("nan", None), ("NaN", None), ("-nan", None), ("0,5", None), ("", None), ("high", None), ("0x1", None)],
)  # fmt: skip
def test_a_score_of_a_run_is_a_number_by_which_one_can_order(tmp_path, score, read):
    path = tmp_path / "run"
    path.write_text(f"q Q0 d 1 {score} tag\n")
    if read is None:
        with pytest.raises(UsageError, match="run:1: expected `query Q0 document rank score tag`, score a number"):
            read_run(path)
    else:
        assert read_run(path) == {"q": {"d": read}}
