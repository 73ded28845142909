"""What counts as a broken page, and what does not."""

import time

import pytest

from foil.engine.errors import Rejected
from foil.engine.topic import Passage
from foil.prompts.passages.readable import flaw_of
from foil.prompts.passages.seed_material import build_material
from foil.validators.checks.text_checks import ReadableCheck, ReadableSettings
from tests.support.topics.zoo import passage, seed, topic_of

SOUND = (
    "The tide turns twice a day. It is high at noon today.",
    "The ferry leaves at 7:30 p.m. from pier 4 (see the map).",
    "Tides: high at noon, low at six",
    "He asked: where is it from?",
    "The harbour has cranes | sheds and a slip.",
    "Salt, nets, ropes and lamps are sold here. Nets are sold there, too.",
    "They sell nets. They sell nets in spring, and lamps.",
    "The gauge reads 1.82 m, i.e. more than at low water, e.g. on Mondays.",
    "A sign says {closed}. Nobody minds.",
    "It is said that the light & the horn are old.",
    "Visit example.org.uk for hours. The office opens at nine.",
    "J. R. Holm wrote the first tide table of the coast in 1911.",
)
BROKEN = {
    "cut_off": (
        "The tide turns twice a day, which is why the",
        "The ferry is known for...",
        "Boats leave from the northern pier and\n",
        "The lamp was changed when the keeper …",
    ),
    "menu": (
        "The tide turns twice a day. Slide 1 of 6. The moon pulls the sea.",
        "You are here: Home Tides. The tide turns twice a day.",
        "Home » Tides » Tables. The tide turns.",
        "Tides | Boats | Lamps | Nets. The tide turns twice.",
        "Click here to see when the tide turns.",
    ),
    "markup": (
        "The tide <br> turns twice.",
        "The tide&nbsp;turns twice a day.",
        "data-slot-id=12 The tide turns twice a day.",
        "{color: red} The tide turns twice a day.",
    ),
    "noise": (
        "The tideâ€™s height is known.",
        "T h e t i d e turns twice a day.",
        "The tide ######## turns twice.",
        "The tide\ufffd turns twice a day.",
        "The tide turns twice a day.torms change it.",
        "The tide turns twice daily. and is highest at new moon.",
    ),
    "repeated": (
        "The tide turns twice in a day. The lamp is old. The tide turns twice in a day.",
        "Kestrels nest on the old tower. They eat mice.estrels nest on the tower. estrels nest on the wall.",
    ),
}


@pytest.mark.parametrize("text", SOUND)
def test_a_text_that_a_reader_can_use_has_no_flaw(text):
    assert flaw_of(Passage(text, "seed_positive")) == ""


@pytest.mark.parametrize(("flaw", "text"), [(flaw, text) for flaw, texts in BROKEN.items() for text in texts])
def test_a_broken_page_is_named(flaw, text):
    assert flaw_of(Passage(text, "seed_positive")) == flaw


def test_code_documentation_and_abstracts_have_forms_of_their_own():
    for attributes in ({"form": "documentation"}, {"form": "source"}):
        assert not flaw_of(Passage("The tide <br> turns | and | and | and", "seed_positive", attributes=attributes))
    listing = "How do I count up to i.e. n?\n\n```\ntotal += gas[i] - cost[i]\nxs.append\nxs.pop\nys.top\nzs.run\n```"
    assert not flaw_of(Passage(listing, "generated_positive"))
    assert flaw_of(Passage(listing.replace("```", ""), "generated_positive"))


@pytest.mark.parametrize(
    ("end", "flaw"),
    [
        ("the tables agree with the tide gauge of the pier", ""),
        ("the coefficients are functions of .", "torn"),
        ("it ran from from 0 to 44", "torn"),
        ("the gauge was read at heights between were tested", "torn"),
    ],
)
def test_an_abstract_that_lost_a_line_is_torn_and_a_title_alone_is_bare(end, flaw):
    text = f"Tide tables are computed by harmonic analysis. {'The sum of a year takes a night. ' * 6}At last {end} ."
    assert flaw_of(Passage(text, "seed_positive", attributes={"form": "abstract"})) == flaw
    assert flaw_of(Passage("Tides. CACM May, 1968", "seed_positive", attributes={"form": "abstract"})) == "bare"


def test_a_recipe_leaves_broken_pages_out_and_refuses_a_seed_with_nothing_else():
    broken, sound = BROKEN["cut_off"][0], SOUND[0]
    material = build_material(
        seed(positives=(broken, sound), negatives=(BROKEN["menu"][0], SOUND[1])), passage_chars=500, negatives=4
    )
    assert [p.text for p in material.positive_passages] == [sound]
    assert [p.text for p in material.negative_passages] == [SOUND[1]]
    with pytest.raises(Rejected, match="cut_off") as refused:
        build_material(seed(positives=(broken,)), passage_chars=500, negatives=4)
    assert refused.value.reason == "unreadable"


def test_code_that_does_not_fit_is_left_out_and_never_cut():
    short, long = (passage("def f(x):\n" + "    x += 1\n" * n, form="source", language="python") for n in (3, 99))
    material = build_material(seed(positives=(long, short), query="f"), passage_chars=500, negatives=4)
    assert [p.text for p in material.positive_passages] == [short.text]
    with pytest.raises(Rejected, match="characters of code, which is never cut to 500"):
        build_material(seed(positives=(long,), query="f"), passage_chars=500, negatives=4)
    whole = build_material(seed(positives=(long,), query="f"), passage_chars=500, negatives=4, shorten=False)
    assert [p.text for p in whole.positive_passages] == [long.text]


def test_the_check_rejects_a_topic_and_names_the_passage():
    sound = topic_of(seed())
    check = ReadableCheck(ReadableSettings())
    assert [v.outcome for v in check(sound)[1]] == ["pass"]
    first, *others = sound.passages
    broken = Passage(f"{first.text} It is the", first.role)
    topic = type(sound)(**{f: getattr(sound, f) for f in sound.__slots__} | {"passages": (broken, *others)})
    [verdict] = check(topic)[1]
    assert (verdict.outcome, verdict.reason, verdict.evidence, verdict.scope) == (
        "reject", "unreadable", "cut_off", broken.id
    )  # fmt: skip


def test_hostile_texts_take_no_time():
    start = time.process_time()
    for text in (
        "a. " * 60_000,
        "x | " * 60_000,
        "." * 200_000,
        "<p" * 100_000,
        " " * 300_000 + "a",
        "ab.ab ab ab " * 20_000,
    ):
        flaw_of(Passage(text, "seed_positive"))
    assert time.process_time() - start < 5
