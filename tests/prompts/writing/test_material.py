"""A seed as the writing stages see it: what is cut, what is left out, what is marked, and what is drawn."""

from dataclasses import replace

import pytest

from foil.engine.errors import Rejected
from foil.engine.topic import Passage
from foil.prompts.passages.seed_material import distinct
from foil.prompts.writing.material import cut_passage, writing_material
from tests.support.topics.sample_seeds import SEEDS
from tests.support.topics.trades import trade_seeds

SEED = trade_seeds()[0]
BROKEN_PAGE = "HOME | NEWS | SHOP | LOGIN | CART | HELP | FAQ | RSS\n" * 6


def material(seed=SEED, chars=2_000):
    return writing_material(seed, passage_chars=chars)


@pytest.mark.parametrize(("change", "reason"), [({"query": " "}, "empty_query"), ({"positives": ()}, "no_positive")])
def test_seeds_that_lack_something_are_rejected(change, reason):
    with pytest.raises(Rejected) as refused:
        material(replace(SEED, **change))
    assert refused.value.reason == reason


def test_long_prose_is_cut_at_a_sentence_and_says_so():
    first = SEED.positives[0]
    cut = material(chars=200).positive
    assert cut.text.endswith(".")
    assert first.text.startswith(cut.text)
    assert len(cut.text) <= 200
    assert cut.edited_from == first.id
    assert cut.title == first.title
    assert cut_passage(first, 10_000) is first
    assert len(cut_passage(replace(first, text="x" * 500), 200).text) == 200


def test_code_is_left_out_where_it_is_too_long():
    seed = SEEDS["leetcode"]
    long = replace(seed.positives[0], text=seed.positives[0].text + "\n# " + "x" * 5_000)
    assert material(replace(seed, positives=(long, *seed.positives))).positive == seed.positives[0]
    with pytest.raises(Rejected) as refused:
        material(replace(seed, positives=(long,)))
    assert refused.value.reason == "too_long"


def test_a_text_that_reads_like_a_broken_page_comes_last_and_is_marked_where_it_is_the_only_one():
    page = Passage(BROKEN_PAGE, "seed_positive")
    both = material(replace(SEED, positives=(page, SEED.positives[0])))
    assert (both.positive.id, both.marks) == (SEED.positives[0].id, frozenset())
    assert material(replace(SEED, positives=(page,))).marks == {"unreadable"}


def test_passages_stand_once_and_an_instruction_negative_is_no_negative():
    twice = (*SEED.positives, replace(SEED.positives[0], source_id="again"))
    excluded = replace(SEED.negatives[0], role="instruction_negative")
    made = material(replace(SEED, positives=twice, negatives=(excluded, SEED.negatives[1])))
    assert [p.text for p in made.positives] == [p.text for p in SEED.positives]
    assert [p.text for p in made.negatives] == [SEED.negatives[1].text]
    assert distinct([Passage(" ", "seed_positive")]) == []


def test_each_kind_has_its_noun_and_code_its_language():
    code, mathematics = material(SEEDS["leetcode"]), material(SEEDS["metamath"])
    assert (material().noun, code.noun, mathematics.noun) == ("passage", "program", "worked solution")
    assert (material().language, mathematics.language) == ("", "")
    assert code.language == SEEDS["leetcode"].positives[0].attributes["language"]


def test_numbers_follow_from_the_seed_and_the_purpose_alone():
    assert material().number("a") == material(replace(SEED, query="another"), chars=300).number("a")
    assert material().number("a") != material().number("b") != material(trade_seeds()[1]).number("b")
    assert 0 <= material().number("a") < 2**64
