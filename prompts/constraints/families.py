"""The families of verifiable constraints: for each, what finds it in a text and what a text offers of it.

The finder is the one truth about a family: `Constraint.holds` asks it and nothing else. To add a family: a line in
`FAMILIES`, its wordings in `prompts/constraints/wordings.py`, and its name in `OF_KIND` under the kinds of text
that it suits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prompts.constraints.code_detectors import APPROACH, CALL, ERROR, PARAMETER, SECTIONS, SOURCE, language_of
from prompts.constraints.detectors import (
    DISCUSSED,
    MENTION,
    NAME,
    NUMBER,
    STEP_BOUNDS,
    WORD_BOUNDS,
    YEAR,
    Finder,
    Finding,
    Offerer,
    by_attribute,
    by_count,
    by_pattern,
    by_patterns,
    count_steps,
    count_words,
)
from prompts.constraints.phrases import words

Kind = Literal["text", "documentation", "code", "mathematics"]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of requirement. `free` families take any text as value, the others one of a closed list or none."""

    name: str
    find: Finder
    offer: Offerer
    free: bool = False


_UNITS = {
    "duration": (
        (
            r"\d[\d.,]*[ -]?(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|decades?"
            r"|centuries)\b"
            r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|an?)[ -]"
            r"(?:minutes?|hours?|days?|weeks?|months?|years?)\b"
        ),
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
    "addition": (r"\d[\w $%.,)]{0,25}\+[ (]*\$?\d|\b[Aa]dd(?:s|ed|ing)?\b", "+|add"),
    "subtraction": (r"\d[\w $%.,)]{0,25}[-–−] *\$?\d+[^\n]{0,40}=|\b[Ss]ubtract", "-|–|−|subtract"),
    "multiplication": (r"\d[\w $%.,)]{0,25}[*×][ (]*\$?\d|\d *x *\$?\d|\\times|\b[Mm]ultipl", "*|×|x|times|multipl"),
    "division": (r"\d[\w $%.,)]{0,25}/[ (]*\$?\d|÷|\\frac|\b[Dd]ivid", "/|÷|frac|divid"),
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
    r"\b(?:histor(?:y|ic|ical|ically)|origin(?:s|ated|ally)?|(?:was|were) (?:founded|established|introduced)"
    r"|invented|invention|discovered|ancient|centur(?:y|ies)|dates? back|first used)\b"
)
_PROCESS = r"\b(?:steps?|procedures?|instructions?|repeat)\b|\b(?:first|firstly|next|finally),"
_BENEFIT = r"\b(?:benefi(?:t|ts|cial)|advantag\w+|helps?|helpful|improv\w+|useful|effective(?:ly)?|convenient|easier)\b"
_RISK = (
    r"\b(?:risks?|danger\w*|harm\w*|damag\w+|side effects?|diseases?|injur\w+|infections?|pain\w*|symptoms?|failures?"
    r"|deaths?|die[sd]?|poison\w*|toxic)\b"
)
_PLACE = (
    r"\b(?:located|situated|cit(?:y|ies)|county|countr(?:y|ies)|north(?:ern)?|south(?:ern)?|east(?:ern)?|west(?:ern)?"
    r"|United States|U\.S\.|America|Europe|Africa|Asia|Australia|China|India|England|Canada|California"
    r"|Texas|New York|Florida)\b"
)
_ATTRIBUTION = (
    r"\b(?:according to|said|says|stud(?:y|ies)|research(?:ers)?|experts?|scientists?|reports?"
    r"|reported|survey|found that|argued?)\b"
)
_UNCERTAINTY = r"\b(?:may|might|could|possibl[ey]|probabl[ey]|perhaps|likely|potential(?:ly)?|seems?|appears?)\b"
_SUPERLATIVE = r"\b(?:most|best|worst|largest|biggest|smallest|highest|lowest|longest|oldest|greatest|fastest)\b"
_KINDS = r"\b(?:types?|kinds?|categor(?:y|ies)|components?|consists? of|classified|divided into|varieties|species)\b"
_PURPOSE = (
    r"\bused (?:to|for|as)\b|\bpurposes?\b|\bserves? (?:to|as)\b|\bdesigned (?:to|for)\b"
    r"|\bin order to\b|\bfunctions? (?:is|as|of)\b"
)
_DEFAULT = r"\bdefaults?\b|\bif (?:omitted|not (?:given|specified|provided))\b"
_PERFORMANCE = (
    r"\b(?:performance|faster|fastest|slow(?:er|ly)?|speed|efficien\w+|memory|overhead|expensive"
    r"|optimi[sz]\w+|parallel\w*)\b"
)
_SHAPE = r"\b(?:shapes?|ndim|\w*dimension\w*|[1-4]-?D|axis|axes)\b"
_DATA_TYPE = r"\b(?:dtypes?|data types?|float(?:32|64)?|int(?:32|64|egers?)?|bool(?:ean)?|complex|strings?|types?)\b"
_MISSING = r"\b(?:NaNs?|nan|nulls?|NA|NaT|missing|empty)\b"
_MONEY = r"[$€£] ?\d|\b\d[\d.,]* ?(?:dollars?|euros?|cents|USD|pounds sterling)\b"


def _family(name: str, finding: Finding, *, free: bool = False) -> Family:
    return Family(name, *finding, free)


FAMILIES: Mapping[str, Family] = {
    f.name: f
    for f in (
        _family("mentions", MENTION, free=True),
        _family("names", NAME, free=True),
        _family("discusses", DISCUSSED, free=True),
        _family("number", NUMBER, free=True),
        _family("year", YEAR, free=True),
        _family("percentage", by_pattern(r"\d ?%|\bper ?cent\b", "%|cent")),
        _family("money", by_pattern(_MONEY, "$|€|£|dollar|euro|cents|usd|sterling")),
        _family("measure", by_patterns(_UNITS)),
        _family("example", by_pattern(_EXAMPLE, "example|instance|such as|e.g.|>>>")),
        _family(
            "caveat",
            by_pattern(_CAVEAT, "however|caution|warning|careful|unless|beware|except|limit|note|although"),
        ),
        _family("reason", by_pattern(_REASON, "cause|due to|reason|therefore|hence|thus|as a result")),
        _family(
            "comparison",
            by_pattern(_COMPARISON, "compar|unlike|whereas|contrast|similar|equivalent|than|instead|differ"),
        ),
        _family("reader", by_pattern(r"\byou(?:r|rs|rself)?\b", "you")),
        _family("definition", by_pattern(_DEFINITION_OF, "defin|called|refer|means|known|stand")),
        _family("advice", by_pattern(_ADVICE, "should|recommend|advis|best|consider|prefer")),
        _family("further_reading", by_pattern(_ELSEWHERE, "http|www.|see also|et al|.. [|]_|click here")),
        _family("quotation", by_pattern(r"[\"“][A-Za-z][^\"“”\n]{2,80}[\"”]", '"|“')),
        _family("question", by_pattern(r"\w\?(?=\s|$|[\"”)])", "?")),
        _family("date", by_pattern(_DATE, "", re.MULTILINE)),
        _family("figure", by_pattern(r"(?<![\w.])\d")),
        _family(
            "history",
            by_pattern(_HISTORY, "histor|origin|found|invent|discov|establ|ancient|centur|dat|intro|first"),
        ),
        _family("process", by_pattern(_PROCESS, "step|first|next|final|proce|instruction|repeat")),
        _family("benefit", by_pattern(_BENEFIT, "benefi|advantag|help|improv|useful|effective|conven|easier")),
        _family(
            "risk",
            by_pattern(
                _RISK,
                "risk|dang|harm|damag|side|diseas|injur|infec|pain|sympt|fail|death|die|poison|toxic",
            ),
        ),
        _family("place", by_pattern(_PLACE, "", re.MULTILINE)),
        _family(
            "attribution",
            by_pattern(_ATTRIBUTION, "accord|sa|stud|research|expert|scien|report|survey|found|argue"),
        ),
        _family(
            "uncertainty",
            by_pattern(_UNCERTAINTY, "may|might|could|possib|probab|perhaps|likely|potential|seem|appear"),
        ),
        _family("superlative", by_pattern(_SUPERLATIVE, "st")),
        _family(
            "kinds",
            by_pattern(_KINDS, "type|kind|categ|compon|consist|class|divid|variet|species"),
        ),
        _family("purpose", by_pattern(_PURPOSE, "used|purpose|serve|designed|order|function")),
        _family("default", by_pattern(_DEFAULT, "default|if omitted|if not")),
        _family(
            "performance",
            by_pattern(_PERFORMANCE, "perform|fast|slow|speed|effic|memory|overhead|expens|optim|parallel"),
        ),
        _family("shape", by_pattern(_SHAPE, "shape|ndim|dimen|1|2|3|4|axis|axes")),
        _family("data_type", by_pattern(_DATA_TYPE, "type|float|int|bool|complex|string")),
        _family("missing_values", by_pattern(_MISSING, "na|null|missing|empty", re.MULTILINE)),
        _family("list", by_pattern(_LIST, "\n")),
        _family("at_most_words", by_count(count_words, WORD_BOUNDS, at_least=False), free=True),
        _family("at_least_words", by_count(count_words, WORD_BOUNDS, at_least=True), free=True),
        _family("code_sample", by_pattern(r"^[ \t]*>>> |^```|::\n\n[ \t]+\S", ">>>|```|::")),
        _family("source", by_pattern(SOURCE, "", re.MULTILINE)),
        _family("section", by_patterns(SECTIONS)),
        _family("parameter", PARAMETER, free=True),
        _family("raises", ERROR, free=True),
        _family("version", by_pattern(_VERSION, "version|deprecated")),
        _family("language", by_attribute("language", language_of)),
        _family("approach", APPROACH),
        _family("uses", CALL, free=True),
        _family("comments", by_pattern(_COMMENT, "#|//|/*")),
        _family("complexity", by_pattern(r"\bO\([^)\n]{1,40}\)", "o(", re.MULTILINE)),
        _family("library", by_attribute("library"), free=True),
        _family("at_most_steps", by_count(count_steps, STEP_BOUNDS, at_least=False), free=True),
        _family("at_least_steps", by_count(count_steps, STEP_BOUNDS, at_least=True), free=True),
        _family("operation", by_patterns(_OPERATIONS)),
        _family("decimals", by_pattern(r"(?<![\w.])\d+\.\d+(?![\w.]\d)", ".")),
        _family("unknown", by_pattern(_UNKNOWN, "", re.MULTILINE)),
        _family(
            "total",
            by_pattern(r"\b(?:total|altogether|in all|combined|sum)\b", "total|altog|in all|combined|sum"),
        ),
        _family("arithmetic", by_pattern(r"\d[^=\n]{0,80}= *[^\s\d]{0,2}\d", "=")),
        _family("answer_line", by_pattern(r"^#### |\b(?:final )?answer is\b|^answer:", "####|answer")),
    )
}

_PROSE = words(
    """
    mentions names discusses number percentage example caveat reason comparison reader definition advice further_reading
    quotation question figure process benefit attribution uncertainty superlative kinds purpose list at_most_words
    at_least_words
    """
)
OF_KIND: Mapping[Kind, frozenset[str]] = {
    "text": _PROSE | words("year money measure date history risk place total"),
    "documentation": _PROSE
    | words(
        """
        code_sample source section parameter raises version uses complexity library default performance shape data_type
        missing_values
        """
    ),
    "code": words("language approach uses comments complexity library source raises at_most_words at_least_words"),
    "mathematics": words(
        """
        mentions names discusses number percentage money measure reason superlative at_most_steps at_least_steps
        operation decimals unknown total arithmetic answer_line at_most_words at_least_words list
        """
    ),
}
"""The families that say something sensible of each kind of text."""
