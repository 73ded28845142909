"""What a reranker orders: judged passages of an intent, and passages of topics that ask something else."""

from dataclasses import replace

import numpy as np

from foil.trainer.train.data.collate import reduce_to_plain
from foil.trainer.train.reranker.ranking_lists import make_lists
from tests.support.trainer_world import NO_YEAR, YEAR
from tests.support.training import TEMPLATE, groups


def test_every_intent_has_a_list_of_what_it_judges_and_of_others():
    topics = list(groups(4))
    lists = make_lists(topics, TEMPLATE, 2, seed=0)
    assert len(lists) == 4 * 3
    bare, dated, undated = lists[:3]
    query = topics[0].intents[0][1]
    assert [each.query for each in (bare, dated, undated)] == [query, f"{query} {YEAR}", f"{query} {NO_YEAR}"]
    assert [each.is_bare for each in (bare, dated, undated)] == [True, False, False]
    assert [each.relevant.tolist()[:3] for each in (bare, dated, undated)] == [
        [True, True, False], [True, False, False], [False, True, False],
    ]  # fmt: skip
    own = {text for _, text in topics[0].passages}
    for each in (bare, dated, undated):
        assert set(each.passages[:3]) == own
        assert len(each.passages) == 5
        assert not set(each.passages[3:]) & own
        assert not each.relevant[3:].any()


def test_what_nobody_judged_is_in_no_list_and_a_list_without_two_kinds_is_none():
    [topic] = groups(1)
    unjudged = replace(topic, relevance=np.array([[1, 0, 0], [1, -1, 0], [0, 1, -1]], dtype=np.int8))
    lists = make_lists([unjudged], TEMPLATE, 3, seed=0)
    assert [(len(each.passages), each.relevant.sum()) for each in lists] == [(2, 1), (2, 1)]
    assert not any(each.is_bare for each in lists)


def test_no_topic_with_the_same_query_gives_irrelevant_passages():
    first, second = groups(2)
    same = replace(second, intents=tuple((instruction, first.intents[0][1]) for instruction, _ in second.intents))
    assert all(len(each.passages) == 3 for each in make_lists([first, same], TEMPLATE, 4, seed=0))
    shared = replace(second, passages=(first.passages[0], *second.passages[1:]))
    for each in make_lists([first, shared], TEMPLATE, 4, seed=0):
        assert len(set(each.passages)) == len(each.passages) == 5


def test_a_plain_topic_is_a_bare_query_with_its_passage_among_others():
    topics = list(groups(3))
    lists = make_lists([topics[0], reduce_to_plain(topics[1])], TEMPLATE, 2, seed=0)
    plain = lists[-1]
    assert plain.is_bare
    assert plain.relevant.tolist() == [True, False, False]


def test_the_seed_alone_decides_what_is_drawn():
    topics = list(groups(8))
    drawn = [[each.passages for each in make_lists(topics, TEMPLATE, 3, seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
