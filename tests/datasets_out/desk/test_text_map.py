"""Maps: near texts are neighbours, the same data gives the same map, it is kept under the digest, edges hold."""

import numpy as np
import pytest

from foil.datasets_out.desk.map_groups import area_names, group_numbers, map_areas, map_groups
from foil.datasets_out.desk.text_map import MapMethod, load_map, map_texts, nearest, principal_components, word_vectors
from foil.datasets_out.desk.topics import asker
from tests.support import sample_run
from tests.support.desk.hostile import hostile_run
from tests.support.topics.llm_runs import llm_run

KITES = [f"the kite number {n} has two spars and a sail of paper" for n in range(10)]
LAMPS = [f"this lamp number {n} burns oil for hours at night" for n in range(10)]


def rows(texts):
    return [{"topic_id": f"t{n}", "accepted": True, "reason": "", "text": text} for n, text in enumerate(texts)]


def test_neighbours_are_of_the_same_subject_and_subjects_lie_apart():
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
    assert set(first["accepted"].to_pylist()) == {True, False}
    other = MapMethod("other", "elsewhere", lambda texts: np.eye(len(texts), 8, dtype=np.float32))
    assert not load_map(out, "d" * 64, ask, other).equals(first)
    assert len(asked) == 2


def test_areas_are_named_by_words_that_the_others_lack():
    places = np.random.default_rng(2).normal(size=(80, 2)).astype(np.float32) + np.repeat([[0], [20]], 40, 0)
    names = area_names(places, KITES * 4 + LAMPS * 4)
    kites, lamps = names[0], names[-1]
    assert names == [kites] * 40 + [lamps] * 40
    assert not {*kites.split(", ")} & {*lamps.split(", "), "number"}
    assert area_names(places[:20], KITES * 2) == [""] * 20


def test_each_group_counts_what_its_sql_does_and_each_dot_has_the_colour_of_its_group(tmp_path, shared_data):
    out = llm_run(shared_data, "infir_rules_off", tmp_path / "run")
    ask = asker(out)
    groups, points = map_groups(ask), load_map(out, "d" * 64, ask, most=4000)
    assert [group.name for group in groups] == [
        "accepted", "other_passage_named", "unreadable", "same_instruction", "writer_refused", "other reasons",
    ]  # fmt: skip
    assert sum(group.topics for group in groups) == points.num_rows == 1615
    numbers = group_numbers(points, groups)
    for group in groups:
        found = {row["topic_id"] for row in ask(f"SELECT topic_id FROM topics WHERE {group.where}")}
        coloured = [
            key for key, each in zip(points["topic_id"].to_pylist(), numbers, strict=True) if each == group.number
        ]
        assert (len(found), found) == (group.topics, set(coloured))
    assert sum(area.topics for area in map_areas(points)) == 1615


def test_a_reason_that_is_no_plain_name_stands_in_no_sql(tmp_path):
    ask = asker(hostile_run(tmp_path / "out"))
    assert [(group.name, group.topics) for group in map_groups(ask)] == [("accepted", 1), ("other reasons", 1)]
