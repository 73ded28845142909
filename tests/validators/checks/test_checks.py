"""The checks that look at one topic alone, and the catalog that orders them."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.topic import Intent, Judgment, Passage, Seed, Topic, intent_id
from foil.prompts.constraints.constraint import Constraint, dump_constraints
from foil.validators.catalog import DEFAULT_VALIDATORS, SCREENS, VALIDATORS, screens_of, validators_of
from foil.validators.checks.label_checks import ConstraintCheck, ConstraintCheckSettings
from foil.validators.checks.leak import LeakCheck, LeakSettings
from foil.validators.checks.newline_truncation import NewlineTruncation, NewlineTruncationSettings
from foil.validators.checks.shape import ShapeCheck, ShapeSettings
from foil.validators.overlap.contamination import ContaminationSettings
from foil.validators.overlap.duplicates import DuplicatesSettings

QUERY = "when was the suez canal opened"
ANSWER = "The Suez Canal was opened in November 1869 after ten years of work."
PLUS = Passage(f"{ANSWER} It joins the Mediterranean and the Red Sea.", "seed_positive", "Suez Canal history", "D4711")
MINUS = Passage(f"{ANSWER} Ferdinand de Lesseps led the company.", "instruction_negative", edited_from=PLUS.id)
OTHER = Passage("The Panama Canal has locks and joins two oceans.", "query_negative", attributes={"kind": "text"})


def faults(validator, topic: Topic) -> list[tuple[str, str]]:
    """Scope and reason of each rejection; the topic must come back as it went."""
    kept, verdicts = validator(topic)
    assert kept == topic
    assert verdicts
    assert all(v.validator == validator.name and len(v.evidence) < 2000 for v in verdicts)
    assert all((v.outcome == "pass") == (not v.reason) and (v.outcome == "pass" or v.evidence) for v in verdicts)
    return [(v.scope, v.reason) for v in verdicts if v.outcome == "reject"]


def intent(role, instruction: str, query: str = QUERY, constraints: tuple[Constraint, ...] = ()) -> Intent:
    attributes = {"constraints": dump_constraints(constraints)} if constraints else {}
    return Intent(intent_id("t", instruction, query), role, instruction, query, attributes)


MENTIONS = Constraint("mentions", "Red Sea")
ORIGINAL = intent("original", "")
INSTRUCTED = intent("instructed", "I need a passage that mentions the Red Sea.", constraints=(MENTIONS,))
REVERSED = intent("reversed", "Leave out any passage about the Red Sea.", constraints=(MENTIONS.negate(),))
MATRIX = (
    (ORIGINAL, PLUS, 1, "seed"), (ORIGINAL, MINUS, 1, "construction"), (ORIGINAL, OTHER, -1, "seed"),
    (INSTRUCTED, PLUS, 1, "rule"), (INSTRUCTED, MINUS, -1, "rule"),
    (REVERSED, PLUS, -1, "rule"), (REVERSED, MINUS, 1, "rule"),
)  # fmt: skip
TOPIC = Topic(
    "t", "s", "c", "r", QUERY, (ORIGINAL, INSTRUCTED, REVERSED), (PLUS, MINUS, OTHER),
    tuple(Judgment(i.id, p.id, relevance, judge) for i, p, relevance, judge in MATRIX),
)  # fmt: skip

SHAPE = ShapeCheck(ShapeSettings())


def test_a_sound_topic_passes_every_check_with_a_verdict_each():
    topic = TOPIC
    alone = [kind for kind in VALIDATORS if kind != "contamination" and not kind.startswith("judge_")]
    for validator in validators_of([VALIDATORS[kind][0](kind=kind) for kind in alone]):
        topic, verdicts = validator(topic)
        assert [(v.validator, v.scope, v.outcome) for v in verdicts] == [(validator.name, "topic", "pass")]
    assert topic == TOPIC


def changed(judgment: int, **changes) -> Topic:
    judgments = list(TOPIC.judgments)
    judgments[judgment] = replace(judgments[judgment], **changes)
    return replace(TOPIC, judgments=tuple(judgments))


def with_intent(old: Intent, new: Intent) -> Topic:
    """The topic with another intent in its place, judgments following."""
    judgments = tuple(replace(j, intent_id=new.id) if j.intent_id == old.id else j for j in TOPIC.judgments)
    return replace(TOPIC, intents=tuple(new if i is old else i for i in TOPIC.intents), judgments=judgments)


def with_passage(old: Passage, new: Passage) -> Topic:
    """The topic with another passage in its place, judgments following."""
    judgments = tuple(replace(j, passage_id=new.id) if j.passage_id == old.id else j for j in TOPIC.judgments)
    return replace(TOPIC, passages=tuple(new if p is old else p for p in TOPIC.passages), judgments=judgments)


EMPTY = intent("instructed", "  ")
TALKING = intent("original", "Anything goes.")
CONTROL = Passage("bad \x00 byte", "distractor")
SURROGATE = intent("instructed", "half a \ud83d pair")
BLANK = Passage(" \n", "distractor")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (changed(0, passage_id="nowhere"), [("topic", "unresolved_id")]),
        (changed(0, intent_id="nowhere"), [("topic", "unresolved_id")]),
        (changed(2, relevance=0), [(ORIGINAL.id, "relevance")]),
        (changed(1, passage_id=PLUS.id), [(ORIGINAL.id, "double_judgment")]),
        (changed(3, relevance=-1), [(INSTRUCTED.id, "unserved_intent")]),
        (replace(TOPIC, intents=(*TOPIC.intents, ORIGINAL)), [(ORIGINAL.id, "double_id")]),
        (replace(TOPIC, passages=(*TOPIC.passages, PLUS)), [(PLUS.id, "double_id")]),
        (with_passage(OTHER, replace(OTHER, id="made-up")), [("made-up", "foreign_id")]),
        (with_intent(INSTRUCTED, replace(INSTRUCTED, id="made-up")), [("made-up", "foreign_id")]),
        (with_intent(INSTRUCTED, EMPTY), [(EMPTY.id, "empty_text")]),
        (with_intent(INSTRUCTED, SURROGATE), [(SURROGATE.id, "control_character")]),
        (with_intent(ORIGINAL, TALKING), [(TALKING.id, "instruction_of_original")]),
        (with_passage(OTHER, CONTROL), [(CONTROL.id, "control_character")]),
        (with_passage(OTHER, BLANK), [(BLANK.id, "empty_text")]),
        (replace(TOPIC, query=""), [("topic", "empty_text")]),
        (
            replace(TOPIC, judgments=tuple(j for j in TOPIC.judgments if j.relevance > 0)),
            [("topic", "one_sided")],
        ),
        (
            Topic("t", "s", "c", "r", QUERY),
            [("topic", "nothing_to_judge")] * 2 + [("topic", "one_sided")] * 2,
        ),
    ],
)  # fmt: skip
def test_shape_names_each_fault_and_its_place(topic: Topic, expected: list[tuple[str, str]]):
    assert faults(SHAPE, topic) == expected


def test_shape_bounds_the_length_of_texts():
    tight = ShapeCheck(ShapeSettings(max_instruction_chars=42, max_query_chars=30, max_passage_chars=60))
    assert faults(tight, TOPIC) == [
        (INSTRUCTED.id, "long_text"), (PLUS.id, "long_text"), (MINUS.id, "long_text"),
    ]  # fmt: skip


def test_shape_lets_an_intent_without_positive_pass_where_none_is_promised():
    topic = changed(3, relevance=-1)
    assert faults(ShapeCheck(ShapeSettings(positive_for_every_intent=False)), topic) == []
    unjudged = replace(topic, judgments=tuple(j for j in topic.judgments if j.intent_id != INSTRUCTED.id))
    unserved = [(INSTRUCTED.id, "unserved_intent")]
    assert faults(ShapeCheck(ShapeSettings(positive_for_every_intent=False)), unjudged) == unserved


def test_checks_after_shape_survive_a_topic_that_shape_rejects():
    broken = changed(3, passage_id="nowhere")
    alone = [kind for kind in VALIDATORS if kind != "contamination" and not kind.startswith("judge_")]
    for validator in validators_of([VALIDATORS[kind][0](kind=kind) for kind in alone]):
        assert validator(broken)[1]


def test_instructions_are_cut_at_the_first_newline_and_all_that_named_them_follows():
    wordy = intent("instructed", "\n Mention the Red Sea. \nSure, here is more:\n- and more", constraints=(MENTIONS,))
    topic, verdicts = NewlineTruncation(NewlineTruncationSettings())(with_intent(INSTRUCTED, wordy))
    cut = topic.intents[1]
    assert (cut.instruction, cut.attributes) == ("Mention the Red Sea.", wordy.attributes)
    assert cut.id == intent_id("t", "Mention the Red Sea.", QUERY)
    (verdict,) = verdicts
    assert (verdict.scope, verdict.outcome, verdict.reason) == (cut.id, "edit", "newline_cut")
    evidence = json.loads(verdict.evidence)
    assert evidence == {"cut": " \nSure, here is more:\n- and more", "field": "instruction", "was": wordy.id}
    assert [j.relevance for j in topic.judgments if j.intent_id == cut.id] == [1, -1]
    assert faults(SHAPE, topic) == []


def test_generated_queries_are_cut_and_the_seeds_own_query_never_is():
    own = "print the sum\nof two numbers"
    original, asked = intent("original", "", own), intent("poisoned_query", "Use Java.", "print the product\nof two")
    judgments = (Judgment(original.id, PLUS.id, 1, "seed"), Judgment(asked.id, PLUS.id, -1, "construction"))
    topic = replace(TOPIC, query=own, intents=(original, asked), judgments=judgments)
    cut, verdicts = NewlineTruncation(NewlineTruncationSettings())(topic)
    assert [i.query for i in cut.intents] == [own, "print the product"]
    assert len(verdicts) == 1
    assert NewlineTruncation(NewlineTruncationSettings(queries=False))(topic)[0] == topic


def test_generated_passages_are_cut_only_where_that_is_set_and_seed_passages_never():
    lines = Passage("First line.\nSecond line.", "generated_positive")
    seeds = Passage("Seed line.\nAnother line.", "seed_positive")
    edit = Passage("An edit of it", "instruction_negative", edited_from=lines.id)
    judgments = tuple(Judgment(ORIGINAL.id, p.id, r, "seed") for p, r in ((lines, 1), (seeds, 1), (edit, -1)))
    topic = replace(TOPIC, intents=(ORIGINAL,), passages=(lines, seeds, edit), judgments=judgments)
    assert NewlineTruncation(NewlineTruncationSettings())(topic)[0] == topic
    cut, verdicts = NewlineTruncation(NewlineTruncationSettings(passages=True))(topic)
    first, second, third = cut.passages
    assert (first.text, first.edited_from, second) == ("First line.", lines.id, seeds)
    assert third.edited_from == first.id, "what was an edit of the long text is one of the short text now"
    assert [j.passage_id for j in cut.judgments] == [first.id, seeds.id, edit.id]
    assert [(v.scope, v.outcome) for v in verdicts] == [(first.id, "edit")]
    assert faults(SHAPE, cut) == []


def test_a_cut_that_makes_two_intents_one_rejects_the_topic():
    twins = [intent("instructed", "Same line.\nOne."), intent("dual", "Same line.\nTwo.")]
    topic = replace(TOPIC, intents=tuple(twins), judgments=())
    assert faults(NewlineTruncation(NewlineTruncationSettings()), topic) == [("topic", "cut_to_the_same")]


@given(st.text(alphabet="ab \n", max_size=30).filter(str.strip))
def test_what_is_kept_and_what_is_cut_make_up_the_instruction(text: str):
    wordy = intent("instructed", text)
    topic, verdicts = NewlineTruncation(NewlineTruncationSettings())(with_intent(INSTRUCTED, wordy))
    kept = topic.intents[1].instruction
    assert "\n" not in kept
    for verdict in verdicts:
        if verdict.outcome == "edit":
            assert kept + json.loads(verdict.evidence)["cut"] == text.lstrip()


LEAKS = LeakCheck(LeakSettings())


def leaks(instruction: str, *constraints: Constraint, **attributes: str) -> list[str]:
    new = intent("instructed", instruction, constraints=constraints)
    topic = replace(with_intent(INSTRUCTED, new), attributes=attributes)
    found = faults(LEAKS, topic)
    assert {scope for scope, _ in found} <= {new.id}
    return [reason for _, reason in found]


def test_an_instruction_that_quotes_a_sentence_of_the_positive_leaks():
    assert leaks(f"Prefer a page which says: {ANSWER}") == ["quotes_passage"]
    assert leaks("Look for one that was opened in November 1869 after ten years of hard labour, please.") == [
        "quotes_passage"
    ]


def test_an_instruction_made_of_the_passages_phrases_leaks():
    assert leaks("opened in November 1869 / joins the Mediterranean and / nothing else") == ["repeats_passage"]


def test_naming_a_constraints_term_is_no_leak_however_short_the_instruction():
    terms = Constraint("mentions", "Mediterranean and the Red Sea")
    assert leaks("Mention the Mediterranean and the Red Sea.", terms) == []
    assert leaks("Mention the Mediterranean and the Red Sea.") == ["repeats_passage"]
    assert leaks("The page has to name the Suez Canal, and tell when it was opened.") == []


def test_a_constraint_as_long_as_a_sentence_is_a_quotation_all_the_same():
    assert leaks(f"Must contain: {ANSWER}", Constraint("mentions", ANSWER)) == ["quotes_passage"]


def test_repeating_the_query_is_no_leak():
    echoed = Passage(f"Q: {QUERY} by the khedive of egypt? In 1869.", "seed_positive")
    new = intent("instructed", f"For {QUERY}, give dates.")
    judged = (Judgment(new.id, echoed.id, 1, "seed"), Judgment(new.id, OTHER.id, -1, "seed"))
    assert faults(LEAKS, replace(TOPIC, intents=(new,), passages=(echoed, OTHER), judgments=judged)) == []


def test_naming_the_title_or_the_docid_leaks():
    assert leaks("Take the page called 'Suez canal: history'.") == ["names_source"]
    assert leaks("Only document D4711 will do.") == ["names_source"]
    assert leaks("Not D47112 nor d4711x.") == []


def test_quoting_the_known_answer_leaks_and_a_chance_number_does_not():
    assert leaks("It should say November 1869 somewhere.", answer="November, 1869") == ["quotes_answer"]
    assert leaks("It should mention photosynthesis.", answer="Photosynthesis") == ["quotes_answer"]
    assert leaks("At most 3 sentences.", answer="3") == []
    assert leaks("Tell me about the opening.", answer="suez canal") == []


def test_only_passages_relevant_under_the_instruction_are_compared():
    assert leaks("Nothing where Ferdinand de Lesseps led the company, that is another story") == []
    under = intent("reversed", "Nothing but: Work. Ferdinand de Lesseps led the company. Full stop.")
    assert faults(LEAKS, with_intent(REVERSED, under)) == [(under.id, "repeats_passage")]


CHECK = ConstraintCheck(ConstraintCheckSettings())


def test_a_positive_that_breaks_a_constraint_is_named_with_it():
    wrong = with_passage(PLUS, replace(MINUS, text=f"{ANSWER} Nothing else.", id="p", role="seed_positive"))
    _, (verdict, other) = CHECK(wrong)
    assert (verdict.scope, verdict.reason) == (INSTRUCTED.id, "breaks_constraint")
    assert (other.scope, other.reason) == (REVERSED.id, "satisfies_constraints")
    assert "Red Sea" in verdict.evidence
    assert "seed_positive p" in verdict.evidence


def test_a_negative_by_rule_that_satisfies_all_constraints_is_named():
    both = replace(MINUS, text=f"{ANSWER} It ends at the Red Sea.", id="p")
    found = faults(CHECK, with_passage(MINUS, both))
    assert found == [(INSTRUCTED.id, "satisfies_constraints"), (REVERSED.id, "breaks_constraint")]


def test_a_negative_by_the_seed_may_satisfy_the_constraints():
    red = Passage("The Red Sea is salty.", "seed_negative")
    topic = replace(
        TOPIC,
        passages=(*TOPIC.passages, red),
        judgments=(*TOPIC.judgments, Judgment(INSTRUCTED.id, red.id, -1, "seed")),
    )
    assert faults(CHECK, topic) == []


def test_an_instruction_without_constraints_is_not_checked():
    free = intent("instructed", "Anything that a sailor would like.")
    assert faults(CHECK, with_intent(INSTRUCTED, free)) == []


def test_the_catalog_names_what_it_builds_and_orders_it_cheap_to_dear(tmp_path):
    path = tmp_path / "set.txt"
    path.write_text("an evaluation string that nobody trains on\n")
    sets = ContaminationSettings.model_validate({"sets": [{"name": "e", "path": path, "format": "text"}]})
    chosen = [sets, *(VALIDATORS[kind][0](kind=kind) for kind in VALIDATORS if kind != "contamination")]
    chain = validators_of(chosen)
    judges = ["judge_scenarios", "judge_relevance", "judge_polarity", "judge_demands"]
    assert [validator.name for validator in chain][-5:] == ["contamination", *judges]
    assert [validator.cost for validator in chain] == [*[0] * (len(chain) - 5), 1, 2, 2, 2, 2]
    assert [screen.name for screen in screens_of(chosen)] == ["contamination", "duplicates"]
    assert {validator.name for validator in chain} | set(SCREENS) == set(VALIDATORS)
    assert set(DEFAULT_VALIDATORS) < set(VALIDATORS)
    fingerprints = [part.fingerprint for part in (*chain, *screens_of(chosen))]
    assert len(set(fingerprints)) == len(VALIDATORS)


def test_a_fingerprint_follows_the_settings():
    assert LeakCheck(LeakSettings()).fingerprint == LEAKS.fingerprint
    assert LeakCheck(LeakSettings(sentence_words=9)).fingerprint != LEAKS.fingerprint


def test_screens_start_afresh_for_each_run():
    seed = Seed("1", "c", QUERY, (PLUS,))
    for _ in range(2):
        (screen,) = screens_of([DuplicatesSettings()])
        assert screen(seed) is None
        assert screen(replace(seed, id="2")) is not None
