"""The validator `dimension_check`: the labels of InfoSearch's four exact dimensions, held against the texts."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from foil.engine.topic import Topic
from foil.prompts.constraints.dimensions import EXACT_DIMENSIONS
from foil.prompts.recipes.infosearch import InfoSearch, InfoSearchSettings
from foil.validators.checks.label_checks import DimensionCheck, DimensionCheckSettings
from tests.support.topics.character_ask import CharacterAsk
from tests.support.topics.trades import trade_seeds


def made(dimension: str) -> Topic:
    recipe = InfoSearch(InfoSearchSettings.model_validate({"dimensions": [dimension], "query_negative": "written"}))
    (topic,) = asyncio.run(recipe(trade_seeds()[0], CharacterAsk()))
    return topic


def reasons(topic: Topic) -> Counter:
    kept, verdicts = DimensionCheck(DimensionCheckSettings())(topic)
    assert kept == topic
    assert {v.scope for v in verdicts} <= {"topic", *(i.id for i in topic.intents[1:])}
    return Counter(v.reason for v in verdicts if v.outcome == "reject")


@pytest.mark.parametrize("dimension", ["length", "keyword", "format"])
def test_true_labels_pass_and_every_turned_one_is_named(dimension):
    topic = made(dimension)
    assert dimension in EXACT_DIMENSIONS
    assert not reasons(topic)
    ruled = [j for j in topic.judgments if j.judge == "rule"]
    assert ruled
    for judgment in ruled:
        turned = tuple(replace(j, relevance=-j.relevance) if j is judgment else j for j in topic.judgments)
        reason = "meets_condition" if judgment.relevance > 0 else "breaks_condition"
        assert reasons(replace(topic, judgments=turned)) == {reason: 1}


def test_a_passage_that_was_changed_after_it_was_labelled_is_found():
    topic = made("length")
    paragraph = topic.passages[1]
    longer = replace(paragraph, text=" ".join([paragraph.text] * 9))
    changed = replace(topic, passages=tuple(longer if p is paragraph else p for p in topic.passages))
    assert reasons(changed)["breaks_condition"] == 1


def test_a_passage_that_does_not_answer_may_meet_the_condition():
    topic = made("length")
    hard = topic.passages[-1]
    sentence = replace(hard, text="It stands at the end of the pier.")
    assert not reasons(replace(topic, passages=(*topic.passages[:-1], sentence)))


def test_what_a_judge_must_decide_and_other_recipes_pass():
    topic = made("length")
    judged = [replace(i, attributes={**i.attributes, "dimension": "source"}) for i in topic.intents]
    plain = [replace(i, attributes={}) for i in topic.intents]
    for intents in (judged, plain):
        assert not reasons(replace(topic, intents=tuple(intents)))
