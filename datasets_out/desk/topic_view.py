"""A topic as a person reads it, as plain data: no terminal and no page is known here.

    Topic -> what became of it, query, instructions with their differing words, passages with their edits, the matrix
             of judgments, verdicts in words

Intents are called I1, I2, ... and passages P1, P2, ... in the order of the topic; sentences use these names.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foil.datasets_out.diff.word_diff import Span, likeness, mark_unshared, plain, shorten, word_diff
from foil.datasets_out.lineage.evidence_words import ROLES, evidence_words, names_of
from foil.engine.topic import ACCEPTED, Intent, Passage, Topic, Verdict

EXCERPT_CHARS = 500
"""Characters of a text that are shown where not all is asked for."""


@dataclass(frozen=True, slots=True)
class IntentView:
    """An instruction and its query. Words that the instruction `compared_with` (a name, or "") lacks are `unshared`.

    `comparison` says so in words; an instruction that occurs twice is compared with itself there, so has no marks.
    """

    name: str
    id: str
    role: str
    instruction: tuple[Span, ...]
    query: tuple[Span, ...]
    compared_with: str
    comparison: str


@dataclass(frozen=True, slots=True)
class PassageView:
    """A passage. Where it is an edit its spans are a word diff against `compared_with`; `edit` says so in words.

    `characters` is the whole text's length, whatever the spans show.
    """

    name: str
    id: str
    role: str
    title: str
    source_id: str
    text: tuple[Span, ...]
    edited_from: str
    edit: str
    compared_with: str
    characters: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """What `view_topic` makes. `outcome` is one sentence; `matrix` is [intents][passages]: +1, -1, or 0 if unjudged."""

    id: str
    status: str
    reason: str
    outcome: str
    query: str
    seed_id: str
    corpus: str
    recipe: str
    rights: str
    intents: tuple[IntentView, ...]
    passages: tuple[PassageView, ...]
    matrix: tuple[tuple[int, ...], ...]
    judges: Mapping[str, int]
    verdicts: tuple[str, ...]
    attributes: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def view_topic(topic: Topic, excerpt: int | None = EXCERPT_CHARS) -> TopicView:
    """The topic as data for a reader; texts of more than `excerpt` characters are shortened (None: never)."""
    names = names_of(topic)
    return TopicView(
        id=topic.id,
        status=topic.status,
        reason=topic.reason,
        outcome=_outcome(topic, names),
        query=topic.query,
        seed_id=topic.seed_id,
        corpus=topic.corpus,
        recipe=topic.recipe,
        rights=f"{topic.licence or 'licence unknown'}, {'may' if topic.redistributable else 'may not'} be passed on",
        intents=tuple(_intent(intent, topic, names, excerpt) for intent in topic.intents),
        passages=tuple(_passage(passage, topic.passages, names, excerpt) for passage in topic.passages),
        matrix=_matrix(topic),
        judges=dict(Counter(judgment.judge for judgment in topic.judgments).most_common()),
        verdicts=tuple(_verdicts(topic, names)),
        attributes=dict(topic.attributes),
    )


def _intent(intent: Intent, topic: Topic, names: Mapping[str, str], excerpt: int | None) -> IntentView:
    partner = _most_alike(intent, topic.intents)
    instruction = mark_unshared(intent.instruction, partner.instruction) if partner else plain(intent.instruction)
    query = mark_unshared(intent.query, topic.query) if intent.query != topic.query else plain(intent.query)
    return IntentView(
        name=names[intent.id],
        id=intent.id,
        role=ROLES.get(intent.role, intent.role),
        instruction=_cut(instruction, excerpt),
        query=_cut(query, excerpt),
        compared_with=names[partner.id] if partner else "",
        comparison=_comparison(intent, partner, names),
    )


def _comparison(intent: Intent, partner: Intent | None, names: Mapping[str, str]) -> str:
    if not partner:
        return ""
    how = "same instruction as" if partner.instruction == intent.instruction else "compared with"
    return f"{how} {names[partner.id]}"


def _most_alike(intent: Intent, intents: Sequence[Intent]) -> Intent | None:
    """The other instruction that shares most words with this one, or is the same; the first of several."""
    if not intent.instruction:
        return None
    candidates = [each for each in intents if each.id != intent.id and each.instruction]
    if same := next((each for each in candidates if each.instruction == intent.instruction), None):
        return same
    return max(candidates, key=lambda each: likeness(each.instruction, intent.instruction), default=None)


def _passage(
    passage: Passage, passages: Sequence[Passage], names: Mapping[str, str], excerpt: int | None
) -> PassageView:
    base, edit = _base(passage, passages, names)
    text = word_diff(base.text, passage.text) if base else plain(passage.text)
    return PassageView(
        name=names[passage.id],
        id=passage.id,
        role=ROLES.get(passage.role, passage.role),
        title=passage.title,
        source_id=passage.source_id,
        text=_cut(text, excerpt),
        edited_from=passage.edited_from,
        edit=edit,
        compared_with=names[base.id] if base else "",
        characters=len(passage.text),
    )


def _base(passage: Passage, passages: Sequence[Passage], names: Mapping[str, str]) -> tuple[Passage | None, str]:
    """What an edit is compared with, and a phrase that says so: its original, or else an earlier edit of the same."""
    if not passage.edited_from:
        return None, ""
    for candidate in passages:
        if candidate.id == passage.edited_from:
            return candidate, f"edit of {names[candidate.id]}"
    for candidate in passages:
        if candidate.id == passage.id:
            break
        if candidate.edited_from == passage.edited_from:
            return (
                candidate,
                f"edit of a text that is not in the topic; compared with {names[candidate.id]}, another edit of it",
            )
    return None, "edit of a text that is not in the topic"


def _cut(spans: tuple[Span, ...], excerpt: int | None) -> tuple[Span, ...]:
    return spans if excerpt is None else shorten(spans, excerpt)


def _matrix(topic: Topic) -> tuple[tuple[int, ...], ...]:
    cells = {(judgment.intent_id, judgment.passage_id): judgment.relevance for judgment in topic.judgments}
    return tuple(tuple(cells.get((intent.id, passage.id), 0) for passage in topic.passages) for intent in topic.intents)


def _outcome(topic: Topic, names: Mapping[str, str]) -> str:
    if topic.status == "accepted":
        decided = next((each for each in topic.verdicts if each.reason == ACCEPTED), None)
        return f"Accepted by {decided.validator}: {decided.evidence}." if decided else "Accepted."
    by = next((each for each in topic.verdicts if each.outcome == "reject" and each.reason == topic.reason), None)
    if by:
        return f"{topic.status.capitalize()} by {by.validator}: {_said(by, topic, names)}"
    detail = f" ({topic.detail})" if topic.detail else ""
    return f"{topic.status.capitalize()} before any check: {topic.reason}{detail}."


def _verdicts(topic: Topic, names: Mapping[str, str]) -> Iterator[str]:
    """One sentence for all that had nothing to say, and one for each other verdict."""
    silent = [each.validator for each in topic.verdicts if each.outcome == "pass" and not _is_loud(each)]
    if silent:
        yield f"Passed: {', '.join(dict.fromkeys(silent))}."
    verbs = {"pass": "passes", "edit": "changed", "reject": "rejects"}
    for verdict in topic.verdicts:
        if verdict.outcome != "pass" or _is_loud(verdict):
            yield f"{verdict.validator} {verbs[verdict.outcome]} {_said(verdict, topic, names)}"


def _is_loud(verdict: Verdict) -> bool:
    return bool(verdict.reason or verdict.evidence or verdict.score is not None)


def _said(verdict: Verdict, topic: Topic, names: Mapping[str, str]) -> str:
    """What, why, how sure, on what evidence."""
    subject = "the topic" if verdict.scope == "topic" else names.get(verdict.scope, verdict.scope)
    reason = f" ({verdict.reason})" if verdict.reason else ""
    score = f", score {verdict.score:g}" if verdict.score is not None else ""
    evidence = evidence_words(verdict.evidence, topic)
    return f"{subject}{reason}{score}{f': {evidence}' if evidence else '.'}"
