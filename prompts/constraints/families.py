"""The families of verifiable constraints, one record each: what it looks for, where it fits, and how it is said.

`Constraint.holds` asks a family's detector and nothing else. To add a family: a detector, a record in `FAMILIES`, and
its phrases in `wordings.yaml`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from foil.engine.errors import UsageError
from foil.prompts.constraints import code_detectors as code
from foil.prompts.constraints import detectors as general
from foil.prompts.constraints import mathematics_detectors as mathematics
from foil.prompts.constraints import text_detectors as text
from foil.prompts.constraints.detectors import Detector, by_attribute
from foil.prompts.constraints.wordings import WORDINGS, Wording, name_library, name_year, quote_code, quote_term

Kind = Literal["text", "abstract", "documentation", "code", "mathematics"]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of requirement. `free` families take any text as value, the others one of a closed list or none.

    `weight`: how soon recipes try the family; rare families weigh more, and with 0 none draws it. `kinds`: the kinds of
    text that it suits.
    `display` puts a value of a free family into words. `deniable`: people also ask for its absence.
    """

    name: str
    detector: Detector
    weight: float
    kinds: frozenset[Kind]
    wording: Wording
    free: bool = False
    display: Callable[[str], str] = str
    deniable: bool = True

    def __post_init__(self) -> None:
        wording = self.wording
        needed = {"weight": self.weight >= 0, "kinds": self.kinds, "affirm": wording.affirm, "deny": wording.deny}
        missing = ", ".join(part for part, value in needed.items() if not value)
        if missing:
            raise UsageError(f"constraint family {self.name!r} lacks {missing}; see families.py and wordings.yaml")
        takes_value = self.free or bool(wording.values)
        for phrase in (*wording.affirm, *wording.deny):
            if ("{x}" in phrase) is not takes_value:
                rule = "has no {x}, yet the family takes a value" if takes_value else "has {x}, yet there is no value"
                raise UsageError(f"constraint family {self.name!r}: the phrase {phrase!r} {rule}")

    def describe_value(self, value: str) -> str:
        """The value in words."""
        return self.wording.values[value] if self.wording.values else self.display(value)


def _family(
    name: str,
    detector: Detector,
    weight: float,
    kinds: frozenset[Kind],
    *,
    free: bool = False,
    display: Callable[[str], str] = str,
    deniable: bool = True,
) -> Family:
    return Family(name, detector, weight, kinds, WORDINGS.get(name, Wording()), free, display, deniable)


def index_families(*families: Family, wordings: Mapping[str, Wording] = WORDINGS) -> Mapping[str, Family]:
    """The families by name. A wording that belongs to no family is an error."""
    by_name = {family.name: family for family in families}
    unknown = [name for name in wordings if name not in by_name]
    if unknown:
        raise UsageError(
            f"wordings.yaml has the unknown constraint family {unknown[0]!r}; use one of {', '.join(by_name)}"
        )
    return by_name


TEXT: frozenset[Kind] = frozenset({"text"})
DOCS: frozenset[Kind] = frozenset({"documentation"})
CODE: frozenset[Kind] = frozenset({"code"})
MATH: frozenset[Kind] = frozenset({"mathematics"})
PAPER: frozenset[Kind] = frozenset({"abstract"})

FAMILIES: Mapping[str, Family] = index_families(
    _family("mentions", text.MENTION, 0.5, PAPER, free=True, display=quote_term),
    _family("published", text.PUBLISHED, 1.0, PAPER, free=True, deniable=False),
    _family("author", text.AUTHOR, 1.0, PAPER, free=True),
    _family("names", text.NAME, 0.0, TEXT, free=True),
    _family("number", text.NUMBER, 0.0, TEXT, free=True),
    _family("year", text.YEAR, 0.0, TEXT, free=True, display=name_year, deniable=False),
    _family("percentage", text.PERCENTAGE, 3.0, TEXT, deniable=False),
    _family("money", text.MONEY, 3.0, TEXT, deniable=False),
    _family("measure", text.MEASURE, 0.0, TEXT, deniable=False),
    _family("example", text.EXAMPLE, 3.0, TEXT),
    _family("caveat", text.CAVEAT, 3.0, TEXT),
    _family("reason", text.REASON, 0.0, TEXT),
    _family("comparison", text.COMPARISON, 0.0, TEXT),
    _family("reader", text.READER, 1.2, TEXT),
    _family("definition", text.DEFINITION, 2.5, TEXT, deniable=False),
    _family("advice", text.ADVICE, 3.0, TEXT, deniable=False),
    _family("further_reading", text.REFERENCE, 0.0, DOCS),
    _family("quotation", text.QUOTATION, 0.0, TEXT),
    _family("date", text.DATE, 0.0, TEXT),
    _family("figure", text.FIGURE, 0.0, TEXT),
    _family("history", text.HISTORY, 2.5, TEXT, deniable=False),
    _family("process", text.PROCESS, 2.5, TEXT, deniable=False),
    _family("benefit", text.BENEFIT, 0.0, TEXT, deniable=False),
    _family("risk", text.RISK, 2.5, TEXT, deniable=False),
    _family("attribution", text.ATTRIBUTION, 2.5, TEXT, deniable=False),
    _family("uncertainty", text.UNCERTAINTY, 0.0, TEXT),
    _family("kinds", text.KINDS, 0.0, TEXT, deniable=False),
    _family("purpose", text.PURPOSE, 0.0, TEXT),
    _family("default", text.DEFAULT, 2.5, DOCS, deniable=False),
    _family("performance", text.PERFORMANCE, 0.0, DOCS),
    _family("shape", text.SHAPE, 2.0, DOCS, deniable=False),
    _family("data_type", text.DATA_TYPE, 1.5, DOCS, deniable=False),
    _family("missing_values", text.MISSING, 3.0, DOCS, deniable=False),
    _family("list", text.LIST, 0.5, TEXT),
    _family("at_most_words", general.AT_MOST_WORDS, 0.2, TEXT, free=True),
    _family("at_least_words", general.AT_LEAST_WORDS, 0.2, TEXT, free=True),
    _family("code_sample", text.CODE_SAMPLE, 2.5, DOCS),
    _family("source", code.SOURCE, 2.0, DOCS | CODE),
    _family("section", code.SECTION, 3.0, DOCS, deniable=False),
    _family("parameter", code.PARAMETER, 2.5, DOCS, free=True, display=quote_code, deniable=False),
    _family("raises", code.ERROR, 3.0, DOCS | CODE, free=True, display=quote_code, deniable=False),
    _family("version", text.VERSION, 3.0, DOCS, deniable=False),
    _family("language", code.LANGUAGE, 0.7, CODE),
    _family("approach", code.APPROACH, 3.0, CODE),
    _family("uses", code.CALL, 0.8, CODE, free=True, display=quote_code),
    _family("comments", code.COMMENT, 3.0, CODE),
    _family("complexity", text.COMPLEXITY, 3.0, DOCS | CODE, deniable=False),
    _family("library", by_attribute("library"), 2.0, DOCS | CODE, free=True, display=name_library),
    _family("namespace", code.NAMESPACE, 1.5, DOCS | CODE, free=True, display=quote_code),
    _family("object_kind", code.OBJECT_KIND, 0.0, DOCS | CODE, deniable=False),
    _family("at_most_steps", general.AT_MOST_STEPS, 3.0, MATH, free=True),
    _family("at_least_steps", general.AT_LEAST_STEPS, 3.0, MATH, free=True),
    _family("operation", mathematics.OPERATION, 0.0, MATH),
    _family("decimals", mathematics.DECIMALS, 1.5, MATH),
    _family("fraction", mathematics.FRACTION, 3.0, MATH),
    _family("unknown", mathematics.UNKNOWN, 3.0, MATH),
    _family("dollar_sign", mathematics.DOLLAR_SIGN, 2.0, MATH),
    _family("times_sign", mathematics.TIMES_SIGN, 1.0, MATH),
    _family("joined", mathematics.JOINED, 3.0, MATH),
    _family("order_words", mathematics.ORDER_WORDS, 3.0, MATH),
    _family("total", mathematics.TOTAL, 0.0, MATH),
    _family("arithmetic", mathematics.ARITHMETIC, 0.0, MATH, deniable=False),
    _family("answer_line", mathematics.ANSWER_LINE, 1.0, MATH),
)
WEIGHTS: Mapping[str, float] = {family.name: family.weight for family in FAMILIES.values() if family.weight}
NAMES_BY_KIND: Mapping[Kind, frozenset[str]] = {
    kind: frozenset(family.name for family in FAMILIES.values() if kind in family.kinds) for kind in get_args(Kind)
}
