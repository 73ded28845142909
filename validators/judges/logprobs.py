"""Reads P(true) from the logprobs of a reply, in the form of OpenAI's chat completions."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

_BOOLEANS = ("true", "false")


class _Token(BaseModel):
    token: str
    logprob: FiniteFloat


class _AnswerToken(_Token):
    top_logprobs: list[_Token] = []


class _Logprobs(BaseModel):
    content: list[_AnswerToken]


def probability_of_true(logprobs: Any) -> float | None:
    """P(true) against P(false) at the answer's last `true` or `false`; None without logprobs of such a token.

    A word that is not among the listed tokens is given all the probability that these leave.
    """
    try:
        tokens = _Logprobs.model_validate(logprobs).content
    except ValidationError:
        return None
    last = next((token for token in reversed(tokens) if _word(token.token) in _BOOLEANS), None)
    if last is None:
        return None
    listed = {token.token: math.exp(min(token.logprob, 0.0)) for token in (*last.top_logprobs, last)}
    rest = max(0.0, 1.0 - sum(listed.values()))
    true, false = (_probability(word, listed, rest) for word in _BOOLEANS)
    return round(true / (true + false), 4) if true + false > 0 else None


def _probability(word: str, listed: Mapping[str, float], rest: float) -> float:
    spellings = [probability for token, probability in listed.items() if _word(token) == word]
    return sum(spellings) if spellings else rest


def _word(token: str) -> str:
    return token.strip(' \t\n":{}').lower()
