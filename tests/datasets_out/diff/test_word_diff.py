"""Word diffs: what the spans add up to, what is marked, and how long texts are cut."""

import time

from hypothesis import given
from hypothesis import strategies as st

from foil.datasets_out.diff.word_diff import Span, likeness, mark_unshared, plain, shorten, word_diff

TEXTS = st.text(alphabet="ab .,\n漢字", max_size=60)


@given(TEXTS, TEXTS)
def test_spans_add_up_to_the_new_text_and_lose_no_word_of_the_old(old, new):
    spans = word_diff(old, new)
    assert "".join(span.text for span in spans if span.mark != "removed") == new
    kept = "".join(span.text for span in spans if span.mark != "added")
    assert kept.split() == old.split() or "".join(kept.split()) == "".join(old.split())
    assert "".join(span.text for span in mark_unshared(new, old)) == new


def test_a_changed_word_is_marked_and_nothing_else():
    old, new = "It was added in 2001 by the team.", "It was added in 2002 by the team."
    assert word_diff(old, new) == (
        Span("same", "It was added in "),
        Span("removed", "2001 "),
        Span("added", "2002 "),
        Span("same", "by the team."),
    )
    assert mark_unshared(new, old) == (
        Span("same", "It was added in "),
        Span("unshared", "2002 "),
        Span("same", "by the team."),
    )


def test_one_sign_of_chinese_is_a_word():
    assert Span("added", "后") in word_diff("二十年前他来了这里", "二十年后他来了这里")


def test_words_that_agree_by_chance_between_changes_are_part_of_the_change():
    marks = [span.mark for span in word_diff("one two of three four", "five six of seven eight")]
    assert marks == ["removed", "added"]


def test_likeness_orders_texts():
    assert likeness("a b c", "a b c") == 1 > likeness("a b c", "a b d") > likeness("a b c", "x y z") == 0


def test_a_long_text_is_cut_and_says_by_how_much():
    (kept, omitted) = shorten(plain("x" * 1_000_000), 100)
    assert kept == Span("same", "x" * 100)
    assert omitted == Span("omitted", " … 999,900 more characters")


def test_a_long_edit_keeps_what_changed():
    text = "word " * 2000
    spans = shorten(word_diff(text + "old end", text + "new end"), 400)
    assert [span.mark for span in spans] == ["omitted", "same", "removed", "added", "same"]
    assert "9,880 characters" in spans[0].text


def test_a_megabyte_without_a_common_word_is_compared_in_time():
    start = time.process_time()
    spans = word_diff("a b " * 250_000, "c d " * 250_000)
    assert [span.mark for span in spans] == ["removed", "added"]
    assert time.process_time() - start < 10
