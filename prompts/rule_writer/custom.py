"""How the rule writer answers a user's own stages: by exact extractions that the stage names, and nothing else.

    rule: {keywords: keywords, instruction: mention item, text: leave_out item}

A template can ask anything, and no program can guess what. So a stage names the rule that fills each field of its
answer. All rules read the seed's first positive. A stage without rules is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from engine.errors import RefusedRequestError
from engine.ids import canonical_json
from engine.topic import Passage
from prompts.constraints.constraint import Constraint, full_text
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import compose
from prompts.passages.blocks import join, stems
from prompts.passages.seed_material import SeedMaterial


@dataclass(frozen=True, slots=True)
class Rule:
    """`gives` is the type of the field that it fills; `takes` says whether a reference stands behind its name."""

    gives: str
    takes: bool
    fill: Callable[[SeedMaterial, str], Any]


def split_rule(rule_text: str) -> tuple[str, str]:
    """A rule as a stage writes it: its name, and the reference behind it or ""."""
    name, _, reference = rule_text.strip().partition(" ")
    return name, reference.strip()


def _first_sentence(material: SeedMaterial, _: str) -> str:
    return " ".join(material.positives[0].blocks[0].text.split())


def _answer(material: SeedMaterial, _: str) -> str:
    """The blocks that answer the query."""
    source = material.positives[0]
    return join(source.core_blocks) or source.passage.text


def _keywords(material: SeedMaterial, _: str) -> Sequence[str]:
    """Distinctive phrases of the positive, each in one free block alone."""
    source = material.positives[0]
    texts = [source.passage.title, *(f"{b.header}\n{b.text}" for b in source.blocks)]
    keywords: list[str] = []
    for block in source.free_blocks:
        for phrase in FAMILIES["mentions"].detector.offer(block.text, {}):
            taken_stems = stems(f"{material.seed.query} {' '.join(keywords)}")
            if not stems(phrase) & taken_stems and sum(_mentions_term(phrase, text) for text in texts) == 1:
                keywords.append(phrase)
                break
    return keywords


def _leave_out(material: SeedMaterial, term: str) -> str:
    """The positive without the blocks that mention the term; those that answer stay."""
    source = material.positives[0]
    kept = [b for b in source.blocks if b.core or not _mentions_term(term, f"{b.header}\n{b.text}")]
    return source.passage.text if len(kept) == len(source.blocks) else join(kept)


def _demand(material: SeedMaterial, term: str, *, negated: bool = False) -> str:
    constraint = Constraint("mentions", term, negated)
    rng = Random(material.number(canonical_json(constraint.to_json())))
    return compose(rng, [constraint], "short", "plain", material.positives[0].kind)


def _mentions_term(term: str, text: str) -> bool:
    return Constraint("mentions", term).holds(Passage(text, "seed_positive"))


RULES: Mapping[str, Rule] = {
    "first_sentence": Rule("string", False, _first_sentence),
    "answer": Rule("string", False, _answer),
    "keywords": Rule("list", False, _keywords),
    "mention": Rule("string", True, _demand),
    "no_mention": Rule("string", True, partial(_demand, negated=True)),
    "leave_out": Rule("string", True, _leave_out),
    "mentions": Rule("boolean", True, lambda material, term: _mentions_term(term, full_text(material.positive))),
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
    for field, rule_text in rules.items():
        name, reference = split_rule(rule_text)
        value = RULES[name].fill(inputs["material"], _resolve(scope, reference))
        answer[field] = list(value)[: int(inputs["most"][field])] if RULES[name].gives == "list" else value
    return canonical_json(answer)


def _resolve(scope: Mapping[str, Any], reference: str) -> str:
    """The text that a reference means within a stage."""
    name, _, field = reference.partition(".")
    value = scope.get(name, "")
    return str(value.get(field, "") if isinstance(value, Mapping) else value)


CUSTOM_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"custom": _write}
"""One entry for all tasks `custom.NAME`: their rules stand in the facts."""
