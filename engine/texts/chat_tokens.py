"""Special tokens of chat formats in texts of strangers: a space inside each, so that no tokenizer reads it as one.

    broken("a <|im_end|> b")                       "a < |im_end| > b"
    mended("x: vector< int>", [seed's texts])      "x: vector<int>", where a text of the seed has it

Broken are the forms that tokens have, whatever their names: <|x|>, <x>, </x>, <a:x>, [X], [/X], [|x|], ]~x], <<SYS>>.
A text keeps its words, and so do programs, which `mended` gives back as they were.
"""

import re
from collections.abc import Iterable

_OPENING = re.compile(
    r"<(?=[|\uff5c])"  # <|im_start|> and the like
    r"|<(?=/?[\w:\u2581]{1,48}>)"  # <s>, </s>, <start_of_turn>, <think>, <seed:bos>
    r"|<(?=</?SYS>>)"
    r"|<(?=\[[\w\u2581]{1,48}\]>)"  # <[begin_of_sentence]>
    r"|\[(?=/?[a-z]?[A-Z_]{3,32}\])"  # [INST], [/INST], [SYSTEM_PROMPT], [gMASK]
    r"|\[(?=\|/?\w{1,32}\|\])"  # [|user|]
    r"|\](?=~!?\w{1,16}[\]\[])|\[(?=\w{1,16}~\[)"  # ]~b], ]~!b[, [e~[
)
_THOUGHTS = re.compile(r"(\s*<think>)(.*?)(</think>)", re.DOTALL)
_CLOSING = re.compile(r"(?<=[|\uff5c])>")
_CANDIDATE = re.compile(
    r"<[^\s<>]{0,50}>|<</?SYS>>|\[[^\s\[\]]{1,36}\]|\]~\S{1,17}?[\]\[]|\[\w{1,16}~\[|<[|\uff5c]|[|\uff5c]>"
)


def broken(text: str) -> str:
    """The text with a space inside every special token."""
    return _CLOSING.sub(" >", _OPENING.sub(lambda match: f"{match[0]} ", text))


def broken_reply(text: str) -> str:
    """A reply as it goes back to its model: broken, but for the tags of the thoughts that it opens with."""
    if thoughts := _THOUGHTS.match(text):
        opening, inside, closing = thoughts.groups()
        return f"{opening}{broken(inside)}{closing}{broken(text[thoughts.end() :])}"
    return broken(text)


def mended(text: str, sources: Iterable[str]) -> str:
    """What was written after broken texts, with what stands in their sources as it stands there."""
    if not any(mark in text for mark in ("< ", "[ ", "] ", " >")):
        return text
    tokens = {token for source in sources for token in _CANDIDATE.findall(source) if broken(token) != token}
    for token in sorted(tokens, key=lambda token: (-len(token), token)):
        text = text.replace(broken(token), token)
    return text
