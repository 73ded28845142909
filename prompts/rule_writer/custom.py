"""What the rule writer can answer in a user's own stages: exact extractions that the stage names, and nothing else.

    rule: {keywords: keywords, instruction: mention item, text: leave_out item}

A template can ask anything, and no program can guess what; so a stage says for every field of its answer by which rule
it is filled. All rules take their material from the seed's first positive. A stage without rules is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.errors import RefusedRequestError
from engine.ids import canonical_json
from engine.topic import Passage
from prompts.constraints.constraint import Constraint, full_text
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import compose
from prompts.passages.blocks import Cut, join, stems
from prompts.passages.seed_material import Material


@dataclass(frozen=True, slots=True)
class Rule:
    """`gives` is the type of the field that it fills; `takes` says whether a reference stands behind its name."""

    gives: str
    takes: bool
    fill: Callable[[Material, str], Any]


def split_rule(said: str) -> tuple[str, str]:
    """A rule as a stage writes it: its name, and the reference behind it or ""."""
    name, _, reference = said.strip().partition(" ")
    return name, reference.strip()


def _first_sentence(known: Material, _: str) -> str:
    return " ".join(known.positives[0].blocks[0].text.split())


def _answer(known: Material, _: str) -> str:
    """The blocks that answer the query."""
    cut = known.positives[0]
    return join([b for b in cut.blocks if b.core]) or cut.passage.text


def _keywords(known: Material, _: str) -> Sequence[str]:
    """Telling phrases of the positive, each in one block alone, which is none of those that answer."""
    cut = known.positives[0]
    texts = [cut.passage.title, *(f"{b.header}\n{b.text}" for b in cut.blocks)]
    found: list[str] = []
    for block in cut.blocks:
        for word in FAMILIES["mentions"].offer("" if block.core else block.text, {}):
            taken = stems(f"{known.seed.query} {' '.join(found)}")
            if not stems(word) & taken and sum(_in(word, text) for text in texts) == 1:
                found.append(word)
                break
    return found


def _leave_out(known: Material, term: str) -> str:
    """The positive without the blocks that mention the term; those that answer stay."""
    cut = known.positives[0]
    kept = [b for b in cut.blocks if b.core or not _in(term, f"{b.header}\n{b.text}")]
    return cut.passage.text if len(kept) == len(cut.blocks) else join(kept)


def _mention(known: Material, term: str) -> str:
    return _said(known.positives[0], Constraint("mentions", term), known)


def _no_mention(known: Material, term: str) -> str:
    return _said(known.positives[0], Constraint("mentions", term, negated=True), known)


def _said(cut: Cut, constraint: Constraint, known: Material) -> str:
    rng = Random(known.number(canonical_json(constraint.to_json())))
    return compose(rng, [constraint], "short", "plain", cut.kind)


def _in(term: str, text: str) -> bool:
    return Constraint("mentions", term).holds(Passage(text, "seed_positive"))


RULES: Mapping[str, Rule] = {
    "first_sentence": Rule("string", False, _first_sentence),
    "answer": Rule("string", False, _answer),
    "keywords": Rule("list", False, _keywords),
    "mention": Rule("string", True, _mention),
    "no_mention": Rule("string", True, _no_mention),
    "leave_out": Rule("string", True, _leave_out),
    "mentions": Rule("boolean", True, lambda known, term: _in(term, full_text(known.positive))),
    "copy": Rule("string", True, lambda _, text: text),
}
"""name -> what it fills a field with; described for users in docs/custom.md."""


def _write(inputs: Mapping[str, Any]) -> str:
    """The answer of a stage as JSON, by the rules that it names; a list is cut at its `most`."""
    rules, scope = inputs["rule"], inputs["scope"]
    if not rules:
        raise RefusedRequestError(
            "this stage has no `rule`, and the rule writer cannot know what its template asks; "
            "give a rule for every field of its answer (docs/custom.md), or name a hosted or local model for its role"
        )
    answer = {}
    for field, said in rules.items():
        name, reference = split_rule(said)
        value = RULES[name].fill(inputs["material"], _meant(scope, reference))
        answer[field] = list(value)[: int(inputs["most"][field])] if RULES[name].gives == "list" else value
    return canonical_json(answer)


def _meant(scope: Mapping[str, Any], reference: str) -> str:
    """The text that a reference means within a stage."""
    name, _, field = reference.partition(".")
    value = scope.get(name, "")
    return str(value.get(field, "") if isinstance(value, Mapping) else value)


CUSTOM_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"custom": _write}
"""One entry for all tasks `custom.NAME`: their rules stand in the facts."""
