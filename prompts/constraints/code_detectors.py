"""Finders for program code and its documentation: parameters, errors, calls, sections, approaches, recursion."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prompts.constraints.detectors import Attributes, Finding, by_patterns
from prompts.constraints.phrases import words
from prompts.constraints.wordings import SHOWN

_PARAMETER = re.compile(
    r"^[ \t]*(?:[-*] )?(?::param\s+(?:[\w.\[\]]+\s+)?|@param\s+)?(\*{0,2}[A-Za-z_]\w*(?:, ?\*{0,2}[A-Za-z_]\w*)*)"
    r"(?: ?\([^()\n]*\))? ?:(?=[ \n]|$)",
    re.MULTILINE,
)
_NOT_PARAMETERS = words(
    """
    parameters returns raises examples notes references attributes yields warnings methods args arguments
    return example note warning todo output input default shape inputs outputs otherwise else try finally
    raise yield usage type version see keyword self
    """
)


_PART = re.compile(r"^[ \t]*([A-Z][A-Za-z ]{3,24})(?::[ \t]*$|[ \t]*\n[ \t]*-{3,}[ \t]*$)", re.MULTILINE)
_TAKES = re.compile(r"Param|Other Param|Arg|Keyword|Input|Shape")


def _parameters(text: str) -> Iterable[tuple[str, int]]:
    """(name, offset) of the documented parameters: entries outside all sections, or in one of what is passed."""
    parts = [(m.start(), bool(_TAKES.match(m.group(1)))) for m in _PART.finditer(text)]
    for found in _PARAMETER.finditer(text):
        while len(parts) > 1 and parts[1][0] <= found.start():
            del parts[0]
        if parts and parts[0][0] <= found.start() and not parts[0][1]:
            continue
        for name in found.group(1).split(","):
            bare = name.strip().lstrip("*")
            if bare.lower() not in _NOT_PARAMETERS:
                yield bare, found.start(1)


def _find_parameter(text: str, _: Attributes, value: str) -> int:
    return next((at for name, at in _parameters(text) if name == value), -1)


def _offer_parameters(text: str, _: Attributes) -> Iterable[str]:
    return dict.fromkeys(name for name, _at in _parameters(text) if len(name) > 1)


_ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Warning|Interrupt)\b")


def _find_error(text: str, _: Attributes, value: str) -> int:
    return next((m.start() for m in _ERROR.finditer(text) if m.group() == value), -1)


def _offer_errors(text: str, _: Attributes) -> Iterable[str]:
    return dict.fromkeys(m.group() for m in _ERROR.finditer(text))


_LANGUAGES = {"c++": "cpp", "python3": "python", "js": "javascript", "ts": "typescript", "golang": "go", "c#": "csharp"}


def language_of(name: str) -> str:
    """The normal name of a programming language; "" for one that no constraint knows."""
    known = _LANGUAGES.get(name.lower(), name.lower())
    return known if known in SHOWN["language"] else ""


_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_NOT_CALLS = words(
    """
    if for while switch return catch def class print range len int str self super and or not in
    """
)


def _calls(text: str) -> Iterable[tuple[str, int]]:
    for found in _CALL.finditer(text):
        name = found.group(1).rsplit(".", 1)[-1]
        if len(name) > 3 and name not in _NOT_CALLS and not _ERROR.fullmatch(name):
            yield name, found.start(1)


def _find_call(text: str, _: Attributes, value: str) -> int:
    return next((at for name, at in _calls(text) if name == value), -1)


def _offer_calls(text: str, _: Attributes) -> Iterable[str]:
    return dict.fromkeys(name for name, _at in _calls(text))


_DEFINITION = re.compile(
    r"^([ \t]*)(?:[\w<>\[\],*&:]+[ \t]+)*?(?:def[ \t]+)?\*?&?(\w+)\([^\n;]*[:{][ \t]*$", re.MULTILINE
)
_LINE = re.compile(r"^([ \t]*)\S", re.MULTILINE)
_KEYWORDS = words("if for while switch catch else elif with synchronized")


def _end_of_body(text: str, start: int, depth: int) -> int:
    """Where the next line begins that is indented no deeper than `depth` characters."""
    return next((m.start() for m in _LINE.finditer(text, start) if len(m.group(1)) <= depth), len(text))


def _find_recursion(text: str) -> int:
    """Offset of the first call of a function within its own body, which ends where its head's indentation returns."""
    for head in _DEFINITION.finditer(text):
        call = head.group(2) + "("
        if head.group(2) in _KEYWORDS:
            continue
        at = text.find(call, head.end(), _end_of_body(text, head.end() + 1, len(head.group(1))))
        if at >= 0 and not (text[at - 1].isalnum() or text[at - 1] == "_"):
            return at
    return -1


_APPROACHES = {
    "hash map": r"\b(?:dict\(|defaultdict|Counter\(|HashMap|unordered_map|TreeMap|new Map\()|= \{\}|\bmap<",
    "set": r"\bset\(|\bHashSet\b|\bunordered_set\b|\bnew Set\(|\bTreeSet\b|\bset<",
    "sorting": r"\bsorted\(|\.sort\(|\bsort\(",
    "heap": r"\bheapq\b|\bheappush\b|\bheapify\b|\bPriorityQueue\b|\bpriority_queue\b",
    "queue": r"\bdeque\b|\bArrayDeque\b|\bQueue<|\bqueue<",
    "stack": r"\bstack\b|\bStack<|\bstk\b",
    "dynamic programming": r"\bdp\b|\bmemo\w*|@cache\b|\blru_cache\b",
    "binary search": r"\bbisect\w*|\blower_bound\b|\bupper_bound\b|\bbinarySearch\b|\bmid\b",
    "bit manipulation": r"\^|<<=?[ ]*\w|>>=?[ ]*\d|\bbit_count\b|\bbitCount\b|\bpopcount\w*",
    "two pointers": r"\bwhile\b[ (]*(?:l|left|lo|low|i|slow)[ ]*<=?[ ]*(?:r|right|hi|high|j|fast)\b",
    "loop": r"^[ \t]*(?:for|while)\b",
    "string building": r"\bStringBuilder\b|\.join\(|\bstringstream\b",
}
_find_pattern_approach, _offer_pattern_approaches = by_patterns({k: (p, "") for k, p in _APPROACHES.items()})
SOURCE = (
    r"^[ \t]*(?:def \w+\(|class \w+[^\n]*[:{]$|return\b[^\n]*(?:[;()\[\]=]|$)|#include\b|public\b|private\b"
    r"|import [\w.]+;?$|from [\w.]+ import\b|\}[ \t;]*$)"
)
_SOURCE = re.compile(SOURCE, re.MULTILINE)


def is_source(text: str) -> bool:
    """Whether the text has lines of program code outside an interactive session."""
    return bool(_SOURCE.search(text))


def code_lines(text: str) -> int:
    """How many lines look like program code outside an interactive session."""
    return sum(1 for _ in _SOURCE.finditer(text))


def _find_approach(text: str, attributes: Attributes, value: str) -> int:
    if not is_source(text):
        return -1
    return _find_recursion(text) if value == "recursion" else _find_pattern_approach(text, attributes, value)


def _offer_approaches(text: str, attributes: Attributes) -> Iterable[str]:
    if not is_source(text):
        return []
    recursion = ["recursion"] if _find_recursion(text) >= 0 else []
    return [*_offer_pattern_approaches(text, attributes), *recursion]


SECTIONS = {
    name: (
        rf"^[ \t]*(?:#+ )?(?:{spelling})(?::[ \t]*$|[ \t]*\n[ \t]*[-=~^]{{3,}}[ \t]*$)",
        spelling.rstrip("?s").lower(),
    )
    for name, spelling in {
        "parameters": "Parameters|Other Parameters|Args|Arguments|Keyword args|Keyword Arguments",
        "returns": "Returns?",
        "raises": "Raises",
        "examples": "Examples?",
        "notes": "Notes?",
        "see also": "See [Aa]lso",
        "references": "References?",
        "attributes": "Attributes",
        "yields": "Yields",
        "warnings": "Warnings?",
        "methods": "Methods",
    }.items()
}
"""Patterns of the headers of documentation sections, numpy's and Google's."""

PARAMETER: Finding = (_find_parameter, _offer_parameters)
ERROR: Finding = (_find_error, _offer_errors)
CALL: Finding = (_find_call, _offer_calls)
APPROACH: Finding = (_find_approach, _offer_approaches)
