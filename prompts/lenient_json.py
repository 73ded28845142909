r"""JSON objects with the slips that models make: read where one reading is left, and never guessed at.

    {"text": "fine",}              a comma before an end
    {“text”: “fine”}               curly quotes, single quotes
    {"text": "two
    lines"}                        a raw line break
    {'open': None}                 the constants of Python
    "{\"text\": \"fine\"}"       an object within a text

An object that was cut, or a text whose quotes are not escaped, stays unreadable: closing it would make up what nobody
wrote. Price: each character of a few objects is read twice.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_MOST_TRIES = 32
_MOST_WORK = 1_000_000
"""Characters that may be read, since one text can be read from each of its braces on."""
_BEGIN = re.compile(r"""\{(?=\s*["“”„'])""")
_TOKEN = re.compile(
    r"""(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")|"""
    r"""(?P<other_quotes>[“”„][^“”„\\]*(?:\\.[^“”„\\]*)*[“”]|'[^'\\]*(?:\\.[^'\\]*)*'(?=\s*[,:}\]]))|"""
    r"""(?P<extra_comma>,(?=\s*[}\]]))|(?P<open>[{\[])|(?P<end>[}\]])|(?P<word>\w+)|(?P<blank>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def lenient_objects(text: str) -> list[dict[str, Any]]:
    """The outermost objects of a text, in order, those mended that need it.

    >>> lenient_objects("Here: {'text': 'fine', 'is': [True,],}")
    [{'text': 'fine', 'is': [True]}]
    """
    return list(_objects(_unquoted(text)))


def _unquoted(text: str) -> str:
    """The text within a JSON string, where the whole is one."""
    stripped = text.strip()
    if stripped[:1] == stripped[-1:] == '"':
        try:
            return str(json.loads(stripped, strict=False))
        except ValueError:
            pass
    return text


def _objects(text: str) -> Iterator[dict[str, Any]]:
    end = work = 0
    for start in [match.start() for match in _BEGIN.finditer(text)][-_MOST_TRIES:]:
        if start < end or work > _MOST_WORK:
            continue
        mended, read_to = _mended(text, start)
        work += read_to - start
        try:
            value = json.loads(mended, strict=False)
        except (ValueError, RecursionError):
            continue
        end = read_to
        yield value


def _mended(text: str, start: int) -> tuple[str, int]:
    """The object that begins here, as JSON, and where it ends; nothing where it never does."""
    parts, depth = list[str](), 0
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup
        depth += (kind == "open") - (kind == "end")
        if kind == "word":
            parts.append(_CONSTANTS.get(token.group(), token.group()))
        elif kind != "extra_comma":
            parts.append(_string(token.group()[1:-1]) if kind == "other_quotes" else token.group())
        if not depth:
            return "".join(parts), token.end()
    return "", len(text)


def _string(inner: str) -> str:
    """A text between other quotes as a JSON string; its escapes stay what they are."""
    bare = inner.replace("\\'", "'")
    return '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', bare) + '"'
