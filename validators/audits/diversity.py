"""How varied the instructions of a run are: by their sentences, their trigrams, and where an embedder is at hand, by
meaning.

`similarity` is the average pairwise sample similarity (APS) of InF-IR (section 4.2): the mean cosine of two
instructions, lower is more varied. Its n-gram measure (INGF, after Mishra et al. 2020) has no published formula;
`distinct_trigrams` is ours: different trigrams of words per trigram, higher is more varied.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.topic import Topic

MOST_TOPICS = 2000
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+")
Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Diversity:
    """Shares from 0 to 1. `commonest_share`: of the topics, those with the commonest sentence."""

    topics: int
    instructions: int
    words: float
    distinct_sentences: float
    commonest_sentence: str
    commonest_share: float
    distinct_trigrams: float
    similarity: float | None


def diversity(topics: Iterable[Topic], embed: Embed | None = None) -> Diversity | None:
    """The diversity of the first 2,000 topics' instructions, each text of a topic counted once; None without any.

    `embed`: texts to unit vectors [texts, dimensions].
    """
    texts: list[str] = []
    topics_of: Counter[str] = Counter()
    count = 0
    for topic in topics:
        own = list(dict.fromkeys(intent.instruction for intent in topic.intents if intent.instruction))
        topics_of.update({sentence for text in own for sentence in _SENTENCE.split(text)})
        texts += own
        count += bool(own)
        if count == MOST_TOPICS:
            break
    if not texts:
        return None
    sentences = [sentence for text in texts for sentence in _SENTENCE.split(text)]
    words = [_WORD.findall(text.lower()) for text in texts]
    trigrams = [trigram for own in words for trigram in zip(own, own[1:], own[2:], strict=False)]
    commonest, times = topics_of.most_common(1)[0]
    return Diversity(
        count,
        len(texts),
        sum(map(len, words)) / len(texts),
        len(set(sentences)) / len(sentences),
        commonest,
        times / count,
        len(set(trigrams)) / max(1, len(trigrams)),
        _similarity(embed(texts)) if embed and len(texts) > 1 else None,
    )


def _similarity(vectors: NDArray[np.float32]) -> float:
    """The mean cosine of all pairs of unit vectors: |sum|^2 holds every pair twice, and each with itself."""
    count = len(vectors)
    total = vectors.astype(np.float64).sum(0)
    return float((total @ total - count) / (count * (count - 1)))
