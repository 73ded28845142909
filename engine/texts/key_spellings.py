"""The ways in which a text can spell a key: plainly, encoded as a whole, or with characters escaped.

    cut_keys("the key is c2stY2FuYXJ5...", keys)    "the key is ***"

Encoded are base64, base32 and hex, whatever stands around the key, the key from behind, and rot13. Escapes are those of
JSON and source code, percent, HTML and quoted-printable, in any mixture, and in one another to `_DEPTH`.
Price: one search a text, and one more for each depth to which it is escaped.
"""

import codecs
import re
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from html.entities import html5

_CUT = "***"
_DEPTH = 4
_ESCAPE = re.compile(
    r"\\\\*(?:u00([0-9a-f]{2})|u\{0*([0-9a-f]{2})\}|x([0-9a-f]{2})|([0-7]{3})|([!-~]))"
    r"|%(?:25)*([0-9a-f]{2})|=([0-9a-f]{2})"
    r"|&(?:#x0*([0-9a-f]{2});?|#0*([0-9]{2,3});?|([a-z]{2,12});)",
    re.IGNORECASE,
)
_BASES = (16, 16, 16, 8, 0, 16, 16, 16, 10, 1)
"""In which base each group of `_ESCAPE` tells a character; 0 is the character itself, 1 the name of one."""


def cut_keys(text: str, keys: frozenset[str]) -> str:
    """The text with *** for every spelling of the keys."""
    spellings = _spellings(keys)
    plain, origin = text, list(range(len(text) + 1))
    for _ in range(_DEPTH + 1):
        if any(spelling in plain for spelling in spellings):
            matches = _pattern(keys).finditer(plain)
            return cut_keys(_cut(text, [(origin[match.start()], origin[match.end()]) for match in matches]), keys)
        if not _ESCAPE.search(plain):
            break
        plain, origin = _unescaped(plain, origin)
    return text


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start] + _CUT + text[end:]
    return text


def _unescaped(text: str, origin: list[int]) -> tuple[str, list[int]]:
    """The text with its escapes taken away, and where each of its characters began; the end of the text is the last."""
    pieces, origins, end = [], list[int](), 0
    for match in _ESCAPE.finditer(text):
        character = _character(match)
        pieces += [text[end : match.start()], character]
        origins += [*origin[end : match.start()], *[origin[match.start()]] * len(character)]
        end = match.end()
    return "".join([*pieces, text[end:]]), [*origins, *origin[end:]]


def _character(match: re.Match[str]) -> str:
    group = int(match.lastindex or 0)
    code, base = match[group], _BASES[group - 1]
    if base == 1:
        return html5.get(f"{code};", match[0])
    return chr(int(code, base)) if base else code


@lru_cache(maxsize=64)
def _spellings(keys: frozenset[str]) -> tuple[str, ...]:
    """What no text may hold, the longest first."""
    return _longest_first({*_whole(keys), *_in_bases(keys)})


@lru_cache(maxsize=64)
def _pattern(keys: frozenset[str]) -> re.Pattern[str]:
    """The spellings; of base64 and base32 with the character on each side, which holds some bits of the key."""
    whole, based = ("|".join(map(re.escape, _longest_first(each))) for each in (_whole(keys), _in_bases(keys)))
    return re.compile(rf"{whole}|[\w+/-]?(?:{based})[\w+/-]?={{0,6}}")


def _longest_first(spellings: set[str]) -> tuple[str, ...]:
    return tuple(sorted(spellings, key=lambda spelling: (-len(spelling), spelling)))


def _whole(keys: frozenset[str]) -> set[str]:
    hexes = {key.encode().hex() for key in keys}
    return (
        {s for key in keys for s in (key, key[::-1], codecs.encode(key, "rot13"))} | hexes | set(map(str.upper, hexes))
    )


def _in_bases(keys: frozenset[str]) -> set[str]:
    bases = ((b64encode, 3, 6), (urlsafe_b64encode, 3, 6), (b32encode, 5, 5))
    return {core for key in keys for base in bases for core in _cores(*base, key.encode())}


def _cores(encode: Callable[[bytes], bytes], group: int, bits: int, data: bytes) -> set[str]:
    """The characters that tell the data and nothing else, for each place in a group where it may begin."""
    cores = set()
    for shift in range(group):
        whole = encode(b"\0" * shift + data).decode()
        cores.add(whole[-(-8 * shift // bits) : 8 * (shift + len(data)) // bits])
    return cores
