"""Keys of texts, which samples and splits are drawn by: they never change."""

from foil.engine.texts.words import text_key


def test_a_key_is_that_of_the_letters_and_of_the_kind():
    assert text_key("A  b") == text_key(" a B\n") == -4956248061423126232
    assert text_key("a b", kind="query") == -3488635375961978368
    assert text_key("a b", kind="query") != text_key("a b", kind="passage")


def test_no_text_has_the_key_0_and_one_of_a_kind_has_its_own():
    assert (text_key(" "), text_key("", kind="query")) == (0, 1552683686979308890)
