"""Blocks to passages: full to a number of words, never across a heading, cut between sentences alone."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from foil.engine.seeds.documents.blocks import DocumentBlock
from foil.engine.texts.words import PROSE_END
from foil.engine.topic import Passage

_WHOLE_FITS = 2
"""A code block or a table stays whole up to so many times the words of a passage; so does a last rest."""
_REST = 1 / 3
"""Share of a passage's words below which the rest of a section goes to the passage before it."""
_CHARACTERS_A_WORD = 12
"""A text without blanks, as Chinese is written, has at least a word for so many bytes."""


def count_words(text: str) -> int:
    """The words of a text; of one without blanks, an estimate."""
    return max(len(text.split()), len(text.encode()) // _CHARACTERS_A_WORD)


def cut_into_passages(blocks: Iterable[DocumentBlock], words: int) -> Iterator[Passage]:
    """Passages of about so many words, titled by the headings above them."""
    for headings, section in groupby(blocks, key=lambda block: block.headings):
        for pieces in _filled(section, words):
            text = "".join(pieces).strip()
            form = {"form": "documentation"} if "```" in text else {}
            yield Passage(text, "seed_positive", title=": ".join(headings), attributes=form)


def _filled(section: Iterable[DocumentBlock], words: int) -> list[list[str]]:
    """The pieces of a section by passage; each but a passage's first begins with the white space before it."""
    passages: list[list[str]] = []
    count = 0
    for piece in (piece for block in section for piece in _pieces(block, words)):
        size = count_words(piece)
        if not passages or count + size > words:
            passages.append([])
            count = 0
        passages[-1].append(piece)
        count += size
    if len(passages) > 1 and count < _REST * words:
        rest = passages.pop()
        passages[-1] += rest
    return passages


def _pieces(block: DocumentBlock, words: int) -> Iterator[str]:
    """What of a block may not be cut: its sentences, or the whole of code and tables; else its lines."""
    if block.whole and count_words(block.text) <= _WHOLE_FITS * words:
        yield f"\n\n{block.text}"
        return
    parts = block.text.splitlines() if block.whole else list(_sentences(block.text))
    joint = "\n" if block.whole else " "
    for number, part in enumerate(each for long in parts for each in _fitting(long, words)):
        yield f"{joint if number else chr(10) * 2}{part}"


def _sentences(text: str) -> Iterator[str]:
    begin = 0
    for match in PROSE_END.finditer(text):
        yield text[begin : match.end()].strip()
        begin = match.end()
    yield text[begin:]


def _fitting(sentence: str, words: int) -> Iterator[str]:
    """The sentence; one that is far too long in parts of so many words."""
    if count_words(sentence) <= _WHOLE_FITS * words:
        yield sentence
        return
    step = _CHARACTERS_A_WORD * words // 3
    parts = (
        sentence.split(" ") if " " in sentence else [sentence[at : at + step] for at in range(0, len(sentence), step)]
    )
    size = words if " " in sentence else 1
    for at in range(0, len(parts), size):
        yield " ".join(parts[at : at + size])
