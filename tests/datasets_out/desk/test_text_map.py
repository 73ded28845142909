"""Maps: near texts are neighbours, the same data gives the same map, it is kept under the digest, edges hold."""

import numpy as np
import pytest

from foil.datasets_out.desk.text_map import MapMethod, load_map, map_texts, nearest, principal_components, word_vectors
from foil.datasets_out.desk.topics import asker
from tests.support import sample_run

KITES = [f"the kite number {n} has two spars and a sail of paper" for n in range(10)]
LAMPS = [f"this lamp number {n} burns oil for hours at night" for n in range(10)]


def rows(texts):
    return [{"kind": "query", "topic_id": f"t{n}", "id": f"t{n}", "text": text} for n, text in enumerate(texts)]


def test_neighbours_are_of_the_same_kind_and_kinds_lie_apart():
    points = map_texts(rows(KITES + LAMPS))
    assert all(max(near) < 10 for near in points["neighbours"].to_pylist()[:10])
    assert all(min(near) >= 10 for near in points["neighbours"].to_pylist()[10:])
    x = points["x"].to_numpy()
    assert x[:10].max() < x[10:].min() or x[10:].max() < x[:10].min()
    assert (x.min(), x.max()) == (0, 1)


def test_nearest_is_what_comparing_every_pair_gives():
    vectors = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    assert (nearest(vectors)[:, 0] == cosines.argmax(1)).all()


def test_principal_components_are_numpys():
    vectors = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    _, _, loadings = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    expected = (vectors - vectors.mean(0)) @ loadings[:2].T
    assert np.abs(principal_components(vectors)) == pytest.approx(np.abs(expected), abs=1e-4)


@pytest.mark.parametrize("texts", [[], ["one"], ["a", "a"], ["", "!"], ["a b", "c d", "\ud800 e"]])
def test_few_or_empty_texts_have_a_map(texts):
    points = map_texts(rows([text.encode(errors="replace").decode() for text in texts]))
    assert points.num_rows == len(texts)
    assert np.isfinite(points["x"].to_numpy()).all()
    assert np.isfinite(word_vectors(texts or ["x"])).all()


def test_it_is_computed_once_for_the_same_data(tmp_path):
    out = sample_run.make(tmp_path / "out")
    asked = []

    def ask(sql):
        asked.append(sql)
        return asker(out)(sql)

    first = load_map(out, "d" * 64, ask)
    assert load_map(out, "d" * 64, ask).equals(first)
    assert len(asked) == 1
    assert sorted(set(first["kind"].to_pylist())) == ["instruction", "passage", "query"]
    flipped = MapMethod("flip", "flipped", project=lambda vectors: -principal_components(vectors))
    assert not load_map(out, "d" * 64, ask, flipped).equals(first)
    assert len(asked) == 2
