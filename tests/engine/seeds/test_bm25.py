"""The neighbours that BM25 finds: right, in a fixed order, never an excluded one."""

import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.seeds.bm25 import Bm25Index
from tests.support.paths import REPO

WORDS = ["apple", "pear", "plum", "quince", "medlar"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=12)


def naive_scores(texts: list[str], query: str) -> list[float]:
    documents = [re.findall(r"\w\w+", text.lower()) for text in texts]
    mean_length = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        counts, score = Counter(words), 0.0
        for word in re.findall(r"\w\w+", query.lower()):
            df = sum(word in other for other in documents)
            if counts[word]:
                idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                score += idf * counts[word] / (counts[word] + 1.5 * (1 - 0.75 + 0.75 * len(words) / mean_length))
        scores.append(score)
    return scores


def test_the_text_with_the_rarer_shared_words_comes_first() -> None:
    index = Bm25Index(["the cat sat on the mat", "a cat and a dog", "dogs bark at night", "stars at night"])
    assert index.nearest(["cat on a mat"], 2, [()]) == [[0, 1]]


def test_a_text_that_shares_no_word_is_not_near() -> None:
    assert Bm25Index(["apple pie", "plum cake"]).nearest(["quince jelly", "", "apple"], 5, [(), (), ()]) == [
        [],
        [],
        [0],
    ]


def test_an_index_over_no_words_finds_nothing() -> None:
    assert Bm25Index([]).nearest(["apple"], 3, [()]) == [[]]
    assert Bm25Index(["", "?!"]).nearest(["apple"], 3, [()]) == [[]]


def test_equal_scores_are_ordered_by_position() -> None:
    index = Bm25Index(["apple pie"] * 50 + ["apple apple"])
    assert index.nearest(["apple pie"], 4, [{1}]) == [[0, 2, 3, 4]]


def test_each_query_needs_its_own_exclusions() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Bm25Index(["apple"]).nearest(["apple", "pear"], 1, [()])


@settings(max_examples=60, deadline=None)
@given(
    texts=TEXTS,
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    k=st.integers(0, 14),
    data=st.data(),
)
def test_the_neighbours_are_those_of_the_formula(texts: list[str], query: str, k: int, data: st.DataObject) -> None:
    excluded = data.draw(st.sets(st.integers(0, len(texts) - 1)))
    nearest = Bm25Index(texts).nearest([query], k, [excluded])[0]
    scores = naive_scores(texts, query)
    allowed = [i for i in range(len(texts)) if i not in excluded and scores[i] > 0]
    assert len(nearest) == min(k, len(allowed))
    assert set(nearest) <= set(allowed)
    best_scores = sorted((scores[i] for i in allowed), reverse=True)[:k]
    assert [scores[i] for i in nearest] == pytest.approx(best_scores, rel=1e-5)


@pytest.mark.parametrize("given", ["", "cuda"])
def test_jax_takes_no_gpu_unless_it_was_told_to(tmp_path: Path, given: str) -> None:
    """bm25s wakes JAX as it is imported, and JAX then takes three quarters of the memory of a GPU."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("import os\nprint(os.environ['JAX_PLATFORMS'])\n")
    (tmp_path / "jax" / "lax.py").write_text("def top_k(scores, k): return scores[:k], [0]\n")
    kept = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    env = {**kept, "PYTHONPATH": f"{tmp_path}:{REPO}", **({"JAX_PLATFORMS": given} if given else {})}
    words = [sys.executable, "-c", "import foil.engine.seeds.bm25"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [given or "cpu"]
