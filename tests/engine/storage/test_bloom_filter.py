"""The filter of a pack's ids: no text of the set is missed, few others are found, and a changed block is told."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.storage import bloom_filter


def asks(raw: bytes, text: str) -> bool:
    begin = bloom_filter.offset(text, len(raw))
    return bloom_filter.may_hold(raw[begin : begin + bloom_filter.BLOCK_BYTES], text)


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]))))
def test_every_text_of_the_set_is_found_and_its_order_changes_nothing(texts):
    raw = bloom_filter.encode(texts)
    assert len(raw) % bloom_filter.BLOCK_BYTES == 0
    assert all(asks(raw, text) for text in texts)
    assert bloom_filter.encode([*reversed(list(texts)), *texts]) == raw


def test_two_bytes_a_text_leave_about_one_other_in_a_thousand():
    rng = random.Random(0)
    names = [f"{rng.getrandbits(96):024x}" for _ in range(60_000)]
    raw = bloom_filter.encode(names[:20_000])
    assert len(raw) < 2.2 * 20_000
    found = sum(asks(raw, name) for name in names[20_000:])
    assert 0 < found < 40_000 * 0.002


@pytest.mark.parametrize("flipped", [0, 59, 60, 63])
def test_a_changed_or_cut_block_is_no_answer(flipped):
    block = bytearray(bloom_filter.encode(["abc"]))
    block[flipped] ^= 4
    with pytest.raises(ValueError, match="CRC"):
        bloom_filter.may_hold(bytes(block), "abc")
    with pytest.raises(ValueError, match="0 bytes"):
        bloom_filter.may_hold(b"", "abc")
