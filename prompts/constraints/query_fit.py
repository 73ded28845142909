"""Which families go with a query of prose: nobody who asks for a phone number wants it without its history.

    query --the first of `_SUBJECTS` that it is about--> the families that its askers might name as well

What the query itself asks for (a cause, a price, a date) is never among them: `_ASKED` takes it from every subject.
"""

import re
from collections.abc import Iterable, Mapping

Subject = tuple[re.Pattern[str], frozenset[str]]

_ANY = frozenset({"reader", "attribution", "list", "at_most_words", "at_least_words"})
_LOOKED_UP = frozenset({"attribution", "at_most_words"})
"""What goes with a query that one word or number answers: nobody cares how the sentences around it speak."""
_FACTS = frozenset({"year", "percentage"})
_MANNERS = frozenset({"example", "caveat", "reason", "definition", "advice", "process", "kinds"})
_VIEWS = frozenset({"history", "benefit", "risk"})
_ALL = _ANY | _FACTS | _MANNERS | _VIEWS | {"money", "date"}
_OTHER = _ALL - {"risk", "benefit", "advice"}
_ILLNESS = _ALL - {"history", "money", "kinds", "risk", "benefit"}


_ASKED: Mapping[str, tuple[str, ...]] = {
    "reason": ("causes?", "caused", "why", "reasons?", "indicates?", "signs?", "symptoms?", "due to"),
    "risk": ("side effects?", "risks?", r"danger\w*", "safe", r"harm\w*", r"poison\w*", "toxic"),
    "benefit": ("benefits?", "good for", "advantages?", "helps?"),
    "process": ("how (?:to|do|does|can|did|is|are|should)",),
    "kinds": ("types?", "kinds?", "differences?", "versus", "vs"),
    "example": ("types?", "kinds?", "examples?", "differences?", "versus", "vs"),
    "definition": ("what(?:'s| is| are| was| were| does| do)?", r"defin\w+", r"mean(?:s|ing)?"),
}
"""The words of queries that ask for what a family demands; to demand or to ban it would be senseless."""


def _words(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)


def _subject(families: frozenset[str], *words: str) -> Subject:
    """A subject, known by one of the words, each a pattern of whole words."""
    return _words(words), families


_SUBJECTS: tuple[Subject, ...] = (
    _subject(
        frozenset({"at_most_words"}),
        "(?:phone|fax|npi|routing|toll free|contact|help ?desk|customer service) (?:number|line)",
        "(?:phone|telephone|customer service|support) .*number",
        "(?:zip|postal|area) code",
        "address|log ?in|website|(?:opening|office|store) hours|ssn",
    ),
    _subject(_LOOKED_UP | {"percentage"}, "weather|temperatures?|climate|forecast|rain|snow|dew point"),
    _subject(
        _LOOKED_UP | {"percentage", "history"},
        "count(?:y|ies)|where|located?|location|populations?|capital|time ?zone|distance|how far|islands?|airports?",
        "(?:what|which) (?:city|state|country|continent|district)",
        "part of (?:the )?(?:world|country)",
    ),
    _subject(
        _ANY | {"example", "history", "kinds", "year"},
        r"mean(?:s|t|ing)?|defin\w+|stands? for|acronym|abbreviation|synonyms?|pronounce\w*|etymology",
    ),
    _subject(
        _LOOKED_UP | _FACTS | {"example", "reason", "caveat", "advice"},
        r"costs?|pric\w+|salar\w+|wages?|pay|paid|worth|fees?|earn\w*|income|tax(?:es)?|rates?|make a year",
        "how much (?:money|do|did|is|are)",
    ),
    _subject(
        _LOOKED_UP | {"percentage", "reason", "history"},
        "when|dates?|month|(?:what|which) (?:year|day|century|decade|time)",
    ),
    _subject(
        _LOOKED_UP | {"percentage", "example", "caveat", "advice"},
        "how (?:many|much|long|old|tall|big|deep|thick|heavy|wide|high|fast|large|late|often|bright|strong|cold)",
        r"calories?|width|height|weight of|size|number of|percent\w*|average|age|speed",
    ),
    _subject(
        _LOOKED_UP | {"quotation", "year", "date", "money"},
        "who|author|founder|actor|actress|singer|married|born|real name",
    ),
    _subject(_ILLNESS, *_ASKED["reason"], *_ASKED["risk"], *_ASKED["benefit"]),
    _subject(
        _ILLNESS | {"kinds"},
        r"treat\w*|dos(?:e|es|age|ages|ing)|drugs?|medic\w+|diseases?|cancer|infect\w+|pregnan\w+|vitamins?",
        r"blood|pain|vaccin\w+|syndrome|disorders?",
    ),
    _subject(_ALL - {"definition", "history"}, *_ASKED["process"]),
    _subject(_OTHER, *_ASKED["kinds"]),
    _subject(_ALL - {"benefit"}, "used? (?:for|to)", "purpose", "function"),
)


def families_for(query: str) -> frozenset[str]:
    """The families of prose that somebody with this query might ask for as well."""
    query_families = {family for family, words in _ASKED.items() if _words(words).search(query)}
    return next((families for pattern, families in _SUBJECTS if pattern.search(query)), _OTHER) - query_families


def asks_for_a_fact(query: str) -> bool:
    """Whether a word or a number answers the query, so that nobody asks for an answer of some length."""
    return families_for(query).isdisjoint({"example", "caveat"})
