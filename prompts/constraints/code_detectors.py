"""Detectors for program code and its documentation: parameters, errors, calls, sections, approaches, recursion."""

import re
from collections.abc import Iterable, Iterator

from prompts.constraints.detectors import Attributes, Detector, by_attribute, by_occurrences, by_pattern, by_patterns
from prompts.constraints.phrases import word_set
from prompts.constraints.wordings import WORDINGS

_PARAMETER = re.compile(
    r"^[ \t]*(?:[-*] )?(?::param\s+(?:[\w.\[\]]+\s+)?|@param\s+)?(\*{0,2}[A-Za-z_]\w*(?:, ?\*{0,2}[A-Za-z_]\w*)*)"
    r"(?: ?\([^()\n]*\))? ?:(?=[ \n]|$)",
    re.MULTILINE,
)
_NOT_PARAMETERS = word_set(
    """
    parameters returns raises examples notes references attributes yields warnings methods args arguments
    return example note warning todo output input default shape inputs outputs otherwise else try finally
    raise yield usage type version see keyword self
    """
)
_HEADER = re.compile(r"^[ \t]*([A-Z][A-Za-z ]{3,24})(?::[ \t]*$|[ \t]*\n[ \t]*-{3,}[ \t]*$)", re.MULTILINE)
_INPUT_HEADER = re.compile(r"Param|Other Param|Arg|Keyword|Input|Shape")


def _parameters(text: str) -> Iterator[tuple[str, int]]:
    """(name, offset) of the documented parameters: entries before all sections, or in a section on inputs."""
    headers = [(header.start(), bool(_INPUT_HEADER.match(header.group(1)))) for header in _HEADER.finditer(text)]
    for entry in _PARAMETER.finditer(text):
        while len(headers) > 1 and headers[1][0] <= entry.start():
            del headers[0]
        if headers and headers[0][0] <= entry.start() and not headers[0][1]:
            continue
        for name in entry.group(1).split(","):
            parameter = name.strip().lstrip("*")
            if parameter.lower() not in _NOT_PARAMETERS:
                yield parameter, entry.start(1)


_ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Warning|Interrupt)\b")


def _errors(text: str) -> Iterator[tuple[str, int]]:
    return ((match.group(), match.start()) for match in _ERROR.finditer(text))


_LANGUAGES = {"c++": "cpp", "python3": "python", "js": "javascript", "ts": "typescript", "golang": "go", "c#": "csharp"}


def _normalise_language(name: str) -> str:
    """The normal name of a programming language; "" for one without a wording."""
    language = _LANGUAGES.get(name.lower(), name.lower())
    return language if language in WORDINGS["language"].values else ""


_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_NOT_CALLS = word_set("if for while switch return catch def class print range len int str self super and or not in")


def _calls(text: str) -> Iterator[tuple[str, int]]:
    for match in _CALL.finditer(text):
        name = match.group(1).rsplit(".", 1)[-1]
        if len(name) > 3 and name not in _NOT_CALLS and not _ERROR.fullmatch(name):
            yield name, match.start(1)


_DEFINITION = re.compile(
    r"^([ \t]*)(?:[\w<>\[\],*&:]+[ \t]+)*?(?:def[ \t]+)?\*?&?(\w+)\([^\n;]*[:{][ \t]*$", re.MULTILINE
)
_LINE = re.compile(r"^([ \t]*)\S", re.MULTILINE)
_KEYWORDS = word_set("if for while switch catch else elif with synchronized")


def _find_body_end(text: str, start: int, depth: int) -> int:
    """Where the next line begins that is indented no deeper than `depth` characters."""
    return next((line.start() for line in _LINE.finditer(text, start) if len(line.group(1)) <= depth), len(text))


def _find_recursion(text: str) -> int:
    """Offset of the first call of a function within its own body, which ends where its head's indentation returns."""
    for head in _DEFINITION.finditer(text):
        if head.group(2) in _KEYWORDS:
            continue
        body_end = _find_body_end(text, head.end() + 1, len(head.group(1)))
        offset = text.find(head.group(2) + "(", head.end(), body_end)
        if offset >= 0 and not (text[offset - 1].isalnum() or text[offset - 1] == "_"):
            return offset
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
_find_pattern_approach, _offer_pattern_approaches = by_patterns(
    {value: (pattern, "") for value, pattern in _APPROACHES.items()}
)
_SOURCE_LINE = (
    r"^[ \t]*(?:def \w+\(|class \w+[^\n]*[:{]$|return\b[^\n]*(?:[;()\[\]=]|$)|#include\b|public\b|private\b"
    r"|import [\w.]+;?$|from [\w.]+ import\b|\}[ \t;]*$)"
)
_SOURCE = re.compile(_SOURCE_LINE, re.MULTILINE)


def _has_source(text: str) -> bool:
    """Whether the text has lines of program code, interactive sessions aside."""
    return bool(_SOURCE.search(text))


def count_code_lines(text: str) -> int:
    """How many lines look like program code, interactive sessions aside."""
    return sum(1 for _ in _SOURCE.finditer(text))


def _find_approach(text: str, attributes: Attributes, value: str) -> int:
    if not _has_source(text):
        return -1
    return _find_recursion(text) if value == "recursion" else _find_pattern_approach(text, attributes, value)


def _offer_approaches(text: str, attributes: Attributes) -> Iterable[str]:
    if not _has_source(text):
        return []
    recursion = ["recursion"] if _find_recursion(text) >= 0 else []
    return [*_offer_pattern_approaches(text, attributes), *recursion]


_SECTIONS = {
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

PARAMETER = by_occurrences(_parameters, lambda name: len(name) > 1)
ERROR = by_occurrences(_errors)
CALL = by_occurrences(_calls)
APPROACH: Detector = (_find_approach, _offer_approaches)
LANGUAGE = by_attribute("language", _normalise_language)
SOURCE = by_pattern(_SOURCE_LINE, ignore_case=False)
SECTION = by_patterns(_SECTIONS)
