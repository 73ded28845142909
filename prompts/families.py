"""The families of verifiable constraints: for each, an exact finder and what a text offers of it.

A finder takes (text, attributes, value) and returns the offset of the first witness, or -1. It is the one truth about a
family: `Constraint.holds` asks it and nothing else. An offerer lists the values that the text makes true. Finders are
linear in the text; patterns are compiled once and have no nested repetition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from prompts.phrases import phrases_of
from prompts.wordings import AFFIRMED, DENIED, SHOWN

Group = Literal["content", "fact", "manner", "form", "documentation", "code", "mathematics"]
Kind = Literal["text", "documentation", "code", "mathematics"]
Attributes = Mapping[str, str]
Finder = Callable[[str, Attributes, str], int]
Offerer = Callable[[str, Attributes], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of requirement. `free` families take any text as value, the others one of a closed list or none."""

    name: str
    group: Group
    find: Finder
    offer: Offerer
    free: bool = False

    @property
    def affirmed(self) -> tuple[str, ...]:
        return AFFIRMED[self.name]

    @property
    def denied(self) -> tuple[str, ...]:
        return DENIED[self.name]


@lru_cache(maxsize=64)
def folded(text: str) -> str:
    """Lower case, runs of white space as one blank: the form in which phrases are looked for."""
    return " ".join(text.lower().split())


@lru_cache(maxsize=128)
def _lowered(text: str) -> str:
    return text.lower()


@lru_cache(maxsize=64)
def _spaced(text: str) -> str:
    return " ".join(text.split())


def _word_at(text: str, phrase: str, start: int, endings: tuple[str, ...] = ("",)) -> int:
    """Offset of the next whole-word occurrence of the phrase, bare or with one of the endings; -1 if none."""
    if not phrase:
        return -1
    at = text.find(phrase, start)
    while at >= 0:
        after = at + len(phrase)
        if not (at and (text[at - 1].isalnum() or text[at - 1] == "_") and (phrase[0].isalnum() or phrase[0] == "_")):
            for ending in endings:
                end = after + len(ending)
                if text.startswith(ending, after) and not (text[end : end + 1].isalnum() or text[end : end + 1] == "_"):
                    return at
        at = text.find(phrase, at + 1)
    return -1


_PLURALS = ("", "s", "es")


def _find_mention(text: str, _: Attributes, value: str) -> int:
    return _word_at(folded(text), folded(value), 0, _PLURALS)


def _find_name(text: str, _: Attributes, value: str) -> int:
    return _word_at(_spaced(text), value, 0, _PLURALS)


def _find_discussed(text: str, _: Attributes, value: str) -> int:
    low, phrase = folded(text), folded(value)
    first = _word_at(low, phrase, 0, _PLURALS)
    return first if first >= 0 and _word_at(low, phrase, first + 1, _PLURALS) >= 0 else -1


def _offer_mentions(text: str, _: Attributes) -> Iterable[str]:
    return phrases_of(text).terms


def _offer_names(text: str, _: Attributes) -> Iterable[str]:
    return phrases_of(text).names


def _offer_discussed(text: str, _: Attributes) -> Iterable[str]:
    return phrases_of(text).repeated


_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|(?<![\w.,])\d+(?:\.\d+)?(?!\w)")
_YEAR = re.compile(r"(?<![\w.,$€£-])(?:1[5-9]|20)\d\d(?![\w%])(?![.,]\d)")


def _find_number(text: str, _: Attributes, value: str) -> int:
    return next((m.start() for m in _NUMBER.finditer(text) if m.group() == value), -1)


def _offer_numbers(text: str, _: Attributes) -> Iterable[str]:
    found = (m.group() for m in _NUMBER.finditer(text))
    return dict.fromkeys(n for n in found if len(n) > 1 and not _YEAR.fullmatch(n))


def _find_year(text: str, _: Attributes, value: str) -> int:
    return next((m.start() for m in _YEAR.finditer(text) if value in ("", m.group())), -1)


def _offer_years(text: str, _: Attributes) -> Iterable[str]:
    years = dict.fromkeys(m.group() for m in _YEAR.finditer(text))
    return (*years, "") if years else ()


def _has_any(text: str, hints: tuple[str, ...]) -> bool:
    for hint in hints:  # noqa: SIM110 - any() with a generator takes twice as long, and this is the hot spot
        if hint in text:
            return True
    return False


def _searcher(pattern: str, hints: str, flags: int) -> Callable[[str], int]:
    """A search that gives an offset or -1. One of the `hints` (parted by |) must be in the lowered text; this is quick."""
    search, needed = re.compile(pattern, flags).search, tuple(hints.split("|")) if hints else ()

    def at(text: str) -> int:
        if needed and not _has_any(_lowered(text), needed):
            return -1
        found = search(text)
        return found.start() if found else -1

    return at


def _by_pattern(pattern: str, hints: str = "", flags: int = re.IGNORECASE | re.MULTILINE) -> tuple[Finder, Offerer]:
    at = _searcher(pattern, hints, flags)
    return (lambda text, _, value: at(text) if value == "" else -1), (lambda text, _: ("",) if at(text) >= 0 else ())


def _by_patterns(patterns: Mapping[str, tuple[str, str]], flags: int = re.MULTILINE) -> tuple[Finder, Offerer]:
    finders = {value: _searcher(pattern, hints, flags) for value, (pattern, hints) in patterns.items()}

    def find(text: str, _: Attributes, value: str) -> int:
        return finders[value](text) if value in finders else -1

    def offer(text: str, _: Attributes) -> Iterable[str]:
        return [value for value, at in finders.items() if at(text) >= 0]

    return find, offer


def _by_count(count: Callable[[str], int], bounds: tuple[int, ...], *, at_least: bool) -> tuple[Finder, Offerer]:
    """The value is a bound on a count; the witness is the whole text. Of the bounds that hold, the tightest is offered."""

    def find(text: str, _: Attributes, value: str) -> int:
        if not value.isdecimal():
            return -1
        have = count(text)
        return 0 if (have >= int(value) if at_least else have <= int(value)) else -1

    def offer(text: str, _: Attributes) -> Iterable[str]:
        have = count(text)
        kept = [b for b in bounds if have >= b][-1:] if at_least else [b for b in bounds if have <= b][:1]
        return [str(b) for b in kept]

    return find, offer


_WORD_BOUNDS = (25, 40, 60, 80, 120)
_STEP_BOUNDS = (2, 3, 4, 5)


def _count_words(text: str) -> int:
    return len(text.split())


def _count_steps(text: str) -> int:
    return sum("=" in line for line in text.splitlines())


_PARAMETER = re.compile(
    r"^[ \t]*(?:[-*] )?(?::param\s+(?:[\w.\[\]]+\s+)?|@param\s+)?(\*{0,2}[A-Za-z_]\w*(?:, ?\*{0,2}[A-Za-z_]\w*)*)"
    r"(?: ?\([^()\n]*\))? ?:(?=[ \n]|$)",
    re.MULTILINE,
)
SECTION_NAMES = ("parameters", "returns", "raises", "examples", "notes", "see also", "references", "attributes", "yields",
                 "warnings", "methods")  # fmt: skip
_NOT_PARAMETERS = frozenset(SECTION_NAMES) | {
    "args", "arguments", "return", "example", "note", "warning", "todo", "output", "input", "default", "shape", "inputs",
    "outputs", "otherwise", "else", "try", "finally", "raise", "yield", "usage", "type", "version", "see", "keyword",
}  # fmt: skip


def _parameters(text: str) -> Iterable[tuple[str, int]]:
    for found in _PARAMETER.finditer(text):
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


def _by_attribute(key: str, normal: Callable[[str], str] = str) -> tuple[Finder, Offerer]:
    def find(_text: str, attributes: Attributes, value: str) -> int:
        return 0 if value and normal(attributes.get(key, "")) == value else -1

    def offer(_text: str, attributes: Attributes) -> Iterable[str]:
        value = normal(attributes.get(key, ""))
        return (value,) if value else ()

    return find, offer


_LANGUAGES = {"c++": "cpp", "python3": "python", "js": "javascript", "ts": "typescript", "golang": "go", "c#": "csharp"}


def _language(name: str) -> str:
    known = _LANGUAGES.get(name.lower(), name.lower())
    return known if known in SHOWN["language"] else ""


_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_NOT_CALLS = frozenset(
    "if for while switch return catch def class print range len int str self super and or not in".split()
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
_KEYWORDS = frozenset("if for while switch catch else elif with synchronized".split())


def _end_of_body(text: str, start: int, depth: int) -> int:
    """Where the next line begins that is indented no deeper than `depth` characters."""
    return next((m.start() for m in _LINE.finditer(text, start) if len(m.group(1)) <= depth), len(text))


def _find_recursion(text: str) -> int:
    """Offset of the first call of a function within its own body, which ends where the indentation of its head returns."""
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
    "string building": r"\bStringBuilder\b|\.join\(|\bstringstream\b|\.append\(",
}
_find_pattern_approach, _offer_pattern_approaches = _by_patterns({k: (p, "") for k, p in _APPROACHES.items()})
_SOURCE = re.compile(
    r"^[ \t]*(?:def \w+\(|class \w+[^\n]*[:{]$|return\b[^\n]*(?:[;()\[\]=]|$)|#include\b|public\b|private\b|import [\w.]+;?$"
    r"|from [\w.]+ import\b|\}[ \t;]*$)",
    re.MULTILINE,
)


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


_SECTION_PATTERNS = {
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
_UNITS = {
    "duration": (
        r"\d[\d.,]*[ -]?(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|decades?|centuries)\b"
        r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|an?)[ -](?:minutes?|hours?|days?|weeks?|months?|years?)\b",
        "sec|min|hour|hr|day|week|month|year|decade|centur",
    ),
    "distance": (
        r"\d[\d.,/]*[ -]?(?:mm|cm|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|foot|ft|inch(?:es)?|yards?)\b",
        "mm|cm|km|met|mile|feet|foot|ft|inch|yard",
    ),
    "weight": (
        r"\d[\d.,/]*[ -]?(?:mg|grams?|kg|kilograms?|lbs?|pounds?|ounces?|oz|tons?)\b",
        "mg|gram|kg|lb|pound|ounce|oz|ton",
    ),
    "temperature": (r"\d[\d.,]* ?(?:°|º|degrees?\b)", "°|º|degree"),
    "volume": (
        r"\d[\d.,/]*[ -]?(?:ml|lit(?:er|re)s?|gallons?|cups?|pints?|quarts?|tablespoons?|teaspoons?)\b",
        "ml|lit|gallon|cup|pint|quart|spoon",
    ),
    "data": (r"\d[\d.,]*[ -]?(?:KB|MB|GB|TB|[Kk]ilobytes?|[Mm]egabytes?|[Gg]igabytes?|bytes?|bits?)\b", "b"),
    "time": (r"\b\d{1,2}(?::\d\d)? ?(?:[ap]\.?m\b\.?|[AP]\.?M\b\.?)", "am|pm|a.m|p.m"),
}
_OPERATIONS = {
    "addition": (r"\d\s*\+\s*\$?\d|\b[Aa]dd(?:s|ed|ing)?\b", "+|add"),
    "subtraction": (r"\d\s*-\s*\$?\d+[^\n]{0,40}=|\b[Ss]ubtract", "-|subtract"),
    "multiplication": (r"\d\s*[*×x]\s*\$?\d|\\times|\b[Mm]ultipl", "*|×|x|times|multipl"),
    "division": (r"\d\s*/\s*\$?\d|÷|\\frac|\b[Dd]ivid", "/|÷|frac|divid"),
}
_EXAMPLE = r"\b(?:for example|for instance|such as|e\.g\.)|\bexamples?\b|^[ \t]*>>> "
_CAVEAT = (
    r"\b(?:however|caution|warnings?|careful(?:ly)?|unless|beware|except(?:ion)?s?|limitations?|note that|although)\b"
)
_REASON = r"\b(?:because|due to|caused by|causes?|reasons?|therefore|hence|thus|as a result)\b"
_COMPARISON = (
    r"\b(?:compared?|comparison|unlike|whereas|in contrast|similar to|equivalent to|rather than|instead of"
    r"|differ(?:s|ent|ence|ences)?|than)\b"
)
_DEFINITION_OF = (
    r"\b(?:is|are) (?:defined as|called)\b|\brefers? to\b|\bmeans\b|\bdefinition\b|\bknown as\b|\bstands? for\b"
)
_ADVICE = r"\bshould\b|\brecommend|\badvis|\bit is best\b|\bconsider using\b|\bprefer(?:able|ably|red)?\b"
_ELSEWHERE = r"https?://|\bwww\.|\bsee also\b|\bet al\b|^[ \t]*\.\. \[\w+\]|\[\d+\]_|\bclick here\b"
_LIST_ITEM = r"[ \t]*(?:[-*•+]|\d{1,2}[.)]) \S"
_LIST = rf"^{_LIST_ITEM}[^\n]*\n(?:[^\n]*\n){{0,2}}{_LIST_ITEM}"
_VERSION = r"\bversion(?:added|changed)\b|\bdeprecated\b|\b(?:new|added|changed) in version\b|\bsince version\b"
_COMMENT = r"^[ \t]*(?:#(?!include|define|###)|//|/\*)[ !*]?\S|\S  # \S|; +// \S"
_UNKNOWN = (
    r"\b[Ll]et \$?[A-Za-z]\b(?: (?:be|represent|denote|stand)|\$| ?=)|(?<![\w'])[A-Za-z] ?= ?\$?\d|\b\d+[a-zA-Z] ?[=+-]"
)
_DATE = (
    r"\b(?:January|February|March|April|June|July|August|September|October|November|December|Sunday|Monday|Tuesday|Wednesday"
    r"|Thursday|Friday|Saturday)s?\b|\bMay \d|\b(?:Jan|Feb|Aug|Sept?|Oct|Nov|Dec)\.? \d"
)
_HISTORY = (
    r"\b(?:histor(?:y|ic|ical|ically)|origin(?:s|ated|ally)?|(?:was|were) (?:founded|established|introduced)|invented|invention"
    r"|discovered|ancient|centur(?:y|ies)|dates? back|first used)\b"
)
_PROCESS = r"\b(?:steps?|first,|firstly|next,|finally|procedures?|instructions?|repeat)\b"
_BENEFIT = r"\b(?:benefi(?:t|ts|cial)|advantag\w+|helps?|helpful|improv\w+|useful|effective(?:ly)?|convenient|easier)\b"
_RISK = (
    r"\b(?:risks?|danger\w*|harm\w*|damag\w+|side effects?|diseases?|injur\w+|infections?|pain\w*|symptoms?|failures?"
    r"|deaths?|die[sd]?|poison\w*|toxic)\b"
)
_PLACE = (
    r"\b(?:located|situated|cit(?:y|ies)|county|countr(?:y|ies)|north(?:ern)?|south(?:ern)?|east(?:ern)?|west(?:ern)?"
    r"|United States|U\.S\.|America|Europe|Africa|Asia|Australia|China|India|England|Canada|California|Texas|New York|Florida)\b"
)
_ATTRIBUTION = r"\b(?:according to|said|says|stud(?:y|ies)|research(?:ers)?|experts?|scientists?|reports?|reported|survey|found that|argued?)\b"
_UNCERTAINTY = r"\b(?:may|might|could|possibl[ey]|probabl[ey]|perhaps|likely|potential(?:ly)?|seems?|appears?)\b"
_SUPERLATIVE = r"\b(?:most|best|worst|largest|biggest|smallest|highest|lowest|longest|oldest|greatest|fastest)\b"
_KINDS = r"\b(?:types?|kinds?|categor(?:y|ies)|components?|consists? of|classified|divided into|varieties|species)\b"
_PURPOSE = r"\bused (?:to|for|as)\b|\bpurposes?\b|\bserves? (?:to|as)\b|\bdesigned (?:to|for)\b|\bin order to\b|\bfunctions? (?:is|as|of)\b"
_DEFAULT = r"\bdefaults?\b|\bif (?:omitted|not (?:given|specified|provided))\b"
_PERFORMANCE = r"\b(?:performance|faster|fastest|slow(?:er|ly)?|speed|efficien\w+|memory|overhead|expensive|optimi[sz]\w+|parallel\w*)\b"
_SHAPE = r"\b(?:shapes?|ndim|\w*dimension\w*|[1-4]-?D|axis|axes)\b"
_DATA_TYPE = r"\b(?:dtypes?|data types?|float(?:32|64)?|int(?:32|64|egers?)?|bool(?:ean)?|complex|strings?|types?)\b"
_MISSING = r"\b(?:NaNs?|nan|nulls?|NA|NaT|missing|empty)\b"
_MONEY = r"[$€£] ?\d|\b\d[\d.,]* ?(?:dollars?|euros?|cents|USD|pounds sterling)\b"


def _family(name: str, group: Group, pair: tuple[Finder, Offerer], *, free: bool = False) -> Family:
    return Family(name, group, pair[0], pair[1], free)


FAMILIES: Mapping[str, Family] = {
    f.name: f
    for f in (
        Family("mentions", "content", _find_mention, _offer_mentions, free=True),
        Family("names", "content", _find_name, _offer_names, free=True),
        Family("discusses", "content", _find_discussed, _offer_discussed, free=True),
        Family("number", "fact", _find_number, _offer_numbers, free=True),
        Family("year", "fact", _find_year, _offer_years, free=True),
        _family("percentage", "fact", _by_pattern(r"\d ?%|\bper ?cent\b", "%|cent")),
        _family("money", "fact", _by_pattern(_MONEY, "$|€|£|dollar|euro|cents|usd|sterling")),
        _family("measure", "fact", _by_patterns(_UNITS)),
        _family("example", "manner", _by_pattern(_EXAMPLE, "example|instance|such as|e.g.|>>>")),
        _family(
            "caveat",
            "manner",
            _by_pattern(_CAVEAT, "however|caution|warning|careful|unless|beware|except|limit|note|although"),
        ),
        _family("reason", "manner", _by_pattern(_REASON, "cause|due to|reason|therefore|hence|thus|as a result")),
        _family(
            "comparison",
            "manner",
            _by_pattern(_COMPARISON, "compar|unlike|whereas|contrast|similar|equivalent|than|instead|differ"),
        ),
        _family("reader", "manner", _by_pattern(r"\byou(?:r|rs|rself)?\b", "you")),
        _family("definition", "manner", _by_pattern(_DEFINITION_OF, "defin|called|refer|means|known|stand")),
        _family("advice", "manner", _by_pattern(_ADVICE, "should|recommend|advis|best|consider|prefer")),
        _family("further_reading", "manner", _by_pattern(_ELSEWHERE, "http|www.|see also|et al|.. [|]_|click here")),
        _family("quotation", "manner", _by_pattern(r"[\"“][A-Za-z][^\"“”\n]{2,80}[\"”]", '"|“')),
        _family("question", "manner", _by_pattern(r"\w\?(?=\s|$|[\"”)])", "?")),
        _family("date", "fact", _by_pattern(_DATE, "", re.MULTILINE)),
        _family("figure", "fact", _by_pattern(r"(?<![\w.])\d")),
        _family(
            "history",
            "content",
            _by_pattern(_HISTORY, "histor|origin|found|invent|discov|establ|ancient|centur|dat|intro|first"),
        ),
        _family("process", "manner", _by_pattern(_PROCESS, "step|first|next|final|proce|instruction|repeat")),
        _family(
            "benefit", "content", _by_pattern(_BENEFIT, "benefi|advantag|help|improv|useful|effective|conven|easier")
        ),
        _family(
            "risk",
            "content",
            _by_pattern(
                _RISK,
                "risk|dang|harm|damag|side|diseas|injur|infec|pain|sympt|fail|death|die|poison|toxic",
            ),
        ),
        _family("place", "content", _by_pattern(_PLACE, "", re.MULTILINE)),
        _family(
            "attribution",
            "manner",
            _by_pattern(_ATTRIBUTION, "accord|sa|stud|research|expert|scien|report|survey|found|argue"),
        ),
        _family(
            "uncertainty",
            "manner",
            _by_pattern(_UNCERTAINTY, "may|might|could|possib|probab|perhaps|likely|potential|seem|appear"),
        ),
        _family("superlative", "manner", _by_pattern(_SUPERLATIVE, "st")),
        _family(
            "kinds",
            "content",
            _by_pattern(_KINDS, "type|kind|categ|compon|consist|class|divid|variet|species"),
        ),
        _family("purpose", "content", _by_pattern(_PURPOSE, "used|purpose|serve|designed|order|function")),
        _family("default", "documentation", _by_pattern(_DEFAULT, "default|if omitted|if not")),
        _family(
            "performance",
            "documentation",
            _by_pattern(_PERFORMANCE, "perform|fast|slow|speed|effic|memory|overhead|expens|optim|parallel"),
        ),
        _family("shape", "documentation", _by_pattern(_SHAPE, "shape|ndim|dimen|1|2|3|4|axis|axes")),
        _family("data_type", "documentation", _by_pattern(_DATA_TYPE, "type|float|int|bool|complex|string")),
        _family("missing_values", "documentation", _by_pattern(_MISSING, "na|null|missing|empty", re.MULTILINE)),
        _family("list", "form", _by_pattern(_LIST, "\n")),
        _family("at_most_words", "form", _by_count(_count_words, _WORD_BOUNDS, at_least=False), free=True),
        _family("at_least_words", "form", _by_count(_count_words, _WORD_BOUNDS, at_least=True), free=True),
        _family("code_sample", "documentation", _by_pattern(r"^[ \t]*>>> |^```|::\n\n[ \t]+\S", ">>>|```|::")),
        _family("source", "code", _by_pattern(_SOURCE.pattern, "", re.MULTILINE)),
        _family("section", "documentation", _by_patterns(_SECTION_PATTERNS)),
        Family("parameter", "documentation", _find_parameter, _offer_parameters, free=True),
        Family("raises", "documentation", _find_error, _offer_errors, free=True),
        _family("version", "documentation", _by_pattern(_VERSION, "version|deprecated")),
        _family("language", "code", _by_attribute("language", _language)),
        Family("approach", "code", _find_approach, _offer_approaches),
        Family("uses", "code", _find_call, _offer_calls, free=True),
        _family("comments", "code", _by_pattern(_COMMENT, "#|//|/*")),
        _family("complexity", "code", _by_pattern(r"\bO\([^)\n]{1,40}\)", "o(", re.MULTILINE)),
        _family("library", "documentation", _by_attribute("library"), free=True),
        _family("at_most_steps", "mathematics", _by_count(_count_steps, _STEP_BOUNDS, at_least=False), free=True),
        _family("at_least_steps", "mathematics", _by_count(_count_steps, _STEP_BOUNDS, at_least=True), free=True),
        _family("operation", "mathematics", _by_patterns(_OPERATIONS)),
        _family("decimals", "mathematics", _by_pattern(r"(?<![\w.])\d+\.\d+(?![\w.]\d)", ".")),
        _family("unknown", "mathematics", _by_pattern(_UNKNOWN, "", re.MULTILINE)),
        _family(
            "total",
            "mathematics",
            _by_pattern(r"\b(?:total|altogether|in all|combined|sum)\b", "total|altog|in all|combined|sum"),
        ),
        _family("arithmetic", "mathematics", _by_pattern(r"\d[ ]*[-+*/×x][ ]*[$(]?\d[^=\n]{0,60}=", "=")),
        _family("answer_line", "mathematics", _by_pattern(r"^#### |\b(?:final )?answer is\b|^answer:", "####|answer")),
    )
}

_EVERYWHERE = "list at_most_words at_least_words"
_PROSE = (
    "mentions names discusses number percentage example caveat reason comparison reader definition advice further_reading quotation"
    " question figure process benefit attribution uncertainty superlative kinds purpose"
)
OF_KIND: Mapping[Kind, frozenset[str]] = {
    kind: frozenset(f"{names} {_EVERYWHERE}".split())
    for kind, names in cast(
        "dict[Kind, str]",
        {
            "text": f"{_PROSE} year money measure date history risk place total",
            "documentation": f"{_PROSE} code_sample source section parameter raises version uses complexity library default"
            " performance shape data_type missing_values",
            "code": "language approach uses comments complexity library source raises",
            "mathematics": "mentions names discusses number percentage money measure reason superlative at_most_steps at_least_steps"
            " operation decimals unknown total arithmetic answer_line",
        },
    ).items()
}
"""The families that say something sensible of each kind of text."""
