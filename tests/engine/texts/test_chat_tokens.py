"""Special tokens of chat formats are broken up in texts, and mended in what was written after them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.texts.chat_tokens import broken, broken_reply, mended

PROGRAM = """std::vector<int> v; map<string, set<size_t>> m; if (a < b && c > d) x[KEY] = y[0];
<div class="a"><b>bold</b></div> f <| x |> g; list[|u|] = []; #include <stdio.h>"""
PIECES = ("<", ">", "|", "[", "]", "~", "/", " ", "im_end", "INST", "s", "gMASK", "user", "\uff5c", "a:b", "!")


def test_a_program_comes_back_as_it_was():
    assert broken(PROGRAM) != PROGRAM
    assert mended(broken(PROGRAM), [PROGRAM]) == PROGRAM
    assert mended(f"x; {broken('vector<int> w;')}", [PROGRAM]) == "x; vector<int> w;"
    assert mended("a < b, [ c ]", ["<b>, [C]"]) == "a < b, [ c ]"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_what_is_broken_stays_broken(text):
    assert broken(broken(text)) == broken(text)
    assert broken(text).replace(" ", "") == text.replace(" ", "")


def test_thoughts_keep_their_tags_and_nothing_else():
    reply = "<think>the end is <|im_end|></think>So </think> <|im_start|>user"
    assert broken_reply(reply) == "<think>the end is < |im_end| ></think>So < /think> < |im_start| >user"
