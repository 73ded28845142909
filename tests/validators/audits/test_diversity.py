"""Diversity of instructions, against values worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from foil.validators.audits.diversity import diversity


def topic(*instructions: str):
    return SimpleNamespace(intents=[SimpleNamespace(instruction=text) for text in ("", *instructions)])


def test_sentences_and_trigrams_are_counted_over_topics():
    found = diversity([topic("I am new here. It must be short."), topic("It must be short.", "It must be short.")])
    assert (found.topics, found.instructions) == (2, 2)
    assert found.words == 6  # eight, and four
    assert found.distinct_sentences == pytest.approx(2 / 3)
    assert (found.commonest_sentence, found.commonest_share) == ("It must be short.", 1.0)
    assert found.distinct_trigrams == pytest.approx(6 / 8)
    assert found.similarity is None


def test_similarity_is_the_mean_cosine_of_all_pairs():
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    found = diversity([topic("one"), topic("two"), topic("three")], lambda _: vectors)
    assert found.similarity == pytest.approx((0 + 0.6 + 0.8) / 3)


def test_a_run_without_instructions_has_none():
    assert diversity([topic()]) is None
