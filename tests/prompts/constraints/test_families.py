"""Every family: what a text offers of it holds, its negation does not, and its finder is linear in the text."""

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.prompts.constraints.constraint import Constraint
from foil.prompts.constraints.detectors import Detector
from foil.prompts.constraints.families import FAMILIES, NAMES_BY_KIND, TEXT, Family, index_families
from foil.prompts.constraints.wordings import Wording
from foil.prompts.passages.blocks import join, segment
from tests.support.topics.sample_seeds import passage

PROSE = """The black rhino lives in southern Africa, for example in Namibia and Kenya. It weighs about 1,400 kg.
It was first discovered, as far as anyone knows, in 1758. According to a study, 60 % of the calves survive their first
3 years because the mothers guard them. Beware of poachers, who sell a horn for $60,000. A warden said:
"Nobody here would ever sell a single horn." Hook-lipped rhino is another name.
The term rhino refers to the same animal. You should visit a park to learn more. Your guide knows the way. Is it the
largest species?
It differs from the white rhino, which might be calmer. On 3 March the herds move north, which helps reduce thirst.
There is a risk of drought. The horn is used for carving. First, find water; then wait. There are two types of horn.
It is the largest of all. A total of 6,195 rhinos live there. Rhinos rest at 10 pm. Rhinos like rhinos."""
DOC = """Return the bounds of a mesh as an array of shape (2, 3), much faster than a loop. Since version 1.2
missing values are skipped; runs in O(n) time.

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

See Also
--------
volume : see also https://example.org/meshes

Examples
--------
>>> bounds(unit_cube())
array([[0, 0, 0], [1, 1, 1]])
"""
CODE = """def longest_path(graph):
    # memo holds what is known
    memo = defaultdict(int)
    def walk(node):
        # one step more than the longest walk of a neighbour
        if node not in memo:
            memo[node] = 1 + max((walk(n) for n in graph[node]), default=0)
        return memo[node]
    return max(walk(node) for node in graph)
"""
SUMS = """First, let x be the number of pears at $2 each.
Then half a bag is 1/2 of it.
She buys 3 * 4 = 12 pears and adds 2 + 1 + 0 = 3 plums.
Then x = 12 / 3 = 4 a day.
Which is 4.5 - 0.5 = 4 again.
And 8 / 2 = 4.
In total that is 4 pears.
#### 4"""

ABSTRACT = """Tide tables are computed by harmonic analysis. The harmonic analysis of a year takes a night.

Holm, I. and Sand, P.

Journal of Tides 12, 1964."""

TEXTS = {
    "text": passage(PROSE),
    "documentation": passage(DOC, form="documentation", library="meshes", module="meshes.grid", kind="class"),
    "code": passage(CODE, form="source", language="Python", library="graphs"),
    "mathematics": passage(SUMS),
    "abstract": passage(ABSTRACT, form="abstract", author="Holm; Sand", year="1964"),
}


def offered(kind: str) -> list[Constraint]:
    text, attributes = TEXTS[kind].text, TEXTS[kind].attributes
    names = sorted(NAMES_BY_KIND[kind])
    return [Constraint(name, value) for name in names for value in FAMILIES[name].detector.offer(text, attributes)]


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_what_a_text_offers_holds_of_it_and_its_negation_does_not(kind):
    constraints = offered(kind)
    assert len({c.family for c in constraints}) >= (3 if kind == "abstract" else 5)
    assert all(c.holds(TEXTS[kind]) for c in constraints)
    assert not any(c.negate().holds(TEXTS[kind]) for c in constraints)


def test_every_family_is_offered_by_some_text_and_suits_some_kind():
    bullets = "- one apple\n- two pears\n"
    in_bullets = {name for name, family in FAMILIES.items() if tuple(family.detector.offer(bullets, {}))}
    assert {constraint.family for kind in TEXTS for constraint in offered(kind)} | in_bullets == set(FAMILIES)
    assert frozenset().union(*NAMES_BY_KIND.values()) == frozenset(FAMILIES)
    assert len(FAMILIES) >= 16


def build_family(weight=1.0, kinds=TEXT, affirm=("sing",), deny=("be silent",), **options):
    return Family("sings", Detector(lambda *_: -1, lambda *_: ()), weight, kinds, Wording(affirm, deny), **options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": -1.0}, "constraint family 'sings' lacks weight; see families.py and wordings.yaml"),
        ({"kinds": frozenset()}, "'sings' lacks kinds"),
        ({"affirm": (), "deny": ()}, "'sings' lacks affirm, deny"),
        ({"free": True}, "the phrase 'sing' has no {x}, yet the family takes a value"),
        ({"affirm": ("sing {x}",)}, "the phrase 'sing {x}' has {x}, yet there is no value"),
    ],
)
def test_a_family_that_lacks_something_cannot_be_built(fields, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        build_family(**fields)


def test_a_wording_without_a_family_is_refused():
    assert index_families(build_family(), wordings={}).keys() == {"sings"}
    with pytest.raises(UsageError, match=r"wordings.yaml has the unknown constraint family 'hums'; use one of sings"):
        index_families(build_family(), wordings={"hums": Wording()})


VALUES = {family.name: family.wording.values for family in FAMILIES.values() if family.wording.values}
words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=60)
constraints = st.one_of(
    st.builds(
        Constraint,
        st.sampled_from(sorted(set(FAMILIES) - set(VALUES))),
        st.one_of(st.just(""), words, st.sampled_from(["3", "rhino", "Kenya", "1758"])),
        st.booleans(),
    ),
    *(
        st.builds(Constraint, st.just(f), st.sampled_from(sorted(values)), st.booleans())
        for f, values in VALUES.items()
    ),
)
lines = [*PROSE.split("."), *DOC.splitlines(), *CODE.splitlines(), *SUMS.splitlines()]
texts = st.one_of(words, st.lists(st.sampled_from(lines)).map("\n".join))


@given(constraints, texts)
def test_negation_flips_holds_for_every_passage(constraint, text):
    assert constraint.holds(passage(text)) is not constraint.negate().holds(passage(text))
    assert constraint.negate().negate() == constraint


@given(constraints, st.integers(0, 1000))
def test_a_rendering_names_the_value_of_every_free_family(constraint, variant):
    phrase = constraint.render(variant)
    if FAMILIES[constraint.family].free and constraint.value:
        assert constraint.value in phrase
    assert "{x}" not in phrase.replace(constraint.value, "") or not constraint.value


@example("{AAAAA¹")
@example("[_A0a")
@given(texts)
def test_whatever_a_text_offers_it_satisfies(text):
    for family in FAMILIES.values():
        for value in family.detector.offer(text, {}):
            assert Constraint(family.name, value).holds(passage(text)), (family.name, value)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(TEXTS)))
def test_a_block_dropped_or_added_satisfies_what_it_was_dropped_or_added_for(data, kind):
    blocks = segment("P1", TEXTS[kind]).blocks
    block = data.draw(st.sampled_from(blocks))
    rest = [b for b in blocks if b is not block]
    block_text = f"{block.header}\n{block.text}"
    for name in NAMES_BY_KIND[kind] - {"comments", "approach"}:  # a part of a program does not parse
        for value in FAMILIES[name].detector.offer(block_text, {}):
            constraint = Constraint(name, value)
            if name.startswith("at_most") or constraint.holds(passage(join(rest))):
                continue
            assert constraint.holds(passage(join(blocks))), (name, value)
            assert constraint.negate().holds(passage(join(rest)))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_finders_stay_linear_on_hostile_text(family):
    """Ten times the text takes no more than some forty times as long: quadratic patterns would take a hundred."""
    hostile = ["a " * 500, "(" * 1000, "1,1" * 400, "\n- x" * 250, " " * 1000, "def f(" * 170, "<a b" * 250, '"a' * 500]
    hostile += ["First\n" * 170, "Then\n" * 200]
    value = next(iter(VALUES.get(family, {"": ""})))

    def seconds(factor: int) -> float:
        start = time.process_time()
        for text in hostile:
            FAMILIES[family].detector.find(text * factor, {}, value)
            list(FAMILIES[family].detector.offer(text * factor, {}))
        return time.process_time() - start

    seconds(1)
    small, large = seconds(2), seconds(20)
    assert large < max(40 * small, 0.25)
