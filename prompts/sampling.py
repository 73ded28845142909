"""How a model answers a task of writing: how freely, and in how many tokens, where the job does not say."""

import math
from dataclasses import replace

from foil.engine.protocols import Prompt

_TOKENS_A_WORD = 3.0
"""Twice what English takes, so that code, figures and other languages fit."""
_FIXED_TOKENS = 100
"""For keys and for what stands around the text. A model that thinks first has room of its own (`thinking_tokens`)."""


def writing(prompt: Prompt, words: int, *, temperature: float = 0.8) -> Prompt:
    """The prompt, for an answer of up to so many words."""
    most = _FIXED_TOKENS + math.ceil(words * _TOKENS_A_WORD)
    return replace(prompt, sampling={"temperature": temperature, "max_tokens": most})
