"""Which natural language a text is in, by py3langid's byte n-grams: deterministic, without a network.

    identify("Wo steht das?") -> ("de", 0.9...)

The first call reads the model (about half a second, 100 MB); later calls take some 0.1 ms for 100 words. Code, tables
and very short texts get a low probability, so a caller sets the probability that it needs.
"""

from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

MAX_CHARACTERS = 4000
"""Characters of a text that are read."""


def identify(text: str) -> tuple[str, float]:
    """The ISO 639 code of the language that the text is most likely in, and how likely: 0 to 1."""
    language, probability = _identifier().classify(text[:MAX_CHARACTERS])
    return str(language), float(probability)


@cache
def languages() -> tuple[str, ...]:
    """The codes that `identify` can answer; `zxx` stands for no language."""
    return tuple(_identifier().labels)


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
