"""Constraints: exact, negatable, said in words, and proof against odd text."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.topic import Intent, Passage
from prompts.constraints.constraint import Constraint, all_hold, constraints_of, dump_constraints
from prompts.constraints.families import FAMILIES, OF_KIND
from prompts.constraints.wordings import AFFIRMED, DENIED, SHOWN, deny, plural, third_person
from prompts.passages.blocks import join, segment

PROSE = """The black rhino lives in southern Africa, for example in Namibia and Kenya. It weighs about 1,400 kg and was
discovered, as far as anyone knows, in 1758. According to a study, 60 % of the calves survive their first 3
years because the mothers guard them. However, poachers sell a horn for $60,000. "Hook-lipped rhino" is
another name, which means the same animal. You should visit https://example.org to learn more. Is it the
largest species? It differs from the white rhino, which may be calmer. In March the herds move north, a useful
habit. The horn is used for carving. First, find water; next, wait. Two types exist, and there is a risk of
disease. In total, rhinos number 6,195. Rhinos rest at 10 pm. Rhinos like rhinos."""
DOC = """Return the bounds of a mesh as an array of shape (2, 3), much faster than a loop. Since version 1.2
missing values are skipped; O(n) time.

Parameters
----------
mesh : Mesh
    The mesh to measure.
axis : int, optional
    Axis along which to measure. Default: None.

Returns
-------
box : ndarray of dtype float64

Raises
------
ValueError
    If the mesh is empty.

Examples
--------
>>> bounds(unit_cube())
array([[0, 0, 0], [1, 1, 1]])
"""
CODE = """def longest_path(graph):
    # memo holds what is known
    memo = {}
    def walk(node):
        if node not in memo:
            memo[node] = 1 + max((walk(n) for n in graph[node]), default=0)
        return memo[node]
    return max(walk(node) for node in graph)
"""
SUMS = """Let x be the number of pears.
She buys 3 * 4 = 12 pears and adds 2 + 1 = 3 plums.
Then x = 12 / 3 = 4 a day, which is 4.5 - 0.5 = 4 again.
In total that is 4 pears.
#### 4"""


def passage(text: str, **attributes: str) -> Passage:
    return Passage(text, "seed_positive", attributes=attributes)


TEXTS = {
    "text": passage(PROSE),
    "documentation": passage(DOC, form="documentation", library="meshes"),
    "code": passage(CODE, form="source", language="Python", library="graphs"),
    "mathematics": passage(SUMS),
}


def offered(kind: str) -> list[Constraint]:
    found = TEXTS[kind]
    families = [FAMILIES[name] for name in sorted(OF_KIND[kind])]
    return [Constraint(f.name, value) for f in families for value in f.offer(found.text, found.attributes)]


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_what_a_text_offers_holds_of_it_and_its_negation_does_not(kind):
    constraints = offered(kind)
    assert len({c.family for c in constraints}) >= 5
    assert all(c.holds(TEXTS[kind]) for c in constraints)
    assert not any(c.negate().holds(TEXTS[kind]) for c in constraints)


def test_every_family_is_offered_by_some_text_and_suits_some_kind():
    bullets = passage("- one apple\n- two pears\n")
    seen = {c.family for kind in TEXTS for c in offered(kind)} | {
        f for f in FAMILIES if tuple(FAMILIES[f].offer(bullets.text, {}))
    }
    assert seen == set(FAMILIES)
    assert frozenset().union(*OF_KIND.values()) == frozenset(FAMILIES)
    assert len(FAMILIES) >= 16


def test_every_family_has_six_affirmations_and_a_denial_for_each_of_them_and_more():
    for name in FAMILIES:
        assert len(set(AFFIRMED[name])) >= 6, name
        assert len(set(DENIED[name])) >= 4, name
        value = next(iter(SHOWN.get(name, {"7": ""})))
        said = {Constraint(name, value, negated=True).render(i) for i in range(40)}
        assert len(said) >= 10, name


def test_all_wordings_are_verb_phrases_that_can_be_bent():
    for phrase in [p for wording in (AFFIRMED, DENIED) for phrases in wording.values() for p in phrases]:
        assert phrase[0].islower(), phrase
        assert phrase.split()[0].isalpha(), phrase
        assert not phrase.endswith("."), phrase
        assert third_person(phrase) != phrase
        assert third_person(f"not {phrase}").startswith(("does not ", "is not "))


def test_phrases_are_bent_as_english_wants_it():
    assert third_person("be short") == "is short"
    assert third_person("not be short") == "is not short"
    assert third_person("carry a note") == "carries a note"
    assert third_person("say why") == "says why"
    assert third_person("touch on it") == "touches on it"
    assert third_person("do without it") == "does without it"
    assert plural("be short") == "are short"
    assert plural("not be short") == "are not short"
    assert plural("not say why") == "do not say why"
    assert deny("say something about X") == "not say anything about X"


def test_a_mention_is_a_whole_word_in_any_case_across_lines_bare_or_plural():
    text = passage("The Black\n rhino charges; its cartoons amuse.")
    assert Constraint("mentions", "black rhino").holds(text)
    assert Constraint("mentions", "cartoon").holds(text)
    assert not Constraint("mentions", "car").holds(text)
    assert not Constraint("mentions", "toon").holds(text)
    assert not Constraint("names", "black").holds(text)
    assert Constraint("names", "Black").holds(text)


def test_numbers_match_as_wholes():
    text = passage("It costs 1,400 or 3.5, not 48,000; in 2004 there were 12.")
    assert [n for n in ("1,400", "3.5", "48,000", "2004", "12") if Constraint("number", n).holds(text)] == [
        "1,400", "3.5", "48,000", "2004", "12",
    ]  # fmt: skip
    assert not any(Constraint("number", n).holds(text) for n in ("400", "48", "3", "5", "20", "1"))
    assert Constraint("year", "2004").holds(text)
    assert not Constraint("year", "1400").holds(text)


def test_recursion_is_a_call_within_the_function_itself():
    once = "def walk(n):\n    return n\n\ndef main():\n    return walk(1)\n"
    twice = "def walk(n):\n    return n and walk(n - 1)\n"
    java = "class S {\n  int walk(int n) {\n    return walk(n - 1);\n  }\n}\n"
    assert not Constraint("approach", "recursion").holds(passage(once))
    assert Constraint("approach", "recursion").holds(passage(twice))
    assert Constraint("approach", "recursion").holds(passage(java))


def test_a_parameter_is_an_entry_of_what_is_passed_and_not_of_what_is_returned():
    numpy_style = passage(
        "x : int\n\nReturns\n-------\nbox : ndarray\n\nOther Parameters\n----------------\nkey : str\n"
    )
    google_style = passage("Args:\n    x (int): A size.\nReturns:\n    box: The box.\n")
    assert [n for n in ("x", "box", "key") if Constraint("parameter", n).holds(numpy_style)] == ["x", "key"]
    assert [n for n in ("x", "box") if Constraint("parameter", n).holds(google_style)] == ["x"]


def test_written_calculations_are_seen_with_any_minus_sign_and_with_units():
    for line in ("97 – 12 = 85", "97 − 12 = 85", "50 pounds - 16 pounds = 34 pounds", "$97-$12=$85"):
        assert Constraint("arithmetic").holds(passage(line)), line
        assert Constraint("operation", "subtraction").holds(passage(line)), line
    assert Constraint("operation", "addition").holds(passage("20 pounds + 10 pounds = 30 pounds"))
    assert not Constraint("arithmetic").holds(passage("There are 12 pears."))


def test_a_language_comes_from_the_attributes_under_any_of_its_names():
    assert Constraint("language", "cpp").holds(passage("int x;", language="C++"))
    assert not Constraint("language", "cpp").holds(passage("int x;", language="java"))
    assert not Constraint("language", "cpp").holds(passage("int x;"))


def test_the_title_counts_as_text():
    titled = Passage("Returns the result.", "seed_positive", title="numpy.clip")
    assert Constraint("mentions", "numpy").holds(titled)


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=60)
constraints = st.one_of(
    st.builds(
        Constraint,
        st.sampled_from(sorted(set(FAMILIES) - set(SHOWN))),
        st.one_of(st.just(""), words, st.sampled_from(["3", "rhino", "Kenya", "1758"])),
        st.booleans(),
    ),
    *(st.builds(Constraint, st.just(f), st.sampled_from(sorted(values)), st.booleans()) for f, values in SHOWN.items()),
)
lines = [*PROSE.split("."), *DOC.splitlines(), *CODE.splitlines(), *SUMS.splitlines()]
texts = st.one_of(words, st.lists(st.sampled_from(lines)).map("\n".join))


@given(constraints, texts)
def test_negation_flips_holds_for_every_passage(constraint, text):
    assert constraint.holds(passage(text)) is not constraint.negate().holds(passage(text))
    assert constraint.negate().negate() == constraint


@given(constraints)
def test_a_constraint_survives_json(constraint):
    assert Constraint.from_json(constraint.to_json()) == constraint
    intent = Intent("i", "instructed", "x", "q", {"constraints": dump_constraints([constraint])})
    assert constraints_of(intent) == (constraint,)


@given(constraints, st.integers(0, 1000))
def test_a_rendering_names_the_value_of_every_free_family(constraint, variant):
    said = constraint.render(variant)
    if FAMILIES[constraint.family].free and constraint.value:
        assert constraint.value in said
    assert "{x}" not in said.replace(constraint.value, "") or not constraint.value


@example("{AAAAA¹")
@given(texts)
def test_whatever_a_text_offers_it_satisfies(text):
    for family in FAMILIES.values():
        for value in family.offer(text, {}):
            assert Constraint(family.name, value).holds(passage(text)), (family.name, value)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(TEXTS)))
def test_a_block_dropped_or_added_satisfies_what_it_was_dropped_or_added_for(data, kind):
    blocks = segment("P1", TEXTS[kind]).blocks
    block = data.draw(st.sampled_from(blocks))
    rest = [b for b in blocks if b is not block]
    shown = f"{block.header}\n{block.text}"
    for family in FAMILIES.values():
        for value in family.offer(shown, {}):
            constraint = Constraint(family.name, value)
            if family.name.startswith("at_most") or constraint.holds(passage(join(rest))):
                continue
            assert constraint.holds(passage(join(blocks))), (family.name, value)
            assert constraint.negate().holds(passage(join(rest)))


def test_an_intent_without_constraints_has_none_and_so_they_all_hold():
    assert constraints_of(Intent("i", "original", "", "q")) == ()
    assert all_hold((), passage("x"))


def test_an_unknown_family_or_value_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown constraint family 'sings'; use one of mentions"):
        Constraint("sings")
    with pytest.raises(UsageError, match="'operation' has the unknown value 'magic'; use one of addition"):
        Constraint("operation", "magic")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_finders_stay_linear_on_hostile_text(family):
    """Ten times the text takes no more than some forty times as long: quadratic patterns would take a hundred."""
    hostile = ["a " * 500, "(" * 1000, "1,1" * 400, "\n- x" * 250, " " * 1000, "def f(" * 170, "<a b" * 250, '"a' * 500]
    value = next(iter(SHOWN.get(family, {"": ""})))

    def seconds(factor: int) -> float:
        start = time.process_time()
        for text in hostile:
            FAMILIES[family].find(text * factor, {}, value)
            list(FAMILIES[family].offer(text * factor, {}))
        return time.process_time() - start

    seconds(1)
    small, large = seconds(2), seconds(20)
    assert large < max(40 * small, 0.25)
