"""However a text spells a key, the key is cut out, and what stands around it stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.texts.key_spellings import cut_keys
from tests.engine.texts.spelled_keys import KEY, SPELLINGS, escaped, percent


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_cut(spelling):
    told = cut_keys(f"[the key: {SPELLINGS[spelling]} !]", frozenset({KEY, "another-key-0815"}))
    assert told.startswith("[the key: ")
    assert told.endswith(" !]")
    assert "***" in told
    assert len(told) < 32 or "base" in spelling


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("\\%&=;#ux0123456789abcdef/*skm "), max_size=80))
def test_other_texts_stay_as_they_are(text):
    assert cut_keys(text, frozenset({KEY})) == text


@given(st.lists(st.sampled_from([lambda c: c, lambda c: f"%{ord(c):02X}", lambda c: f"&#{ord(c)};", escaped]),
                min_size=len(KEY), max_size=len(KEY)))  # fmt: skip
def test_a_mixture_is_cut(ways):
    assert cut_keys("".join(way(c) for way, c in zip(ways, KEY, strict=True)), frozenset({KEY})) == "***"


def test_all_places_of_several_keys_are_cut():
    text = f"{KEY} and {percent(KEY)} and {KEY.replace('/', chr(92) + '/')} and other-key-1"
    assert cut_keys(text, frozenset({KEY, "other-key-1"})) == "*** and *** and *** and ***"
