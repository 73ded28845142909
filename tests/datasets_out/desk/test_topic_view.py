"""A topic as a person reads it: names, marks, the matrix, and what sentences say."""

import json
from dataclasses import replace
from typing import get_args

from foil.datasets_out.desk.topic_view import ROLES, view_topic
from foil.datasets_out.diff.word_diff import Span
from foil.engine.topic import Intent, IntentRole, Passage, PassageRole, Verdict, intent_id
from tests.support.sample_run import SHORT, SORT, accepted, rejected


def test_the_matrix_and_the_names_follow_the_topic():
    view = view_topic(accepted("list"))
    assert [intent.name for intent in view.intents] == ["I1", "I2"]
    assert [passage.name for passage in view.passages] == ["P1", "P2", "P3"]
    assert view.matrix == ((1, 1, -1), (1, -1, 0))
    assert view.judges == {"rule": 2, "seed": 1, "construction": 1, "mined": 1}
    assert view.outcome == "Accepted."
    assert view.verdicts == ("Passed: shape.", "leak passes I2, score 0.25.")


def test_an_edit_is_a_diff_against_its_original():
    edit = view_topic(accepted("list")).passages[1]
    assert (edit.edit, edit.compared_with, edit.characters) == ("edit of P1", "P1", len(SHORT.text))
    assert edit.text == (Span("same", "sorted() returns a new list."), Span("removed", " It was added in 2001."))


def test_an_edit_whose_original_is_not_kept_is_compared_with_another_edit_of_it():
    other = Passage("sorted() returns a list.", "generated_positive", edited_from=SORT.id)
    first, second = view_topic(replace(accepted("list"), passages=(SHORT, other), judgments=())).passages
    assert (first.edit, first.compared_with) == ("edit of a text that is not in the topic", "")
    assert second.compared_with == "P1"
    assert Span("removed", "new ") in second.text


def test_each_instruction_is_marked_against_the_one_most_like_it():
    topic = accepted("list")
    more = [
        Intent(intent_id(topic.id, text, topic.query), role, text, topic.query)
        for role, text in (("reversed", "Do not give a year."), ("instructed", "Only tables of numbers are of use."))
    ]
    view = view_topic(replace(topic, intents=(*topic.intents, *more)))
    assert [intent.compared_with for intent in view.intents] == ["", "I3", "I2", "I2"]
    assert view.intents[2].instruction[0] == Span("unshared", "Do not give ")


def test_an_instruction_that_occurs_twice_is_compared_with_itself_and_has_no_marks():
    topic = accepted("list")
    asked = topic.intents[1].instruction
    more = [
        Intent(intent_id(topic.id, text, query), role, text, query)
        for role, text, query in (
            ("reversed", f"Never {asked}", topic.query),
            ("poisoned_query", asked, "how does dict sort?"),
        )
    ]
    _, first, reverse, twin = view_topic(replace(topic, intents=(*topic.intents, *more))).intents
    assert (first.compared_with, twin.compared_with, reverse.compared_with) == ("I4", "I2", "I2")
    assert first.instruction == twin.instruction == (Span("same", asked),)
    assert (twin.comparison, reverse.comparison) == ("same instruction as I2", "compared with I2")
    assert Span("unshared", "dict ") in twin.query
    assert reverse.instruction[0] == Span("unshared", "Never ")


def test_another_query_is_marked():
    topic = accepted("list")
    query = "how does dict sort?"
    view = view_topic(replace(topic, intents=(Intent("i", "poisoned_query", "", query),), judgments=()))
    assert Span("unshared", "dict ") in view.intents[0].query


def test_a_rejected_topic_says_who_rejected_it_and_why():
    leak = Verdict("leak", "topic", "reject", "leak", "the instruction says 2001")
    view = view_topic(rejected("tuple", "leak", (leak,)))
    assert view.outcome == "Rejected by leak: the topic (leak): the instruction says 2001"
    assert view.verdicts == ("leak rejects the topic (leak): the instruction says 2001",)
    assert view_topic(rejected("set", "no_negative")).outcome == (
        "Rejected before any check: no_negative (set does not do)."
    )


def test_texts_are_whole_on_request_and_their_length_is_said():
    long = Passage("word " * 200_000, "seed_positive")
    topic = replace(accepted("list"), passages=(long,), judgments=())
    assert view_topic(topic).passages[0].text[-1].mark == "omitted"
    assert view_topic(topic).passages[0].characters == 1_000_000
    assert view_topic(topic, None).passages[0].text == (Span("same", long.text),)


def test_every_role_has_words_and_a_view_is_json():
    assert set(ROLES) == {*get_args(IntentRole), *get_args(PassageRole)}
    view = view_topic(accepted("list"))
    assert json.loads(json.dumps(view.to_json()))["matrix"] == [[1, 1, -1], [1, -1, 0]]
