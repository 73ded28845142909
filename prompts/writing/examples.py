"""The examples that stand in prompts: 24 of our own for each kind of text, of which one is drawn for each prompt.

    example_for(kind, number) -> TopicExample        web pages, programs, worked solutions; prompts/examples/*.jsonl

So no example stands in more than 5 % of the prompts of a run; what is copied from one is found (`checks.echo_of`).
Instructions come in Promptriever's lengths, with means of 40, 84, 107 and 181 words as published, and in one
of a line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from foil.prompts.constraints.families import Kind
from foil.prompts.constraints.instructions import Length
from foil.prompts.passages.answering import stems

WORDS: Mapping[Length, int] = {"brief": 12, "short": 40, "medium": 84, "long": 107, "very_long": 181}
"""Mean words of an instruction in each length format (Promptriever, section 3.1; `brief` is ours)."""
_FOLDER = Path(__file__).parent.parent / "examples"
_FILES: Mapping[str, str] = {"code": "code", "mathematics": "mathematics"}


@dataclass(frozen=True, slots=True)
class NegativeExample:
    """A passage that answers the query and breaks the instruction, and in which way."""

    category: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class TopicExample:
    """A topic in small: `i_plus` and `i_minus` by length format, the questions behind them, and five passages."""

    id: str
    style: str
    query: str
    title: str
    p_plus: str
    demands: tuple[str, ...]
    bans: tuple[str, ...]
    i_plus: Mapping[Length, str]
    demands_minus: tuple[str, ...]
    bans_minus: tuple[str, ...]
    i_minus: Mapping[Length, str]
    p1_minus: str
    q_minus: str
    p2_minus: str
    negatives: tuple[NegativeExample, ...]
    language: str = ""


@cache
def examples_of(kind: str) -> Sequence[TopicExample]:
    """All examples of a kind of text."""
    path = _FOLDER / f"{_FILES.get(kind, 'web')}.jsonl"
    return tuple(_example(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())


def example_for(kind: Kind, number: int, style: str = "") -> TopicExample:
    """The example that a number draws; of those with this style, where one is given."""
    examples = [e for e in examples_of(kind) if style in ("", e.style)]
    return examples[number % len(examples)]


@cache
def own_words(example_id: str, kind: str) -> frozenset[str]:
    """The stems of an example's query, questions and passages that no other example of its kind has."""
    by_id = {
        e.id: stems(" ".join((e.query, e.p_plus, e.p1_minus, *e.demands, *e.demands_minus))) for e in examples_of(kind)
    }
    return by_id[example_id].difference(*(words for id_, words in by_id.items() if id_ != example_id))


@cache
def _wordings() -> Sequence[Mapping[str, str]]:
    lines = (_FOLDER / "wordings.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def wording_example(number: int, form: str = "", tone: str = "") -> Mapping[str, str]:
    """A reworded query and a worded demand that a number draws; of this form or this tone, where one is given."""
    examples = [e for e in _wordings() if form in ("", e["form"]) and tone in ("", e["tone"])]
    return examples[number % len(examples)]


def _example(record: Mapping[str, Any]) -> TopicExample:
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in record.items()}
    values |= {name: _by_length(record[name]) for name in ("i_plus", "i_minus")}
    values["negatives"] = tuple(NegativeExample(**each) for each in record["negatives"])
    return TopicExample(**{field.name: values[field.name] for field in fields(TopicExample) if field.name in values})


def _by_length(parts: Sequence[str]) -> dict[Length, str]:
    """A file has the brief, the short and the medium one, and what each longer one says besides."""
    brief, short, medium, *more = parts
    return dict(zip(WORDS, (brief, short, medium, medium + more[0], medium + "".join(more)), strict=True))
