"""Reads P(true) from the logprobs of a reply, in the form of OpenAI's chat completions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from foil.prompts.judge_answers import NO, YES

_BOOLEANS = ("true", "false")
_AROUND = " \t\n\":{}.,*'`" + "\u0120\u010a\u0109\u2581"
"""What stands around a word in its token; the last four are how vocabularies spell a blank, a line break and a tab."""


class _Token(BaseModel):
    token: str
    logprob: FiniteFloat


class _AnswerToken(_Token):
    top_logprobs: list[_Token] = []


class _Logprobs(BaseModel):
    content: list[_AnswerToken]


_SURE = 1e-4
"""How near to 0 and 1 a probability may be where a mean is taken."""


def probability_of_true(logprobs: Any) -> float | None:
    """P(true) against P(false) at the answer's last `true` or `false`; None without logprobs of such a token.

    A word that is not among the listed tokens is given all the probability that these leave.
    """
    tokens = _tokens(logprobs)
    last = next((token for token in reversed(tokens) if _word(token.token) in _BOOLEANS), None)
    if last is None:
        return None
    listed = _listed(last)
    rest = max(0.0, 1.0 - sum(listed.values()))
    true, false = (_probability(word, listed, rest) for word in _BOOLEANS)
    return round(true / (true + false), 4) if true + false > 0 else None


def probability_of_yes(logprobs: Any) -> float | None:
    """P(yes) against P(no), in any spelling of the words of YES and NO, at the last token that is such a word.

    Where no token is, at the first token, since another word may only just have been likelier. A spelling that is not
    listed counts 0. None without logprobs, or where none of the listed tokens is such a word.
    """
    tokens = _tokens(logprobs)
    last = next((token for token in reversed(tokens) if _word(token.token) in (*YES, *NO)), next(iter(tokens), None))
    if last is None:
        return None
    listed = _listed(last)
    yes, no = (sum(p for token, p in listed.items() if _word(token) in words) for words in (YES, NO))
    return yes / (yes + no) if yes + no > 0 else None


def _tokens(logprobs: Any) -> list[_AnswerToken]:
    """The tokens of a reply; none where there are no logprobs, or none that can be read."""
    try:
        return _Logprobs.model_validate(logprobs).content
    except ValidationError:
        return []


def _listed(token: _AnswerToken) -> dict[str, float]:
    """The tokens listed at a place, and the one chosen there, with their probabilities."""
    return {each.token: math.exp(min(each.logprob, 0.0)) for each in (*token.top_logprobs, token)}


def _probability(word: str, listed: Mapping[str, float], rest: float) -> float:
    spellings = [probability for token, probability in listed.items() if _word(token) == word]
    return sum(spellings) if spellings else rest


def _word(token: str) -> str:
    return token.strip(_AROUND).lower()


def mean_of_odds(probabilities: Sequence[float]) -> float:
    """The probability whose log odds are the mean of theirs."""
    mean = sum(map(log_odds, probabilities)) / len(probabilities)
    return 1 / (1 + math.exp(-mean))


def log_odds(probability: float) -> float:
    """Its natural logarithm of p / (1 - p), of 0 and 1 that of the nearest that counts as sure."""
    clipped = min(max(probability, _SURE), 1 - _SURE)
    return math.log(clipped / (1 - clipped))
