"""The evidence of a verdict in words: judges' votes, which are stored as JSON over ids, as a person would say them.

Intents are called I1, I2, ... and passages P1, P2, ... in the order of the topic; without one they have no names.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from foil.engine.topic import Topic

_ID = re.compile(r"\b[0-9a-f]{24}\b")

ROLES: Mapping[str, str] = {
    "original": "query alone",
    "instructed": "instruction",
    "poisoned_instruction": "poisoned instruction",
    "poisoned_query": "poisoned query",
    "reversed": "reversed instruction",
    "dual": "dual instruction",
    "seed_positive": "relevant in the corpus",
    "seed_negative": "not relevant in the corpus",
    "generated_positive": "relevant, written",
    "instruction_negative": "fails the instruction",
    "query_negative": "answers another query",
    "distractor": "distractor",
    "mined_negative": "mined negative",
}
"""What each role of an intent or passage means, in a few words."""


def names_of(topic: Topic) -> dict[str, str]:
    """The name of each intent and passage, by its id."""
    intents = {intent.id: f"I{place}" for place, intent in enumerate(topic.intents, 1)}
    return intents | {passage.id: f"P{place}" for place, passage in enumerate(topic.passages, 1)}


def evidence_words(evidence: str, topic: Topic | None = None) -> str:
    """The evidence in words. A text that is none of votes has names in place of ids, and is else as it was.

    "the judge named P3 (answers another query); the label says P1"
    """
    names = names_of(topic) if topic else {}
    facts = _facts(evidence)
    if not facts.get("votes"):
        plain = "; ".join(f"{name} {value}" for name, value in facts.items() if value) if facts else evidence
        return _ID.sub(lambda match: names.get(match[0], match[0]), plain)
    roles = {passage.id: ROLES.get(passage.role, passage.role) for passage in topic.passages} if topic else {}
    passages = {name: f"{names[name]} ({role})" for name, role in roles.items()}
    parts = [*_votes(facts, passages), _label(facts, topic, names)]
    parts += [f"the {judge} says: {reason}" for judge, reason in facts.get("reasons", ())]
    parts += [facts.get("problem", ""), f"the passage: {facts['text']}" if facts.get("text") else ""]
    return "; ".join(filter(None, parts))


def _facts(evidence: str) -> Mapping[str, Any]:
    try:
        facts = json.loads(evidence) if evidence.startswith("{") else {}
    except ValueError:  # cut off
        return {}
    return facts if isinstance(facts, dict) else {}


def _votes(facts: Mapping[str, Any], passages: Mapping[str, str]) -> list[str]:
    counts = Counter((judge, choice) for judge, choice in facts["votes"])
    total = counts.total()
    candidates = facts.get("shown", [])
    return [
        f"the {judge} {_choice(choice, candidates, passages)}{f' ({count} of {total} votes)' if total > 1 else ''}"
        for (judge, choice), count in counts.items()
    ]


def _choice(choice: str, candidates: Sequence[str], passages: Mapping[str, str]) -> str:
    """What a judge made of the passages that it was shown; of a single one it says only whether that is relevant."""
    if choice == "tie":
        return "changed its choice with the order of the passages"
    if choice == "unreadable_judge":
        return "gave no answer that could be read"
    passage = passages.get(candidates[0] if len(candidates) == 1 else choice, "a passage that is not in the topic")
    if len(candidates) == 1:
        return f"found {passage} {'not relevant' if choice == 'none' else 'relevant'}"
    return "named no passage" if choice == "none" else f"named {passage}"


def _label(facts: Mapping[str, Any], topic: Topic | None, names: Mapping[str, str]) -> str:
    """What the labels of the topic say to the same question; "" where there are none."""
    intent, candidates = facts.get("intent", ""), facts.get("shown", [])
    labels = {j.passage_id: j.relevance for j in topic.judgments if j.intent_id == intent} if topic else {}
    if len(candidates) == 1:
        relevance = labels.get(candidates[0], 0)
        return f"under {names[intent]} the label says {'' if relevance > 0 else 'not '}relevant" if relevance else ""
    relevant = [names.get(name, "a lost passage") for name, relevance in labels.items() if relevance > 0]
    return f"the label says {' or '.join(relevant)}" if relevant else ""
