"""How constraint families are said in English: their phrases, read from `wordings.yaml`, and how a phrase is inflected.

    wordings.yaml --load_wordings--> Wording per family;  "mention X" --third_person--> "mentions X"

A phrase is a verb phrase in its base form, so that it fits after "must" and after "a passage that". A reason is a
sentence that stands before the demand and demands nothing itself. Each sentence of "(My|Our) class" is as likely as any
other of its family, so that none becomes common.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from foil.engine.errors import UsageError

_PHRASES, _REASONS = ("affirm", "deny"), ("why", "spare")
_NEGATION = re.compile(r"\b(?:no|not|without|nothing|none|never|rather|at (?:most|least)|fewer|or more|twice|once)\b")
_SLOT = re.compile(r"\{.*?\}")
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")
_LIBRARIES = {
    "stdlib": "the standard library", "numpy": "NumPy", "scipy": "SciPy", "sklearn": "scikit-learn",
    "torch": "PyTorch", "pyarrow": "PyArrow",
}  # fmt: skip
_IRREGULAR = {"be": "is", "have": "has", "do": "does", "go": "goes", "say": "says"}


@dataclass(frozen=True, slots=True)
class Wording:
    """How a family is said. `values` has the words of each value where the list of values is closed.

    `affirm` and `deny` are verb phrases; `why` and `spare` are sentences that tell why somebody asks for it, or not.
    """

    affirm: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


def load_wordings(text: str) -> Mapping[str, Wording]:
    """The wordings of a data file in YAML, by family. An unknown or missing part and an unknown slot are errors."""
    return {family: _read_entry(family, entry) for family, entry in yaml.load(text, yaml.CSafeLoader).items()}


def _read_entry(family: str, entry: Mapping[str, Any]) -> Wording:
    part_names = (*_PHRASES, *_REASONS, "values")
    unknown_parts = [part for part in entry if part not in part_names]
    if unknown_parts:
        raise UsageError(f"wordings of {family!r}: unknown part {unknown_parts[0]!r}; use {', '.join(part_names)}")
    missing_parts = [part for part in part_names[:-1] if not entry.get(part)]
    if missing_parts:
        raise UsageError(f"wordings of {family!r}: no phrases under `{missing_parts[0]}`")
    parts = {part: tuple(_sentences(entry[part])) for part in part_names[:-1]}
    for phrase in (phrase for phrases in parts.values() for phrase in phrases):
        if set(_SLOT.findall(phrase)) - {"{x}"}:
            raise UsageError(f"wordings of {family!r}: unknown slot in {phrase!r}; the only slot is {{x}}")
    return Wording(**parts, values=entry.get("values", {}))


def _sentences(text: str) -> Iterator[str]:
    """The phrases of a part, each with every choice made: "(My|Our) class" is two."""
    for phrase in text.split("; "):
        fixed_and_choices = _CHOICE.split(phrase)
        yield from map("".join, product(*(text.split("|") for text in fixed_and_choices)))


WORDINGS = load_wordings(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


_WITH_ARTICLE = re.compile(
    r"\b(?:Committee|Department|States|Kingdom|War|Act|Association|Institute|Government|Republic|Union|Ministry|Bureau|"
    r"Administration|Constitution|Senate|Court|Empire|Revolution|River|Ocean|Sea)$"
)


def quote_term(value: str) -> str:
    """A lower-case term in quotation marks, unless it looks like a plural; a name with the article that it takes."""
    if _WITH_ARTICLE.search(value):
        return f"the {value}"
    return f'"{value}"' if value.islower() and (value.endswith("ss") or not value.endswith("s")) else value


def quote_code(value: str) -> str:
    """A name of program code between backticks."""
    return f"`{value}`"


def name_library(value: str) -> str:
    """ "sklearn" -> "scikit-learn": a library as people call it."""
    return _LIBRARIES.get(value, value)


def name_year(value: str) -> str:
    """ "2004" -> "the year 2004"; without a value, any year."""
    return f"the year {value}" if value else "a calendar year"


def can_negate(phrase: str) -> bool:
    """Whether "not" before the phrase makes good English: "not be no longer than" does not."""
    return not _NEGATION.search(phrase)


def negate_phrase(phrase: str) -> str:
    """ "say something about X" -> "not say anything about X"."""
    some_to_any = (
        phrase.replace("something", "anything").replace("somewhere", "anywhere").replace("at least one", "any")
    )
    return f"not {some_to_any}"


def third_person(phrase: str) -> str:
    """ "mention X" -> "mentions X"; "not mention X" -> "does not mention X"."""
    verb, _, rest = phrase.partition(" ")
    if verb == "not":
        return "is not " + rest[3:] if rest.startswith("be ") else f"does {phrase}"
    if verb in _IRREGULAR:
        inflected = _IRREGULAR[verb]
    elif verb.endswith(("s", "sh", "ch", "x", "z")):
        inflected = verb + "es"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        inflected = verb[:-1] + "ies"
    else:
        inflected = verb + "s"
    return f"{inflected} {rest}"


def plural(phrase: str) -> str:
    """ "be short" -> "are short"; "not mention X" -> "do not mention X"."""
    if phrase.startswith("not "):
        return "are not " + phrase[7:] if phrase.startswith("not be ") else f"do {phrase}"
    return "are " + phrase[3:] if phrase.startswith("be ") else phrase
