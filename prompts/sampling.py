"""How a task is answered where the job's `params` do not say: how freely, and in how many tokens. All defaults."""

import math
from dataclasses import replace

from foil.engine.protocols import Prompt

WRITING_TEMPERATURE = 0.8
KEEPING_TEMPERATURE = 0.7
"""For what has to keep to a text: the keywords of a passage, questions about it."""
JUDGING_TEMPERATURE = 0.0

_JUDGING_TOKENS = 1024
_TOKENS_A_WORD = 3.0
"""Twice what English takes, so that code, figures and other languages fit."""
_FIXED_TOKENS = 100
"""For keys and for what stands around the text. A model that thinks first has room of its own (`thinking_tokens`)."""


def writing(prompt: Prompt, words: int, *, temperature: float = WRITING_TEMPERATURE) -> Prompt:
    """The prompt, for an answer of up to so many words."""
    most = _FIXED_TOKENS + math.ceil(words * _TOKENS_A_WORD)
    return replace(prompt, sampling={"temperature": temperature, "max_tokens": most})


def judging(prompt: Prompt, tokens: int = _JUDGING_TOKENS) -> Prompt:
    """The prompt, for a label. A judge whose model has a `temperature` in the job judges at that."""
    return replace(prompt, sampling={"temperature": JUDGING_TEMPERATURE, "max_tokens": tokens})
