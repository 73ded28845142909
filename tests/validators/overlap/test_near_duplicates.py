"""Groups of near-duplicates: who belongs together, how many words are equal, and what has no words."""

from foil.validators.overlap.duplicates import group_texts

TEXT = "the kite is built from two spars and one sail of paper and a long tail keeps it steady in the wind of March"


def test_near_texts_form_a_group_and_others_do_not():
    near = TEXT.replace("March", "April")
    other = "a paper lamp burns for nine hours on one small candle and must never be left alone in a room at night"
    [group] = group_texts([other, TEXT, "", near, TEXT, "?!"])
    assert (group.first, group.members, group.size, group.exact) == (1, (3, 4), 3, 1)


def test_the_largest_group_comes_first():
    many = [f"{TEXT} and so on" for _ in range(3)]
    groups = group_texts(["a lamp for reading", "a lamp for reading", *many])
    assert [(group.first, group.size) for group in groups] == [(2, 3), (0, 2)]


def test_no_text_no_group():
    assert group_texts([]) == []
