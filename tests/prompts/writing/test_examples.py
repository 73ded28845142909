"""The examples of prompts: how many, how long, how often drawn, and how unlike each other."""

import re
from collections import Counter
from itertools import combinations
from statistics import mean

import pytest

from foil.engine.ids import sha256_hex
from foil.prompts.constraints.dimensions import CONDITIONS, name_of, names
from foil.prompts.constraints.instructions import STYLES
from foil.prompts.writing.checks import denies, denies_twice
from foil.prompts.writing.contrast_checks import _ASKS, _STATES, _code_problems
from foil.prompts.writing.examples import _FOLDER, WORDS, example_for, examples_of, wording_example

KINDS = ("text", "code", "mathematics")
RUN = 8


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def runs(text: str, size: int = RUN) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def prose_of(example) -> list[str]:
    """All texts of an example that are no source code; idioms of a language may stand in two programs."""
    said = [example.query, *example.demands, *example.demands_minus, *example.bans, *example.bans_minus]
    said += [example.q_minus, *example.i_plus.values(), *example.i_minus.values()]
    if not example.language:
        said += [example.p_plus, example.p1_minus, example.p2_minus, *(n.text for n in example.negatives)]
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_24_of_a_kind_in_all_styles(kind):
    examples = examples_of(kind)
    assert len({e.id for e in examples}) == len(examples) == 24
    styles = Counter(e.style for e in examples)
    assert styles.keys() == {*STYLES}
    assert min(styles.values()) >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_instructions_have_the_published_lengths(kind):
    for length in WORDS:
        each = [len(text[length].split()) for e in examples_of(kind) for text in (e.i_plus, e.i_minus)]
        assert mean(each) == pytest.approx(WORDS[length], rel=0.1)
        for example in examples_of(kind):
            for text in (example.i_plus, example.i_minus):
                assert len(text[length].split()) == pytest.approx(WORDS[length], rel=0.25, abs=4), (example.id, length)


def draws(draw) -> Counter:
    """What 5,000 seeds draw, as `WritingMaterial.number` numbers them."""
    return Counter(draw(int(sha256_hex(f"example questions\x1fmsmarco\x1f{i}")[:16], 16)) for i in range(5_000))


@pytest.mark.parametrize("kind", KINDS)
def test_no_example_stands_in_more_than_a_twentieth_of_the_prompts(kind):
    drawn = draws(lambda number: example_for(kind, number).id)
    assert len(drawn) == 24
    assert max(drawn.values()) <= 0.05 * 5_000 * 1.1  # 1 / 24 is 4.2 %


def test_no_wording_stands_in_more_than_a_twentieth_of_the_prompts():
    drawn = draws(lambda number: wording_example(number)["query"])
    assert len(drawn) == 24
    assert max(drawn.values()) <= 0.05 * 5_000 * 1.1


def test_a_wording_has_the_form_and_the_tone_that_are_asked_for():
    for form in ("request", "sentence", "question", "keywords"):
        questions = {wording_example(number, form=form)["question"] for number in range(100)}
        assert len(questions) == 6
        assert all(text.endswith("?") for text in questions) or form != "question"
        assert not any(text.endswith(("?", ".")) for text in questions) or form != "keywords"
    for tone in ("request", "statement", "question"):
        wordings = [wording_example(number, tone=tone) for number in range(100)]
        texts = {text for each in wordings for text in (each["condition"], each["reversal"])}
        assert len(texts) == 16
        assert {text.endswith("?") for text in texts} == {tone == "question"}
        assert {text.startswith("Please") for text in texts} == {tone == "request"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_of_a_style_has_that_style(kind):
    for style in STYLES:
        assert {example_for(kind, number, style).style for number in range(100)} == {style}


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_examples_share_a_run_of_words(kind):
    known = {e.id: set().union(*map(runs, prose_of(e))) for e in examples_of(kind)}
    shared = [(a, b, known[a] & known[b]) for a, b in combinations(known, 2) if known[a] & known[b]]
    assert shared == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_shows_what_its_rules_ask_for(kind):
    for e in examples_of(kind):
        questions = [*e.demands, *e.demands_minus, *e.bans, *e.bans_minus]
        assert all(question.endswith("?") and 3 <= len(question.split()) <= 25 for question in questions), e.id
        assert len(set(questions) - {*e.bans, *e.bans_minus}) == len({*e.demands, *e.demands_minus}), e.id
        assert e.demands, e.id
        assert e.demands_minus, e.id
        assert e.q_minus.lower() != e.query.lower(), e.id
        assert len({e.p_plus, e.p1_minus, e.p2_minus}) == 3, e.id


def test_programs_of_examples_parse():
    for e in examples_of("code"):
        for text in (e.p_plus, e.p1_minus, e.p2_minus):
            assert list(_code_problems(text, e.language)) == [], e.id


def test_every_file_is_read():
    assert {path.stem for path in _FOLDER.iterdir()} == {"web", "code", "mathematics", "wordings"}


def test_wordings_name_the_kind_of_text_that_they_are_for():
    known = {name_of(d, c): (d, c) for d, conditions in CONDITIONS.items() for c in conditions}
    for number in range(24):
        example = wording_example(number)
        term = re.fullmatch(r'texts that mention "(.+)"', example["property"])
        kind = ("keyword", term[1]) if term else known[example["property"]]
        assert names(*kind, example["condition"]), number
        assert names(*kind, example["reversal"]), number


@pytest.mark.parametrize("kind", KINDS)
def test_instructions_of_examples_are_not_held_for_statements(kind):
    told = [text for e in examples_of(kind) for part in (e.i_plus, e.i_minus) for text in part.values()]
    stating = [text for text in told if _STATES.match(text) and not _ASKS.search(text)]
    assert len(stating) <= 1


def test_reversals_of_wordings_deny():
    for number in range(24):
        assert denies(wording_example(number)["reversal"]), number
        assert not denies_twice(wording_example(number)["reversal"]), number
