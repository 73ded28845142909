"""TREC's markup in one pass: what the plain patterns find, in time that is linear in the text."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.seeds.trec import _element_texts, _remove_elements, _strip_markup, read_documents
from tests.support.fuzzing import fuzzed

PIECES = st.lists(
    st.sampled_from(
        [
            "<text>",
            "</text>",
            "<TEXT a>",
            "</Text>",
            "<lp>",
            "</LP>",
            "<text",
            "<!--",
            "-->",
            "<p>",
            ">",
            "<",
            "-",
            "a",
            " ",
            "\n",
        ]
    ),
    max_size=14,
).map("".join)
TAGS = ("lp", "text")
ELEMENT = re.compile(r"<(lp|text)\b[^<>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
MARKUP = re.compile(r"<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL)


@fuzzed(400)
@given(PIECES)
def test_one_pass_finds_what_the_patterns_find(text: str) -> None:
    assert _element_texts(text, TAGS) == [match[2] for match in ELEMENT.finditer(text)]
    assert _remove_elements(text, TAGS) == ELEMENT.sub(" ", text)
    assert _strip_markup(text) == MARKUP.sub(" ", text)


@pytest.mark.parametrize("piece", ["<TEXT>", "<!--", "<docno>", "<a ", "<title>", "<TEXT></lp>", "<p", "--><!--"])
def test_a_document_of_unclosed_tags_is_read_at_once(tmp_path: Path, piece: str) -> None:
    (tmp_path / "a.sgml").write_text("<DOC>\n<DOCNO> D1 </DOCNO>\n" + piece * 100_000 + "</DOC>\n")
    start = time.monotonic()
    list(read_documents(tmp_path / "a.sgml", 8 << 20))
    assert time.monotonic() - start < 5
