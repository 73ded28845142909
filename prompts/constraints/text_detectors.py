"""Detectors of what prose and mathematics say: phrases, numbers, and patterns of English."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter

from prompts.constraints.detectors import (
    Attributes,
    Detector,
    Finder,
    by_occurrences,
    by_pattern,
    by_patterns,
    fold_text,
)
from prompts.constraints.phrases import Phrases, phrases_of

_PLURAL_ENDINGS = ("", "s", "es")


@lru_cache(maxsize=64)
def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _is_in_word(text: str, offset: int) -> bool:
    """Whether the character at the offset can be part of a word; False where the text ends."""
    character = text[offset : offset + 1]
    return character.isalnum() or character == "_"


def _find_words(text: str, phrase: str, start: int = 0) -> int:
    """Offset of the next whole-word occurrence of the phrase, in the singular or plural; -1 if none."""
    offset = text.find(phrase, start) if phrase else -1
    while offset >= 0:
        end = offset + len(phrase)
        if not (_is_in_word(text, offset - 1) and _is_in_word(phrase, 0)) and any(
            text.startswith(ending, end) and not _is_in_word(text, end + len(ending)) for ending in _PLURAL_ENDINGS
        ):
            return offset
        offset = text.find(phrase, offset + 1)
    return -1


def _find_mention(text: str, _: Attributes, value: str) -> int:
    return _find_words(fold_text(text), fold_text(value))


def _find_name(text: str, _: Attributes, value: str) -> int:
    return _find_words(_join_lines(text), value)


def _find_discussion(text: str, _: Attributes, value: str) -> int:
    folded, phrase = fold_text(text), fold_text(value)
    first = _find_words(folded, phrase)
    return first if first >= 0 and _find_words(folded, phrase, first + 1) >= 0 else -1


def _by_phrases(find: Finder, select: Callable[[Phrases], Iterable[str]]) -> Detector:
    """Offers phrases that `find` confirms: outside ASCII a phrase may end where a word does not ("x²")."""

    def offer(text: str, _: Attributes) -> Iterable[str]:
        phrases = select(phrases_of(text))
        return phrases if text.isascii() else [phrase for phrase in phrases if find(text, {}, phrase) >= 0]

    return find, offer


_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|(?<![\w.,])\d+(?:\.\d+)?(?!\w)")
_YEAR = re.compile(r"(?<![\w.,$€£-])(?:1[5-9]|20)\d\d(?![\w%])(?![.,]\d)")


def _numbers(text: str) -> Iterator[tuple[str, int]]:
    return ((match.group(), match.start()) for match in _NUMBER.finditer(text))


def _find_year(text: str, _: Attributes, value: str) -> int:
    return next((match.start() for match in _YEAR.finditer(text) if value in ("", match.group())), -1)


def _offer_years(text: str, _: Attributes) -> Iterable[str]:
    years = dict.fromkeys(_YEAR.findall(text))
    return (*years, "") if years else ()


MENTION = _by_phrases(_find_mention, attrgetter("terms"))
NAME = _by_phrases(_find_name, attrgetter("names"))
DISCUSSION = _by_phrases(_find_discussion, attrgetter("repeated"))
NUMBER = by_occurrences(_numbers, lambda number: len(number) > 1 and not _YEAR.fullmatch(number))
YEAR: Detector = (_find_year, _offer_years)
MEASURE = by_patterns(
    {
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
)
OPERATION = by_patterns(
    {
        "addition": (r"\d[\w $%.,)]{0,25}\+[ (]*\$?\d|\b[Aa]dd(?:s|ed|ing)?\b", "+|add"),
        "subtraction": (r"\d[\w $%.,)]{0,25}[-–−] *\$?\d+[^\n]{0,40}=|\b[Ss]ubtract", "-|–|−|subtract"),
        "multiplication": (
            r"\d[\w $%.,)]{0,25}[*×][ (]*\$?\d|\d *x *\$?\d|\\times|\b[Mm]ultipl",
            "*|×|x|times|multipl",
        ),
        "division": (r"\d[\w $%.,)]{0,25}/[ (]*\$?\d|÷|\\frac|\b[Dd]ivid", "/|÷|frac|divid"),
    }
)
_LIST_ITEM = r"[ \t]*(?:[-*•+]|\d{1,2}[.)]) \S"
MONEY = by_pattern(
    r"[$€£] ?\d|\b\d[\d.,]* ?(?:dollars?|euros?|cents|USD|pounds sterling)\b", "$|€|£|dollar|euro|cents|usd|sterling"
)
EXAMPLE = by_pattern(
    r"\b(?:for example|for instance|such as|e\.g\.)|\bexamples?\b|^[ \t]*>>> ", "example|instance|such as|e.g.|>>>"
)
CAVEAT = by_pattern(
    r"\b(?:however|caution|warnings?|careful(?:ly)?|unless|beware|except(?:ion)?s?|limitations?|note that|although)\b",
    "however|caution|warning|careful|unless|beware|except|limit|note|although",
)
REASON = by_pattern(
    r"\b(?:because|due to|caused by|causes?|reasons?|therefore|hence|thus|as a result)\b",
    "cause|due to|reason|therefore|hence|thus|as a result",
)
COMPARISON = by_pattern(
    r"\b(?:compared?|comparison|unlike|whereas|in contrast|similar to|equivalent to|rather than|instead of"
    r"|differ(?:s|ent|ence|ences)?|than)\b",
    "compar|unlike|whereas|contrast|similar|equivalent|than|instead|differ",
)
DEFINITION = by_pattern(
    r"\b(?:is|are) (?:defined as|called)\b|\brefers? to\b|\bmeans\b|\bdefinition\b|\bknown as\b|\bstands? for\b",
    "defin|called|refer|means|known|stand",
)
ADVICE = by_pattern(
    r"\bshould\b|\brecommend|\badvis|\bit is best\b|\bconsider using\b|\bprefer(?:able|ably|red)?\b",
    "should|recommend|advis|best|consider|prefer",
)
REFERENCE = by_pattern(
    r"https?://|\bwww\.|\bsee also\b|\bet al\b|^[ \t]*\.\. \[\w+\]|\[\d+\]_|\bclick here\b",
    "http|www.|see also|et al|.. [|]_|click here",
)
DATE = by_pattern(
    r"\b(?:January|February|March|April|June|July|August|September|October|November|December|Sunday|Monday|Tuesday|Wednesday"
    r"|Thursday|Friday|Saturday)s?\b|\bMay \d|\b(?:Jan|Feb|Aug|Sept?|Oct|Nov|Dec)\.? \d",
    ignore_case=False,
)
HISTORY = by_pattern(
    r"\b(?:histor(?:y|ic|ical|ically)|origin(?:s|ated|ally)?|(?:was|were) (?:founded|established|introduced)"
    r"|invented|invention|discovered|ancient|centur(?:y|ies)|dates? back|first used)\b",
    "histor|origin|found|invent|discov|establ|ancient|centur|dat|intro|first",
)
PROCESS = by_pattern(
    r"\b(?:steps?|procedures?|instructions?|repeat)\b|\b(?:first|firstly|next|finally),",
    "step|first|next|final|proce|instruction|repeat",
)
BENEFIT = by_pattern(
    r"\b(?:benefi(?:t|ts|cial)|advantag\w+|helps?|helpful|improv\w+|useful|effective(?:ly)?|convenient|easier)\b",
    "benefi|advantag|help|improv|useful|effective|conven|easier",
)
RISK = by_pattern(
    r"\b(?:risks?|danger\w*|harm\w*|damag\w+|side effects?|diseases?|injur\w+|infections?|pain\w*|symptoms?|failures?"
    r"|deaths?|die[sd]?|poison\w*|toxic)\b",
    "risk|dang|harm|damag|side|diseas|injur|infec|pain|sympt|fail|death|die|poison|toxic",
)
PLACE = by_pattern(
    r"\b(?:located|situated|cit(?:y|ies)|county|countr(?:y|ies)|north(?:ern)?|south(?:ern)?|east(?:ern)?|west(?:ern)?"
    r"|United States|U\.S\.|America|Europe|Africa|Asia|Australia|China|India|England|Canada|California"
    r"|Texas|New York|Florida)\b",
    ignore_case=False,
)
ATTRIBUTION = by_pattern(
    r"\b(?:according to|said|says|stud(?:y|ies)|research(?:ers)?|experts?|scientists?|reports?"
    r"|reported|survey|found that|argued?)\b",
    "accord|sa|stud|research|expert|scien|report|survey|found|argue",
)
UNCERTAINTY = by_pattern(
    r"\b(?:may|might|could|possibl[ey]|probabl[ey]|perhaps|likely|potential(?:ly)?|seems?|appears?)\b",
    "may|might|could|possib|probab|perhaps|likely|potential|seem|appear",
)
SUPERLATIVE = by_pattern(
    r"\b(?:most|best|worst|largest|biggest|smallest|highest|lowest|longest|oldest|greatest|fastest)\b", "st"
)
KINDS = by_pattern(
    r"\b(?:types?|kinds?|categor(?:y|ies)|components?|consists? of|classified|divided into|varieties|species)\b",
    "type|kind|categ|compon|consist|class|divid|variet|species",
)
PURPOSE = by_pattern(
    r"\bused (?:to|for|as)\b|\bpurposes?\b|\bserves? (?:to|as)\b|\bdesigned (?:to|for)\b"
    r"|\bin order to\b|\bfunctions? (?:is|as|of)\b",
    "used|purpose|serve|designed|order|function",
)
DEFAULT = by_pattern(r"\bdefaults?\b|\bif (?:omitted|not (?:given|specified|provided))\b", "default|if omitted|if not")
PERFORMANCE = by_pattern(
    r"\b(?:performance|faster|fastest|slow(?:er|ly)?|speed|efficien\w+|memory|overhead|expensive"
    r"|optimi[sz]\w+|parallel\w*)\b",
    "perform|fast|slow|speed|effic|memory|overhead|expens|optim|parallel",
)
SHAPE = by_pattern(r"\b(?:shapes?|ndim|\w*dimension\w*|[1-4]-?D|axis|axes)\b", "shape|ndim|dimen|1|2|3|4|axis|axes")
DATA_TYPE = by_pattern(
    r"\b(?:dtypes?|data types?|float(?:32|64)?|int(?:32|64|egers?)?|bool(?:ean)?|complex|strings?|types?)\b",
    "type|float|int|bool|complex|string",
)
MISSING = by_pattern(r"\b(?:NaNs?|nan|nulls?|NA|NaT|missing|empty)\b", "na|null|missing|empty", ignore_case=False)
LIST = by_pattern(rf"^{_LIST_ITEM}[^\n]*\n(?:[^\n]*\n){{0,2}}{_LIST_ITEM}", "\n")
VERSION = by_pattern(
    r"\bversion(?:added|changed)\b|\bdeprecated\b|\b(?:new|added|changed) in version\b|\bsince version\b",
    "version|deprecated",
)
COMMENT = by_pattern(r"^[ \t]*(?:#(?!include|define|###)|//|/\*)[ !*]?\S|\S  # \S|; +// \S", "#|//|/*")
UNKNOWN = by_pattern(
    r"\b[Ll]et \$?[A-Za-z]\b(?: (?:be|represent|denote|stand)|\$| ?=)"
    r"|(?<![\w'])[A-Za-z] ?= ?\$?\d|\b\d+[a-zA-Z] ?[=+-]",
    ignore_case=False,
)
TOTAL = by_pattern(r"\b(?:total|altogether|in all|combined|sum)\b", "total|altog|in all|combined|sum")
