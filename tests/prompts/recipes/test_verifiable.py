"""The recipe `verifiable`: topics whose judgments a program can check, from every kind of text that Foil reads."""

import json
import time
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.engine.errors import Rejected
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.seeds.metamath import MetamathReader, MetamathSettings
from foil.engine.topic import Passage, Topic
from foil.prompts.constraints.constraint import Constraint, all_hold, constraints_of
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.families import FAMILIES, WEIGHTS
from foil.prompts.constraints.instructions import LENGTHS, STYLES
from foil.prompts.passages.blocks import join, segment
from foil.prompts.recipes.catalog import RECIPES
from foil.prompts.recipes.verifiable import VERSION
from foil.prompts.rules.topic_writer import WordedInstruction
from foil.prompts.rules.view_pairs import overlap
from tests.support.topics.zoo import HIPPO, OTHER_RHINO, RHINO, ZEBRA, passage, seed, topic_of


def topics_of(seeds) -> tuple[list[Topic], Counter]:
    made, rejected = [], Counter()
    for one in seeds:
        try:
            made.append(topic_of(one))
        except Rejected as reason:
            rejected[reason.reason] += 1
    return made, rejected


def check(topic: Topic) -> None:
    """Everything that the recipe promises of any topic, decided anew."""
    passages = {p.id: p for p in topic.passages}
    intents = {i.id: i for i in topic.intents}
    by_role = {i.role: i for i in topic.intents}
    d_plus, d_minus = topic.passages[:2]
    told = {(intents[j.intent_id].role, j.passage_id): j for j in topic.judgments}
    assert len(passages) == len(topic.passages)
    assert len(intents) == len(topic.intents)
    assert len({i.instruction for i in topic.intents}) >= 3
    assert (d_plus.role, d_minus.role) == ("seed_positive", "instruction_negative")
    for one, other in ((d_plus, d_minus), (d_minus, d_plus)):
        assert told["original", one.id].relevance == 1
        assert one.text != other.text
    for intent in topic.intents:
        constraints = constraints_of(intent)
        if intent.role in ("original", "poisoned_query"):
            continue
        assert 1 <= len(constraints) <= 3
        for d in (d_plus, d_minus):
            assert (told[intent.role, d.id].relevance == 1) is all_hold(constraints, d)
            assert told[intent.role, d.id].judge == "rule"
        assert all(fold_text(c.value) in fold_text(intent.instruction) for c in constraints if FAMILIES[c.family].free)
    turned = by_role.get("reversed") or by_role["dual"]
    assert told["instructed", d_plus.id].relevance == told[turned.role, d_minus.id].relevance == 1
    assert told["instructed", d_minus.id].relevance == told[turned.role, d_plus.id].relevance == -1
    assert told["poisoned_instruction", d_minus.id].relevance == 1
    assert by_role["instructed"].attributes["length_format"] in LENGTHS
    assert by_role["instructed"].attributes["style"] in STYLES
    if "poisoned_query" in by_role:
        elsewhere = by_role["poisoned_query"]
        (p2,) = (p for p in topic.passages if p.role == "query_negative")
        assert elsewhere.instruction == by_role["instructed"].instruction
        assert elsewhere.query != topic.query
        assert all_hold(constraints_of(elsewhere), p2)
        assert (told["poisoned_query", p2.id].relevance, told["poisoned_query", d_plus.id].relevance) == (1, -1)
        assert told["original", p2.id].relevance == -1


SEEDS = [
    seed(f"s{i}", positives, **({"negatives": negatives} if negatives is not None else {}))
    for i, (positives, negatives) in enumerate(
        [((RHINO,), None), ((RHINO, OTHER_RHINO), None), ((OTHER_RHINO,), ()), ((HIPPO,), (ZEBRA,))] * 40
    )
]


def test_every_claim_of_every_topic_holds():
    made, rejected = topics_of(SEEDS)
    assert len(made) + sum(rejected.values()) == len(SEEDS)
    assert len(made) >= 0.5 * len(SEEDS)  # half of them have a passage in which something clear can be left out
    assert set(rejected) <= {"no_contrast", "no_answer"}
    for topic in made:
        check(topic)


@pytest.mark.slow
def test_formats_styles_polarity_and_kinds_of_reversal_are_balanced_by_the_seeds_hash():
    made, _ = topics_of(seed(f"balance{i}") for i in range(400))
    instructed = [i for t in made for i in t.intents if i.role == "instructed"]
    for key, options in (("length_format", LENGTHS), ("style", STYLES)):
        counts = Counter(i.attributes[key] for i in instructed)
        assert set(counts) == set(options)
        assert min(counts.values()) > 0.6 * len(made) / len(options), counts
    denied = [
        c.negated
        for t in made
        for i in t.intents
        if i.role in ("instructed", "reversed", "dual")
        for c in constraints_of(i)
    ]
    assert 0.05 < sum(denied) / len(denied) < 0.35
    assert sum(i.role == "dual" for t in made for i in t.intents) / len(made) > 0.6
    families = Counter(c.family for i in instructed for c in constraints_of(i)[:1])
    assert max(families.values()) < 0.6 * len(made)
    assert len(families) >= 2


def test_the_answering_sentence_stands_in_both_views_and_edits_are_marked():
    for i in range(60):
        topic = topic_of(seed(f"core{i}"))
        for d in topic.passages[:2]:
            assert "The black rhino is a large animal" in " ".join(d.text.split())
            assert bool(d.edited_from) is (d.text != RHINO)
            if d.edited_from:
                assert d.edited_from == passage(RHINO).id
                assert d.attributes["edit"] in {
                    "sentence_dropped", "sentence_added", "set_as_list", "shortened",
                }  # fmt: skip


def test_another_positive_serves_as_it_is():
    edits = {
        tuple(bool(d.edited_from) for d in topic_of(seed(f"two{i}", (RHINO, OTHER_RHINO))).passages[:2])
        for i in range(40)
    }
    assert (False, False) in edits


def test_code_is_never_cut_and_a_language_tells_solutions_apart():
    python = passage("def add(a, b):\n    return a + b\n", language="python")
    java = passage("class S {\n  public int add(int a, int b) {\n    return a + b;\n  }\n}\n", language="java")
    made = [topic_of(seed(f"code{i}", (python, java), (), query="add two numbers")) for i in range(30)]
    families = {c.family for t in made for i in t.intents for c in constraints_of(i)}
    assert "language" in families
    for topic in made:
        check(topic)
        assert {p.text for p in topic.passages} == {python.text, java.text}


SUMS = (
    "She buys 3 * 4 = 12 pears.\nShe eats half, 12 / 2 = 6 pears.\nShe gets 5 more, so 6 + 5 = 11 pears.\n#### 11",
    "Let x be the number of pears.\nHalf of 12 is 6.\nx = 6 + 5 = 11\n#### 11",
)


def test_a_worked_solution_or_a_program_is_never_cut():
    for i in range(30):
        topic = topic_of(seed(f"sum{i}", SUMS, (), query="How many pears?"))
        check(topic)
        assert {d.text for d in topic.passages[:2]} == set(SUMS)
    with pytest.raises(Rejected, match="one_block"):
        topic_of(seed("one", SUMS[:1], (), query="How many pears?"))


def test_no_sentence_of_another_passage_enters_a_view():
    for topic in topics_of(SEEDS)[0]:
        sources = {s.id: " ".join(s.text.split()) for one in SEEDS for s in (*one.positives, *one.negatives)}
        for view in (p for p in topic.passages if p.edited_from):
            lines = " ".join(line.removeprefix("- ") for line in view.text.splitlines())
            sentences = [s for s in " ".join(lines.split()).split(". ") if len(s) > 20]
            assert all(s.rstrip(".") in sources[view.edited_from] for s in sentences), view.text


def test_the_same_seed_gives_the_same_topic_and_another_seed_another():
    assert topic_of(seed("a")) == topic_of(seed("a"))
    assert topic_of(seed("a")).intents[1].instruction != topic_of(seed("b")).intents[1].instruction


def test_a_negatives_own_query_is_the_other_query_where_it_is_known():
    asked = replace(passage(HIPPO, "seed_negative"), attributes={"query": "what is a hippo"})
    queries = {
        i.query
        for n in range(60)
        for i in topic_of(seed(f"q{n}", negatives=(asked,))).intents
        if i.role == "poisoned_query"
    }
    assert queries == {"what is a hippo"}


def test_without_negatives_the_topic_says_which_rows_it_has():
    assert topic_of(seed(negatives=())).attributes == {"rows": "dual_view"}
    rows = {topic_of(seed(f"r{i}")).attributes["rows"] for i in range(20)}
    assert "dual_view,inf_ir" in rows


def test_negatives_judged_by_the_seed_stay_and_are_limited():
    topic = topic_of(seed(negatives=(HIPPO, ZEBRA, "Lions sleep.", "Gnus walk far.")), negatives=2)
    others = [p for p in topic.passages if p.role in ("seed_negative", "query_negative")]
    original = next(i for i in topic.intents if i.role == "original")
    assert len(others) == 2
    assert {
        j.relevance for j in topic.judgments if j.intent_id == original.id and j.passage_id in {p.id for p in others}
    } == {-1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (seed(query=" "), "empty_query"),
        (seed(positives=()), "no_positive"),
        (seed(positives=("One sentence only stands here.",), negatives=()), "no_answer"),
        (seed(positives=("One black rhino only stands here.",), negatives=()), "one_block"),
        (
            seed(
                positives=(
                    "The same again, word for word, and nothing else. The same again, word for word, and nothing else.",
                ),
                negatives=(),
            ),
            "unreadable",
        ),
    ],
)
def test_a_seed_that_allows_no_topic_is_rejected_with_its_reason(bad, reason):
    with pytest.raises(Rejected) as caught:
        topic_of(bad)
    assert caught.value.reason == reason


SHOWS = Passage("It weighs 1,400 kilograms, in May as well.", "seed_positive")
LACKS = Passage("It is heavy.", "instruction_negative")
FIGURE = Constraint("number", "1,400")


@pytest.mark.parametrize(
    ("demands", "wording", "reason"),
    [
        ([FIGURE], "It must state a weight.", "value_not_named"),
        ([FIGURE.negate()], "It must not state 1,400.", "constraint_not_held"),
        ([FIGURE, Constraint("year")], "It must state 1,400, and a year.", "constraint_not_held"),
    ],
)
def test_an_instruction_that_does_not_part_its_passages_or_name_its_value_is_refused(demands, wording, reason):
    WordedInstruction((FIGURE,), "It must state 1,400.").check(SHOWS, LACKS)
    with pytest.raises(Rejected) as caught:
        WordedInstruction(tuple(demands), wording).check(SHOWS, LACKS)
    assert caught.value.reason == reason


def test_settings_change_the_fingerprint_and_wrong_ones_are_refused():
    kinds, build = RECIPES["verifiable"]
    plain, other = build(kinds()), build(kinds(dual_share=0.1))
    assert plain.name == "verifiable"
    assert plain.fingerprint == build(kinds()).fingerprint != other.fingerprint
    with pytest.raises(ValidationError, match="'sings' is no constraint family"):
        kinds(family_weights={"sings": 1.0})


def test_a_family_with_weight_zero_is_left_out():
    made = [topic_of(seed(f"w{i}"), family_weights={"mentions": 0, "names": 0}) for i in range(40)]
    assert not {c.family for t in made for i in t.intents for c in constraints_of(i)} & {"mentions", "names"}


@given(
    st.lists(
        st.sampled_from([*RHINO.split(". "), "\n\n", ">>> f(1)", "x : int", "Returns:", "- item", "#### 4"]),
        max_size=30,
    )
)
def test_blocks_stand_in_the_text_as_they_are_and_in_its_order(pieces):
    text = "\n".join(pieces)
    made = segment("P1", passage(text, form="documentation"), "rhino")
    words, at = " ".join(text.split()), 0
    for block in (" ".join(b.text.split()) for b in made.blocks):
        at = words.index(block, at) + len(block)
    if made.whole:
        assert 10 * len(join(made.blocks)) >= 9 * len(text.strip())


@settings(max_examples=50)
@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=60))
def test_any_text_makes_a_topic_or_a_rejection(one, other, query):
    made, rejected = topics_of([seed(positives=(one, other), negatives=(other + one,), query=query)])
    for topic in made:
        check(topic)
    assert set(rejected) <= {"empty_query", "no_positive", "no_answer", "one_block", "no_contrast", "unreadable"}


def test_hostile_passages_take_no_time():
    start = time.process_time()
    for text in (
        "a. " * 100_000,
        "(" * 300_000,
        "x : y\n" * 50_000,
        " " * 300_000 + "a",
        "A" * 300_000,
        "def f(\n" * 40_000,
    ):
        try:
            topic_of(seed(positives=(text,), negatives=(text + "b",)))
        except Rejected:
            continue
    assert time.process_time() - start < 10


def accepted_share(seeds, at_least: int) -> float:
    made, rejected = topics_of(seeds)
    for topic in made:
        check(topic)
    total = len(made) + sum(rejected.values())
    assert total >= at_least
    assert set(rejected) <= {"no_answer", "one_block", "no_contrast", "unreadable"}
    return len(made) / total


def lines(path, count: int) -> list[dict]:
    with path.open(encoding="utf-8") as rows:
        return [json.loads(row) for row in islice(rows, count)]


def test_web_passages_make_topics(shared_data):
    rows = lines(shared_data / "msmarco" / "rows_dl.jsonl", 200)
    seeds = [
        seed(f"{i}", (r["positive"]["text"],), [o["text"] for o in r["others"]], query=r["query"])
        for i, r in enumerate(rows)
    ]
    assert accepted_share(seeds, 200) > 0  # prose of one passage is refused but for few


def test_solutions_in_several_languages_make_topics(shared_data):
    rows = lines(shared_data / "leetcode" / "solutions_walkccc_mit.jsonl", 150)
    positives = [[passage(s["code"], language=s["language"]) for s in r["solutions"]] for r in rows]
    seeds = [seed(str(r["id"]), p, (), query=r["title"]) for r, p in zip(rows, positives, strict=True)]
    assert accepted_share(seeds, 150) >= 0.9


@pytest.mark.slow
def test_worked_solutions_make_topics_where_a_question_has_several(shared_data):
    settings = MetamathSettings(path=shared_data / "gsm8k" / "example_model_solutions.jsonl")
    assert accepted_share(list(islice(MetamathReader(settings), 200)), 200) >= 0.08


def test_other_families_need_another_version():
    """Every family draws one number a seed: a new one changes all draws after it, and so the topics."""
    drawn = sha256_hex(canonical_json(list(WEIGHTS.items())))[:12]
    assert (VERSION, drawn) == ("17", "9a7e9f9c5109"), (
        "families or weights changed: raise VERSION, then note the new hash here"
    )


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (("parameter", "mode"), ("section", "parameters"), True),
        (("section", "raises"), ("raises", "ValueError"), True),
        (("parameter", "mode"), ("section", "notes"), False),
        (("parameter", "mode"), ("version", ""), False),
        (("example", ""), ("code_sample", ""), True),
    ],
)
def test_no_instruction_asks_for_what_its_other_demand_brings_along(first, second, same):
    assert overlap(Constraint(*first), Constraint(*second)) is same
    assert overlap(Constraint(*second), Constraint(*first)) is same
