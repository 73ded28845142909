"""Prompts that a server cuts without a word: others of other lengths count as many tokens, and none more.

    PromptCeiling().is_cut(characters, tokens)    asked of every reply that tells its prompt's tokens

Promise: never so of an endpoint that counts what it was sent: no three texts that differ by a twentieth have the same
highest count and a fifth more characters a token than nine in ten of the others. Price: nothing below the ceiling.
"""

from collections import deque

from foil.engine.requests import SHORTEST_CONTEXT

_FEWEST_ALIKE = 3
_APART = 1.05
_MORE_CHARACTERS = 1.2
_FEWEST_BELOW = 8
_USUAL = 5.0
"""Characters a token where too few prompts are below the ceiling to say: more than prose has in any language."""
_NEAR = 0.98
_MOST_KEPT = 512


class PromptCeiling:
    """The most prompt tokens that an endpoint told of, and the characters of the prompts there and below."""

    def __init__(self) -> None:
        self._tokens = SHORTEST_CONTEXT
        self._at: deque[int] = deque(maxlen=_MOST_KEPT)
        self._below: deque[tuple[int, float]] = deque(maxlen=_MOST_KEPT)

    def is_cut(self, characters: int, tokens: int) -> bool:
        """Whether the prompt, as the latest of them, was cut at the ceiling."""
        if tokens > self._tokens:
            self._below.extend((self._tokens, each / self._tokens) for each in self._at)
            self._tokens = tokens
            self._at.clear()
        if tokens < self._tokens:
            self._below.append((tokens, characters / max(tokens, 1)))
            return False
        self._at.append(characters)
        least = _MORE_CHARACTERS * self._usual() * tokens
        return characters >= least and self._are_cut([each for each in self._at if each >= least])

    def lengths(self) -> str:
        """The fewest and the most characters of the prompts at the ceiling."""
        return f"{min(self._at):,} to {max(self._at):,}"

    def _usual(self) -> float:
        """The characters a token that nine in ten of the prompts below the ceiling do not exceed."""
        if len(self._below) < _FEWEST_BELOW:
            return _USUAL
        ratios = sorted(ratio for _, ratio in self._below)
        return ratios[len(ratios) * 9 // 10]

    def _are_cut(self, lengths: list[int]) -> bool:
        """Whether enough of these lengths differ clearly, and fewer prompts end just below the ceiling."""
        alike, last = 0, 0.0
        for length in sorted(lengths):
            if length >= _APART * last:
                alike, last = alike + 1, length
        near = sum(tokens >= _NEAR * self._tokens for tokens, _ in self._below)
        return alike >= _FEWEST_ALIKE and len(lengths) > near
