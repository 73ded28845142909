"""Detectors of what prose and documentation say: phrases, numbers, and patterns of English.

Each pattern of English has two widths. The narrow one finds what every reader would accept; the loose one finds what a
reader might accept, so that a denial is used only where nothing of the kind stands. Families whose meaning no pattern
decides (places, for one) are not here.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter

from foil.prompts.constraints.detectors import (
    Attributes,
    Detector,
    Finder,
    by_occurrences,
    by_pattern,
    by_patterns,
    fold_text,
)
from foil.prompts.constraints.phrases import Phrases, phrases_of

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


def _has_word_of(text: str, _: Attributes, value: str) -> bool:
    """Whether the beginning of a longer word of the phrase stands anywhere in the text."""
    folded = fold_text(text)
    return any(word[:5] in folded for word in fold_text(value).split() if len(word) > 3)


def _by_phrases(find: Finder, select: Callable[[Phrases], Iterable[str]]) -> Detector:
    """Offers phrases that `find` confirms: outside ASCII, and next to "_", a phrase may end where a word does not."""

    def offer(text: str, _: Attributes) -> Iterable[str]:
        phrases = select(phrases_of(text))
        plain = text.isascii() and "_" not in text
        return phrases if plain else [phrase for phrase in phrases if find(text, {}, phrase) >= 0]

    return Detector(find, offer, _has_word_of)


_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|(?<![\w.,])\d+(?:\.\d+)?(?!\w)")
_YEAR = re.compile(r"(?<![\w.,$€£-])(?:1[5-9]|20)\d\d(?![\w%])(?![.,]\d)")
_ANY_YEAR = re.compile(r"(?<!\d)(?:1\d|20)\d\d(?!\d)|\bcentur|\b(?:19|20)\d0s\b")


def _numbers(text: str) -> Iterator[tuple[str, int]]:
    return ((match.group(), match.start()) for match in _NUMBER.finditer(text))


_BYLINE = re.compile(
    r"(?:\b(?:posted|answered|asked|updated|published|reviewed|review|retrieved|copyright|edited|photo|by)\b|\u00a9|\(c\))"
    r"[^.!?]{0,40}$",
    re.IGNORECASE,
)
"""What stands before the date of a page, which is no part of what it says."""


def _years(text: str) -> Iterator[re.Match[str]]:
    return (m for m in _YEAR.finditer(text) if not _BYLINE.search(text[max(0, m.start() - 60) : m.start()]))


def _find_year(text: str, _: Attributes, value: str) -> int:
    return next((match.start() for match in _years(text) if value in ("", match.group())), -1)


def _offer_years(text: str, _: Attributes) -> Iterable[str]:
    years = dict.fromkeys(match.group() for match in _years(text))
    return (*years, "") if years else ()


MENTION = _by_phrases(_find_mention, attrgetter("terms"))
NAME = _by_phrases(_find_name, attrgetter("names"))
NUMBER = by_occurrences(_numbers, lambda number: len(number) > 1 and not _YEAR.fullmatch(number))
YEAR = Detector(
    _find_year, _offer_years, lambda text, _, value: value in text if value else bool(_ANY_YEAR.search(text))
)
_NUMERAL = (
    r"(?:\d[\d.,/]{0,11}|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty))[ -]?"
)
_UNITS = {
    "duration": r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|decades?|centuries)\b",
    "distance": r"(?:mm|cm|km|kilomet(?:er|re)s?|met(?:er|re)s?|miles?|feet|foot|ft|inch(?:es)?|yards?)\b",
    "weight": r"(?:mg|grams?|kg|kilograms?|lbs?|pounds?|ounces?|oz|tons?|tonnes?)\b",
    "temperature": r"(?:[°º](?! ?[\dNSEW′'’])|degrees? (?:[CF]|Celsius|Fahrenheit|celsius|fahrenheit)\b)",
    "volume": r"(?:ml|lit(?:er|re)s?|gallons?|cups?|pints?|quarts?|tablespoons?|teaspoons?)\b",
    "data": r"(?:KB|MB|GB|TB|[Kk]ilobytes?|[Mm]egabytes?|[Gg]igabytes?|bytes?|bits?)\b",
}
MEASURE = by_patterns(
    {unit: (_NUMERAL + pattern, "") for unit, pattern in _UNITS.items()}
    | {"time": (r"\b\d{1,2}(?::\d\d)? ?(?:[ap]\.m\.|[AP]\.?M\b|[ap]m\b)", "")},
    {unit: rf"\b{pattern}|\d{pattern}" for unit, pattern in _UNITS.items()}
    | {"temperature": r"°|º|degree|hot|cold|warm", "time": r"\d ?[ap]\.?m|\d:\d\d|o'clock|noon|midnight|morning"},
)
_LIST_ITEM = r"[ \t]*(?:[-*•+]|\d{1,2}[.)]) \S"
PERCENTAGE = by_pattern(r"\d ?%|\d per ?cent\b", "%|cent", loose=r"%|per ?cent|\bhalf\b|\bthirds?\b|\bquarter")
MONEY = by_pattern(
    r"[€£] ?\d|\$ ?\d[\d,.]*(?![\d,.]*[^$\n]{0,12}\$)|\b\d[\d.,]* ?(?:dollars?|euros?|cents|USD|pounds sterling)\b",
    "$|€|£|dollar|euro|cents|usd|sterling",
    loose=r"[$€£]|dollars?|euros?|\bcents?\b|\bpounds?\b|\bprice|\bcost|\bfees?\b|salar|\bwages?\b|money|\bpa(?:y"
    r"|id)|rupee|\byen\b",
)
EXAMPLE = by_pattern(
    r"\b(?:for example|for instance)\b|^[ \t]*Examples?:?[ \t]*$|^[ \t]*>>> ",
    "example|instance|>>>",
    loose=r"exampl|instance|such as|e\.g|>>>|includ|\blike\b|illustrat|namely|\(",
)
CAVEAT = by_pattern(
    r"\b(?:caution\b|beware\b|be careful\b|warning:|except (?:for|that|when|in)\b)",
    "caution|warning|careful|beware|except",
    loose=r"\b(?:however|but|although|though|while|except|only|not|n't|may|might|caution|warn|careful|unless|limit"
    r"|note|avoid|never|must|yet|despite|rarely|some)",
)
REASON = by_pattern(
    r"\b(?:because|due to|caused by|the reasons? (?:for|why|is|that)|is why|owing to)\b",
    "cause|due to|reason|is why|owing",
    loose=r"caus|\bdue\b|reason|therefore|hence|\bthus\b|result|\bsince\b|\bso\b|\bwhy\b|\blead|owing|thanks|\bas\b"
    r"|stem|\bsigns? of\b|symptom|indicat|trigger|factor|explain|link|associat|contribut|underl|\bdriv",
)
COMPARISON = by_pattern(
    r"\b(?:compared (?:to|with)|in comparison|in contrast|unlike|whereas|differs? from|different from|as opposed to)\b"
    r"|\b(?:more|less|fewer|\w{3,}er) \w*? ?than (?!\d|\$|one|two|three|four|five|six|seven|eight|nine|ten|half|a "
    r"|just)",
    "compar|unlike|whereas|contrast|than|differ|opposed",
    loose=r"\bthan\b|compar|unlike|whereas|\bwhile\b|contrast|similar|\bsame\b|equivalent|instead|differ|\blike\b"
    r"|versus"
    r"|\bvs\b|\bboth\b|\balike|\bother|relative|\w{3,}est\b|\bmost\b",
)
READER = by_pattern(
    r"\byou(?:r|rs|rself)?\b(?=[^.!?]*[.!?]\s[\s\S]*?\byou(?:r|rs|rself)?\b)",
    "you",
    loose=r"\byou|looking for|sign up|click|contact us|call us|choose from"
    r"|(?:^|[.!?:] )(?:Looking|Choose|Find|Check|Click|Call|Visit|See|Learn|Get|Try|Use|Contact|Browse|Sign"
    r"|Read|Enter|Select|Add|Make|Take|Keep|Think|Let|Do|Don't|Never|Always|Ask|Buy|Book|Search|Compare|Discover|Explore)\b",
)
DEFINITION = by_pattern(
    r"\b(?:is|are) defined as\b|\bthe term \S+(?: \S+){0,3} (?:means|refers|is|describes)\b|\brefers to (?:an?|the"
    r"|any)\b"
    r"|\bmeans that\b|\bstands for\b|\bdefinition of\b|\bis the (?:term|name) (?:for|given)\b",
    "defin|refers|means|stands|term|name",
    loose=r"defin|called|refer|mean|known|stand|\bterm|\bi\.e|\bnamed?\b|\b(?:is|are|was) (?:an?|the|any|when)\b"
    r"|[:=—–]",
)
ADVICE = by_pattern(
    r"\b(?:you|one|we|patients|people|parents|women|men|children|adults|everyone|anyone|owners|drivers"
    r"|students) should\b"
    r"|\b(?:is|are|we|experts|doctors) recommend(?:s|ed)?\b|\badvisable\b|\bit is best to\b|\bmake sure\b"
    r"|\bbe sure to\b",
    "should|recommend|advis|best|sure",
    loose=r"should|must|need|recommend|advis|suggest|\bbest\b|consider|prefer|avoid|important|\btip|never|always|ought"
    r"|\bdo not\b|n't|sure|\btry\b|\bcan\b|better|help|use\b",
)
REFERENCE = by_pattern(
    r"https?://|\bwww\.|\bsee also\b|\bet al\b|^[ \t]*\.\. \[\w+\]|\[\d+\]_",
    "http|www.|see also|et al|.. [|]_",
    loose=r"http|www\.|\bsee\b|et al|\[\w+\]|refer|\bcf\b|read more|click|source|accord|wikipedia|link|\.com|\.org",
)
QUOTATION = by_pattern(r"[\"“][A-Z](?:[^\"“”\s]* ){5,30}[^\"“”\s]*[\"”]", '"|“', loose=r"[\"“”‘’'`]")
_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Aug|Sept?|Oct|Nov|Dec"
)
DATE = by_pattern(
    rf"\b(?:{_MONTHS})\.? \d|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})\b",
    ignore_case=False,
    loose=rf"\b(?:{_MONTHS})|day\b|\d[/-]\d|\bdate|\bmonth|week|(?<!\d)(?:1\d|20)\d\d(?!\d)",
)
FIGURE = by_pattern(
    r"(?<![\w.])\d",
    loose=r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|half|twice|dozen|hundred|thousand|million"
    r"|billion|first"
    r"|second|third|zero)s?\b",
)
HISTORY = by_pattern(
    r"\b(?:was|were) (?:first |originally )?(?:founded|invented|discovered|established|introduced|settled)\b"
    r"|\boriginat(?:ed|es) (?:in|from|as|with)\b|\bdates? back\b|\bin ancient\b|\bfirst (?:used|built|made"
    r"|introduced|appeared)\b"
    r"|\b(?:1\d|20)th[ -]century\b|\bhistory of\b",
    "histor|origin|found|invent|discov|establ|ancient|centur|dat|intro|first|settl",
    loose=r"histor|origin|ancient|centur|(?<!\d)(?:1\d|20)\d\d(?!\d)|\bago\b|beg[ai]n|found|establish|invent|discover"
    r"|introduc|first|former|\bold|\bpast\b|tradition|early|develop|creat|derive|\bwas\b|\bwere\b|\b\w{2,}ed\b",
)
PROCESS = by_pattern(
    r"\b[Ss]tep (?:\d|one|two)\b|(?:^|[.:;!] )(?:First(?:ly)?|To (?:start|begin)),? [^\n]{10,300}?"
    r"\b(?:[Tt]hen|[Nn]ext|[Ss]econd(?:ly)?|[Ff]inally|[Aa]fter that|[Oo]nce)\b",
    "step|first|start|begin",
    ignore_case=False,
    loose=r"\bsteps?\b|first|\bthen\b|\bnext\b|final|proce|instruction|\bafter\b|\bbefore\b|beg[ai]n|start|\bonce\b"
    r"|how to"
    r"|^\s*\d[.)]|method|\bby \w+ing",
)
BENEFIT = by_pattern(
    r"\bbeneficial (?:for|to)\b|\badvantages? (?:of|is|are)\b|\bhealth benefits?\b|\bbenefits of (?!the (?:plan"
    r"|policy))"
    r"|\bhelps? (?:to |you )?(?:reduce|prevent|improve|protect|relieve|lower|maintain|strengthen|ease|treat|boost"
    r"|fight)\b"
    r"|\bis (?:good|useful|helpful) for\b",
    "benefi|advantag|help|useful|good",
    loose=r"benefi|advantag|help|improv|useful|effectiv|conveni|eas(?:y|ier|e)|good|better|best|reduc|protect"
    r"|prevent|ideal"
    r"|allow|great|enabl|support|save|popular|import|health|strong|safe|can\b",
)
RISK = by_pattern(
    r"\brisks? (?:of|for|factors?)\b|\bside effects?\b|\bcan (?:cause|lead to|damage|harm|kill|be (?:fatal"
    r"|dangerous|harmful|deadly))\b"
    r"|\bdangerous\b|\bharmful\b|\bpoisonous\b|\btoxic\b|\blife-threatening\b|\bdeadly\b|\bfatal\b",
    "risk|dang|harm|damag|side|cause|lead|kill|fatal|poison|toxic|threat|dead",
    loose=r"risk|dang|harm|damag|side effect|diseas|injur|infec|pain|symptom|fail|death|\bdie|dead|kill|poison|toxi"
    r"|cancer"
    r"|disorder|illness|problem|severe|fatal|hazard|threat|safe|loss|bleed|attack|crim|war\b|caus|complicat|warn"
    r"|avoid|sick",
)
ATTRIBUTION = by_pattern(
    r"\b[Aa]ccording to (?:(?:the|a|an|this|one|recent|new|some) )?(?:[A-Z]|stud|survey|report|research"
    r"|expert|poll|data)"
    r"|\bstud(?:y|ies) (?:has |have |also |recently )?(?:found|show|suggest|report|conclud"
    r"|indicat)\w*"
    r"|\b[Rr]esearchers (?:have |has )?(?:found|say|said|believe|report|discovered)\w*"
    r"|\b[A-Z][a-z]+ (?:said|says|argued|reported|wrote|claims|claimed)\b",
    "accord|stud|research|sa|argue|report|wrote|claim",
    ignore_case=False,
    loose=r"accord|\bsa(?:id|ys?)\b|stud(?:y|ies)|research|expert|scien|report|survey|found|argu|claim|believ"
    r"|\bstate[sd]\b"
    r"|poll|wrote|publish|author|recommend|\[\w+\]|et al|known|consider|thought|suggest|[\"“]",
)
UNCERTAINTY = by_pattern(
    r"\b(?:might|perhaps|possibly|probably|it is (?:likely|possible)|(?:is|are) (?:thought|believed|likely) to)\b"
    r"|\bseems? to\b|\bappears? to\b",
    "might|perhaps|possib|probab|likely|thought|believed|seem|appear",
    loose=r"\bmay\b|might|could|possib|probab|perhaps|likely|potential|seem|appear|thought|believ|suggest|\bcan\b|about"
    r"|approximat|usual|often|some|roughly|around|estimat|generally|typical|would|should|sometimes",
)
KINDS = by_pattern(
    r"\b(?:two|three|four|five|six|seven|eight|several|many|different|various|main|basic|\d+) (?:\w+ )?"
    r"(?:types|kinds|categories|varieties|classes|forms) of\b|\b(?:is|are|can be) classified (?:as|into|by)\b",
    "type|kind|categ|variet|class|form",
    loose=r"type|kind|categor|compon|consist|class|divid|variet|species|\bforms?\b|includ|group|either|\bparts?\b"
    r"|both|among"
    r"|such as|range|sort|\bmodels?\b|version|breed|\bfirst\b|differ",
)
PURPOSE = by_pattern(
    r"\b(?:is|are|be|been|being|was|were|often|commonly|widely|mainly|usually|also|primarily) used (?:to|for)\b"
    r"|\bthe (?:main |primary )?purpose of\b|\b(?:is|are|was|were) designed (?:to|for)\b"
    r"|\bthe function of\b",
    "used|purpose|designed|function",
    loose=r"\bus(?:e|ed|es|ing|age|eful)\b|purpos|serve|design|in order|function|\brole\b|meant|intend|help|allow"
    r"|appli|goal"
    r"|\baim|enabl|so that|\bto \w+|\bfor\b",
)
DEFAULT = by_pattern(
    r"\bdefaults? (?:is|to|value|=|are)\b|\bby default\b|\(default\b|, default\b|\bdefault:|\bDefault\b",
    "default",
    loose=r"default|omitted|optional|not (?:given|specified|provided)|if None|=",
)
PERFORMANCE = by_pattern(
    r"\bperformance\b|\bfaster\b|\bslower\b|\befficien(?:t|cy|tly)\b|\bspeed(?:s|up)?\b|\bmemory (?:usage|use"
    r"|overhead)\b"
    r"|\boverhead\b",
    "perform|fast|slow|speed|effic|memory|overhead",
    loose=r"perform|fast|slow|speed|effici|memory|overhead|expensiv|optimi|parallel|\btime|cost|copy|copies|quick"
    r"|cache|lazy"
    r"|large|buffer|O\(",
)
_IN_PROSE = r"^(?!.*>>>)(?=.*[a-z]{2,} [a-z]{2,} [a-z]{2,})"
"""The start of a line that says something: no line of code, no printed array."""
SHAPE = by_pattern(
    r"\bndim\b|\bdimension(?:s|al)?\b|\bof shape\b|\bshape (?:of|\(|\w+\.)|\.shape\b",
    "shape|ndim|dimen",
    loose=r"shape|\bndim|dimension|[1-4]-?d\b|\baxis|\baxes|array|matrix|vector|\bsize|\brows?\b|column|\blen",
)
DATA_TYPE = by_pattern(
    r"\bdtypes?\b|\bdata[- ]?types?\b|\bfloat(?:32|64)\b|\bu?int(?:8|16|32|64)\b",
    "type|float|int",
    loose=r"type|float|\bu?int|bool|complex|\bstr|string|object|array|list|dict|tuple|number|byte",
)
MISSING = by_pattern(
    rf"{_IN_PROSE}.*?(?:\bNaNs?\b|\bnan\b|\bNaT\b|\bmissing (?:values?|data|entries)\b|\bNA values?\b"
    r"|\bnulls?\b(?! (?:hypothes|distribution|space)))",
    "na|null|missing",
    ignore_case=False,
    loose=r"\bna[nt]?s?\b|null|missing|empty|none|invalid|mask|inf\b",
)
LIST = by_pattern(
    rf"^{_LIST_ITEM}[^\n]*\n(?:[^\n]*\n){{0,2}}{_LIST_ITEM}",
    "\n",
    loose=rf"^{_LIST_ITEM}|\n\s*\n|^\w[^\n]{{0,40}}:\s*$",
)
VERSION = by_pattern(
    r"\bversion(?:added|changed)\b|\bdeprecated\b|\b(?:new|added|changed) in version\b|\bsince version\b",
    "version|deprecated",
    loose=r"version|\bsince\b|deprecat|remov|chang|\bnew\b|\badded\b|\d+\.\d+|legacy|future|longer",
)
CODE_SAMPLE = by_pattern(
    r"^[ \t]*>>> |^```|::\n\n[ \t]+\S", ">>>|```|::", loose=r">>>|```|::|^[ \t]{4,}\S.*[=(]|\w\(.*\)|`"
)
COMPLEXITY = by_pattern(
    r"\b(?:[Cc]omplexity|[Rr]untime|[Tt]ime|[Ss]pace|[Mm]emory|[Cc]osts?|[Ss]cales|[Rr]uns|operations?)\b[^\n]{0,60}"
    r"\bO\([^)\n]{1,40}\)|^[^\n]{0,9}\bO\([^)\n]{1,40}\) (?:time|space|memory)",
    "o(",
    ignore_case=False,
    loose=r"\bO *\(|complexity|linear|quadratic|log n",
)


def _is_from(year: str, period: str) -> bool:
    bound = int(period.partition(" ")[0] if period.endswith(" or later") else period.removeprefix("before "))
    return int(year) >= bound if period.endswith(" or later") else int(year) < bound


def _find_published(text: str, attributes: Attributes, value: str) -> int:
    year = attributes.get("year", "")
    return text.find(year) if year and _PERIOD.fullmatch(value) and _is_from(year, value) else -1


def _offer_published(text: str, attributes: Attributes) -> Iterable[str]:
    """The nearest lustrum on either side of the year."""
    year = int(attributes.get("year") or 0)
    periods = [f"{year // 5 * 5} or later", f"before {year // 5 * 5 + 5}"] if year else []
    return [period for period in periods if _find_published(text, attributes, period) >= 0]


def _surnames(attributes: Attributes) -> list[str]:
    return [name for name in attributes.get("author", "").split("; ") if name]


def _find_author(text: str, attributes: Attributes, value: str) -> int:
    return text.lower().find(value.lower()) if value in _surnames(attributes) else -1


PUBLISHED = Detector(_find_published, _offer_published, lambda _text, attributes, _value: not attributes.get("year"))
"""When a paper appeared, as its record says: "before 1970" or "1970 or later"."""
AUTHOR = Detector(
    _find_author,
    lambda text, attributes: [n for n in _surnames(attributes) if _find_author(text, attributes, n) >= 0],
    lambda text, attributes, value: not _surnames(attributes) or value.lower() in text.lower(),
)
"""Who wrote a paper, by surname, as its record says."""
_PERIOD = re.compile(r"before (?:19|20)\d\d|(?:19|20)\d\d or later")
