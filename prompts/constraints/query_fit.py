"""Which families go with a query of prose: nobody who asks for a phone number wants it told without its history.

    query --the first of `_SUBJECTS` that it is about--> the families that its askers might name as well

What the query itself asks for (a cause, a price, a date) is never among them: it would be no further demand.
"""

import re

Subject = tuple[re.Pattern[str], frozenset[str]]

_ANY = frozenset(
    {"reader", "attribution", "further_reading", "quotation", "list", "at_most_words", "at_least_words", "mentions"}
)
_LOOKED_UP = frozenset({"attribution", "further_reading", "at_most_words"})
"""What goes with a query that one word or number answers: nobody cares how the sentences around it speak."""
_FACTS = frozenset({"year", "percentage"})
_MANNERS = frozenset({"example", "caveat", "reason", "definition", "advice", "process", "kinds", "purpose"})
_VIEWS = frozenset({"history", "benefit", "risk", "uncertainty"})
_ALL = _ANY | _FACTS | _MANNERS | _VIEWS | {"money", "measure", "date"}
_OTHER = _ALL - {"risk", "benefit", "advice", "uncertainty"}
_ILLNESS = _ALL - {"history", "money", "kinds", "purpose"}


def _subject(families: frozenset[str], *words: str) -> Subject:
    """A subject, known by one of the words, each a pattern of whole words."""
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE), families


_SUBJECTS: tuple[Subject, ...] = (
    _subject(
        frozenset({"further_reading", "at_most_words"}),
        "(?:phone|fax|npi|routing|toll free|contact|help ?desk|customer service) (?:number|line)",
        "(?:phone|telephone|customer service|support) .*number",
        "(?:zip|postal|area) code",
        "address|log ?in|website|(?:opening|office|store) hours|ssn",
    ),
    _subject(_LOOKED_UP | {"percentage"}, "weather|temperatures?|climate|forecast|rain|snow|dew point"),
    _subject(
        _LOOKED_UP | {"percentage", "history", "measure"},
        "count(?:y|ies)|where|located?|location|populations?|capital|time ?zone|distance|how far|islands?|airports?",
        "(?:what|which) (?:city|state|country|continent|district)",
        "part of (?:the )?(?:world|country)",
    ),
    _subject(
        _ANY | {"example", "history", "kinds", "purpose", "year"},
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
        _LOOKED_UP | _FACTS | {"example", "reason", "caveat", "advice", "measure"},
        "how (?:many|much|long|old|tall|big|deep|thick|heavy|wide|high|fast|large|late|often)",
        r"calories?|width|height|weight of|size|number of|percent\w*|average|age|speed",
    ),
    _subject(
        _LOOKED_UP | {"quotation", "year", "date", "money"},
        "who|author|founder|actor|actress|singer|married|born|real name",
    ),
    _subject(_ILLNESS - {"reason"}, "causes?|caused|why|reasons?|indicates?|signs?|symptoms?|due to"),
    _subject(_ILLNESS - {"risk"}, r"side effects?|risks?|danger\w*|safe|harm\w*|poison\w*|toxic"),
    _subject(_ILLNESS - {"benefit"}, "benefits?|good for|advantages?|helps?"),
    _subject(
        _ILLNESS | {"kinds", "purpose"},
        r"treat\w*|dos(?:e|es|age|ages|ing)|drugs?|medic\w+|diseases?|cancer|infect\w+|pregnan\w+|vitamins?",
        r"blood|pain|vaccin\w+|syndrome|disorders?",
    ),
    _subject(_ALL - {"process", "definition", "history"}, "how (?:to|do|does|can|did|is|are|should)"),
    _subject(_OTHER - {"kinds", "example"}, "types?|kinds?|examples?|differences?|versus|vs"),
    _subject(_ALL - {"purpose", "benefit"}, "used? (?:for|to)|purpose|function"),
)


def families_for(query: str) -> frozenset[str]:
    """The families of prose that somebody with this query might ask for as well."""
    return next((families for pattern, families in _SUBJECTS if pattern.search(query)), _OTHER)


def asks_for_a_fact(query: str) -> bool:
    """Whether a word or a number answers the query, so that nobody asks for an answer of some length."""
    return families_for(query).isdisjoint({"example", "caveat"})
