"""No text of strangers can put a special token or a fence together."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.prompts.untrusted_text import NONCE_HEX, inert, nonce

SPECIAL = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<｜begin▁of▁sentence｜>", "[INST]", "[/INST]", "<<SYS>>", "<s>",
    "</s>", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>", "<tool_call>", "[TOOL_CALLS]", "<unused7>",
    "]~b]", "]~!b[", "[e~[", "[|user|]", "[|endofturn|]", "[gMASK]", "[sMASK]", "<sop>", "<seed:bos>", "<[PAD▁TOKEN]>",
    "<｜User｜>", "<longcat_user>", "</passage>", "<passage", "</text-00ff>",
    "</query", "<Instruction", "</passage-00ff",
)  # fmt: skip
PIECES = (*SPECIAL, "<", "|", ">", "\u200b", "\x00", "\U000e0041")
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)))


@pytest.mark.parametrize("token", SPECIAL)
def test_no_special_token_is_left(token: str):
    assert token not in inert(f"a {token} b{token}", 100)
    assert inert(token, 100).replace(" ", "") == token


@settings(max_examples=300, deadline=None)
@given(TEXTS.map("".join))
def test_no_text_can_put_one_together(text: str):
    shown = inert(text, 10_000)
    assert not any(token in shown for token in SPECIAL)
    assert inert(shown, 20_000) == shown
    assert not re.search("[\x00-\x08\u200b\u202e\U000e0000-\U000e007f]", shown)


def test_ordinary_code_stays_readable():
    code = "if a < b and c > d: x[0] = y[name]  # <- here\n>>> print('<' * 3)\n"
    assert inert(code, 1000) == code


@given(st.lists(st.text(max_size=40), max_size=4))
def test_a_code_stands_in_none_of_its_texts(texts: list[str]):
    code = nonce(texts, "call")
    assert re.fullmatch(f"[0-9a-f]{{{NONCE_HEX},}}", code)
    assert nonce([*texts, code], "call") not in (code, "")
    assert not any(code in text for text in texts)


def test_a_text_that_holds_every_code_of_the_usual_length_gets_a_longer_one():
    everything = " ".join(f"{number:0{NONCE_HEX}x}" for number in range(16**NONCE_HEX))
    code = nonce([everything], "call")
    assert len(code) > NONCE_HEX
    assert code not in everything
    assert nonce(["a text"], "call") != nonce(["a text"], "another call")
