"""How varied the instructions of a run are: by their sentences, their trigrams, and where an embedder is at hand, by
meaning.

    topics -> diversity                 up to 2,000 topics: sentences, trigrams, similarity by meaning
    texts  -> instruction_diversity     any number, to compare runs: APS by words, and by meaning over a sample

`similarity` is the average pairwise sample similarity (APS) of InF-IR (section 4.2): the mean cosine of two
instructions, lower is more varied. Its INGF, inter-sample n-gram frequency, is not here: the paper names it without a
formula, and DQI, which it cites for it (Mishra et al., arXiv 2005.00816), has terms over words, word classes, bigrams,
trigrams and sentences, with bounds to be chosen. `distinct_trigrams` is a measure of our own: different trigrams of
words per trigram, higher is more varied. It falls as texts are added, so runs are compared over equally many. The sum
of all cosines is the squared length of the sum of unit vectors, so a hundred thousand instructions take seconds.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foil.engine.texts.words import SENTENCE_GAP
from foil.engine.topic import Topic

MOST_TOPICS = 2000
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
        topics_of.update({sentence for text in own for sentence in SENTENCE_GAP.split(text)})
        texts += own
        count += bool(own)
        if count == MOST_TOPICS:
            break
    if not texts:
        return None
    sentences = [sentence for text in texts for sentence in SENTENCE_GAP.split(text)]
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


@dataclass(frozen=True, slots=True)
class InstructionDiversity:
    """`word_similarity`: APS over bags of words. `similarity`: APS over vectors of the first `embedded` texts, None
    without an embedder. `distinct`: different texts per text. `distinct_trigrams`: the n-gram measure."""

    instructions: int
    distinct: float
    mean_words: float
    word_similarity: float | None
    distinct_trigrams: float
    similarity: float | None
    embedded: int


def instruction_diversity(texts: Sequence[str], embed: Embed | None = None) -> InstructionDiversity | None:
    """How varied these texts are; None without any. `embed`: texts to unit vectors [texts, dimensions]."""
    if not texts:
        return None
    words = [_WORD.findall(text.lower()) for text in texts]
    trigrams = [hash(trigram) for own in words for trigram in zip(own, own[1:], own[2:], strict=False)]
    sample = texts[:MOST_TOPICS] if embed and len(texts) > 1 else ()
    return InstructionDiversity(
        len(texts),
        len(set(texts)) / len(texts),
        sum(map(len, words)) / len(words),
        _word_similarity(words),
        len(set(trigrams)) / max(1, len(trigrams)),
        _similarity(embed(sample)) if embed and sample else None,
        len(sample),
    )


def _word_similarity(texts: Sequence[Sequence[str]]) -> float | None:
    """The mean cosine of all pairs of bags of words; None without a pair. A text without words is like no other."""
    if len(texts) < 2:
        return None
    total: dict[str, float] = {}
    own = 0.0  # how many bags are not empty: each has the cosine 1 with itself
    for words in texts:
        for word, weight in _unit_bag(words):
            total[word] = total.get(word, 0.0) + weight
        own += bool(words)
    pairs = len(texts) * (len(texts) - 1)
    return (math.fsum(weight * weight for weight in total.values()) - own) / pairs


def _unit_bag(words: Sequence[str]) -> Iterator[tuple[str, float]]:
    counts = Counter(words)
    length = math.sqrt(sum(count * count for count in counts.values()))
    return ((word, count / length) for word, count in counts.items())
