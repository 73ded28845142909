"""Which natural language a text is in, by py3langid's byte n-grams: no network, no chance, the same answer everywhere.

    identify("Wo steht das?") -> ("de", 0.9...)

The first call reads the model (about half a second, 100 MB); later ones take some 0.1 ms for 100 words. Code, tables
and a few words are guessed with a low probability, so a caller decides only from the probability that it needs.
"""

from __future__ import annotations

from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

LOOKED_AT = 4000
"""Characters of a text that are looked at."""


def identify(text: str) -> tuple[str, float]:
    """The ISO 639 code of the language that the text is most likely in, and how likely: 0 to 1."""
    language, probability = _identifier().classify(text[:LOOKED_AT])
    return str(language), float(probability)


@cache
def languages() -> tuple[str, ...]:
    """The codes that `identify` can answer; `zxx` stands for no language."""
    return tuple(_identifier().labels)


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
