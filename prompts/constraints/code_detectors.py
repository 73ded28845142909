"""Detectors for program code and its documentation: parameters, errors, calls, sections, approaches, recursion."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from foil.engine.texts.words import word_set
from foil.prompts.constraints.detectors import Attributes, Detector, by_attribute, by_occurrences, by_patterns
from foil.prompts.constraints.source_code import GRAMMARS, SourceFacts, facts_of, facts_of_examples, language_of
from foil.prompts.constraints.wordings import WORDINGS

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


_DESCRIPTION_WORDS = 4
"""Of the entry of a parameter, at least: with fewer it is listed and not explained."""


def _parameters(text: str) -> Iterator[tuple[str, int]]:
    """(name, offset) of the explained parameters: entries before all sections, or in a section on inputs."""
    headers = [(header.start(), bool(_INPUT_HEADER.match(header.group(1)))) for header in _HEADER.finditer(text)]
    entries = list(_PARAMETER.finditer(text))
    ends = sorted([len(text), *(start for start, _ in headers), *(entry.start() for entry in entries)])
    for entry in entries:
        if not _explains(text, entry, ends[bisect_right(ends, entry.start())]):
            continue
        while len(headers) > 1 and headers[1][0] <= entry.start():
            del headers[0]
        in_section = bool(headers) and headers[0][0] <= entry.start()
        if in_section and not headers[0][1]:
            continue
        for name in entry.group(1).split(","):
            parameter = name.strip().lstrip("*")
            if parameter.lower() not in _NOT_PARAMETERS and (in_section or parameter[:1].islower()):
                yield parameter, entry.start(1)


def _explains(text: str, entry: re.Match[str], end: int) -> bool:
    """Whether words follow that tell more than the type, which numpy's form has behind ` :` on the first line."""
    words = text[entry.end() : end]
    if entry.group().endswith(" :"):
        words = words.partition("\n")[2]
    return len(words.split()) >= _DESCRIPTION_WORDS


_ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Warning|Interrupt)\b")


def _errors(text: str) -> Iterator[tuple[str, int]]:
    return ((match.group(), match.start()) for match in _ERROR.finditer(text))


def _normalise_language(name: str) -> str:
    """The normal name of a programming language; "" for one without a wording."""
    language = language_of(name)
    return language if language in WORDINGS["language"].values else ""


_NOTABLE_CALLS = word_set(
    """
    Counter defaultdict deque OrderedDict namedtuple heappush heappop heapify heappushpop heapreplace nlargest nsmallest
    bisect bisect_left bisect_right insort insort_left accumulate combinations permutations product groupby
    lru_cache cache cmp_to_key reduce setdefault most_common bit_length
    computeIfAbsent getOrDefault putIfAbsent binarySearch floorKey ceilingKey lower_bound upper_bound equal_range
    nth_element next_permutation prev_permutation partial_sort stable_sort make_heap iota gcd lcm
    setrecursionlimit asarray einsum searchsorted cumsum apply_along_axis vectorize
    deepcopy urlopen subprocess Popen partial
    """
)
"""Calls of libraries that somebody may ask for by name; helpers of one program, and everyday calls, are not."""


_LINE_OF_CODE = re.compile(r"[:;{}=,(]\s*$|^\s*(?:#|//|/\*|@|import\b|from\b|package\b)")


def _facts(text: str, attributes: Attributes) -> tuple[SourceFacts | None, int]:
    """The facts of the code in a text, and where it begins there: a title may stand in its first line."""
    language = attributes.get("language") or "python"
    facts = facts_of(text, language)
    first, _, rest = text.partition("\n")
    if facts is None and rest and language_of(language) in GRAMMARS and not _LINE_OF_CODE.search(first):
        return facts_of(rest, language), len(first) + 1
    return facts, 0


def _calls(text: str, attributes: Attributes) -> Mapping[str, int]:
    """The calls of the code, or of the examples in a page of documentation, with their offsets."""
    facts, begin = _facts(text, attributes) if attributes.get("language") else (None, 0)
    if facts is None:
        return facts_of_examples(text).calls if ">>>" in text else {}
    return {name: begin + offset for name, offset in facts.calls.items()}


def _offer_calls(text: str, attributes: Attributes) -> Iterable[str]:
    names = _calls(text, attributes)
    return [name for name in names if name in _NOTABLE_CALLS]


def _find_approach(text: str, attributes: Attributes, value: str) -> int:
    facts, begin = _facts(text, attributes)
    offset = facts.approaches.get(value, -1) if facts else -1
    return begin + offset if offset >= 0 else -1


def _offer_approaches(text: str, attributes: Attributes) -> Iterable[str]:
    """Bit operations are recognised and not offered: they are asked for where the problem is about bits."""
    facts, _ = _facts(text, attributes)
    return [name for name in facts.approaches if name != "bit manipulation"] if facts else ()


def _is_approach_unsure(text: str, attributes: Attributes, value: str) -> bool:
    facts, _ = _facts(text, attributes)
    return facts is None or value in facts.unsure


def _is_comment_unsure(text: str, attributes: Attributes, _value: str) -> bool:
    facts, _ = _facts(text, attributes)
    return facts is None or "comments" in facts.unsure


def _find_comment(text: str, attributes: Attributes, value: str) -> int:
    facts, begin = _facts(text, attributes)
    return begin + facts.comment if facts and facts.comment >= 0 and not value else -1


_SOURCE_LINE = (
    r"^[ \t]*(?:def \w+\(|class \w+[^\n]*[:{]$|return\b[^\n]*(?:[;()\[\]=]|$)|#include\b|public\b|private\b"
    r"|import [\w.]+;?$|from [\w.]+ import\b|\}[ \t;]*$)"
)
_SOURCE = re.compile(_SOURCE_LINE, re.MULTILINE)


def count_code_lines(text: str) -> int:
    """How many lines look like program code, interactive sessions aside."""
    return sum(1 for _ in _SOURCE.finditer(text))


def _find_source(text: str, attributes: Attributes, value: str) -> int:
    """By what the corpus says of the passage; else by lines that look like code."""
    form = attributes.get("form", "")
    if value or form == "documentation":
        return -1
    match = _SOURCE.search(text)
    return 0 if form == "source" else match.start() if match else -1


_SECTIONS = {
    name: (
        rf"^[ \t]*(?:#+ )?(?:{spelling})(?::[ \t]*$|[ \t]*\n[ \t]*[-=~^]{{3,}}[ \t]*$)(?!\s*None\s*$)",
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


def _find_namespace(_text: str, attributes: Attributes, value: str) -> int:
    return 0 if value and attributes.get("module", "") == value else -1


def _offer_namespace(_text: str, attributes: Attributes) -> Iterable[str]:
    """The module or class that an object belongs to; a library's own namespace says no more than the library."""
    module = attributes.get("module", "")
    return (module,) if "." in module else ()


def _is_namespace_unsure(_text: str, attributes: Attributes, value: str) -> bool:
    """One of two nested namespaces may count as the other, and the same last part is easily taken for the other."""
    module = attributes.get("module", "")
    nested = f"{module}.".startswith(f"{value}.") or f"{value}.".startswith(f"{module}.")
    return not module or nested or module.rpartition(".")[2] == value.rpartition(".")[2]


PARAMETER = by_occurrences(_parameters, lambda name: len(name) > 1)
ERROR = by_occurrences(_errors)
CALL = Detector(
    lambda text, attributes, value: _calls(text, attributes).get(value, -1),
    _offer_calls,
    lambda text, _, value: value in text,
)
APPROACH = Detector(_find_approach, _offer_approaches, _is_approach_unsure)
COMMENT = Detector(
    _find_comment,
    lambda text, attributes: ("",) if _find_comment(text, attributes, "") >= 0 else (),
    _is_comment_unsure,
)
LANGUAGE = by_attribute("language", _normalise_language)
NAMESPACE = Detector(_find_namespace, _offer_namespace, _is_namespace_unsure)
OBJECT_KIND = by_attribute("kind", lambda kind: kind if kind in WORDINGS["object_kind"].values else "")
SOURCE = Detector(_find_source, lambda text, attributes: ("",) if _find_source(text, attributes, "") >= 0 else ())
SECTION = by_patterns(_SECTIONS)
