"""APS and the n-gram measure against implementations that compare every pair."""

import itertools
import math
import random
import re
from collections import Counter

import numpy as np
import pytest

from foil.validators.audits.diversity import instruction_diversity

WORDS = [f"word{number}" for number in range(60)]


def texts(count):
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(count)]


def cosine(first, second):
    one, other = Counter(first.split()), Counter(second.split())
    lengths = math.sqrt(sum(c * c for c in one.values()) * sum(c * c for c in other.values()))
    return sum(count * other[word] for word, count in one.items()) / lengths


def test_word_similarity_is_the_mean_over_all_pairs():
    sample = texts(500)
    naive = np.mean([cosine(*pair) for pair in itertools.combinations(sample, 2)])
    assert instruction_diversity(sample).word_similarity == pytest.approx(naive, rel=1e-9)


def test_similarity_by_meaning_is_the_mean_over_all_pairs():
    vectors = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    naive = np.mean([float(vectors[a] @ vectors[b]) for a, b in itertools.combinations(range(500), 2)])
    measured = instruction_diversity(texts(500), lambda sample: vectors[: len(sample)])
    assert measured.similarity == pytest.approx(naive, abs=1e-6)
    assert measured.embedded == 500


def test_distinct_trigrams_are_counted_over_all_texts():
    sample = texts(500)
    trigrams = [" ".join(w[i : i + 3]) for t in sample for w in [re.findall(r"\w+", t)] for i in range(len(w) - 2)]
    assert instruction_diversity(sample).distinct_trigrams == len(set(trigrams)) / len(trigrams)


def test_few_texts():
    assert instruction_diversity([]) is None
    one = instruction_diversity(["a b c"])
    assert (one.word_similarity, one.distinct_trigrams, one.distinct) == (None, 1.0, 1.0)
    assert instruction_diversity(["same words here"] * 4).word_similarity == pytest.approx(1.0)
    assert instruction_diversity(["a b", "!!", "c d"]).word_similarity == pytest.approx(0.0)
