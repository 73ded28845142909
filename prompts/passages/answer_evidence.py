"""What answers a query: sentences that a passage must contain, so that a program can decide that it answers.

    evidence = alternatives, each a list of texts        kept as JSON in `Intent.attributes["evidence"]`
    answers(evidence, passage)                           some alternative stands in the passage, word for word

Intents of topics by rule carry it: a seed's positives are cut into blocks, and the core blocks answer.
Case, punctuation and layout do not count, so a passage set as a list still answers.
"""

import json
import re
from collections.abc import Iterable, Sequence

from foil.engine.ids import canonical_json
from foil.engine.topic import Intent, Passage
from foil.prompts.constraints.constraint import full_text
from foil.prompts.passages.blocks import SourcePassage

Evidence = tuple[tuple[str, ...], ...]

_CHARACTERS = 200
"""Most characters kept of an answering block, up to the end of a word."""
_WORD = re.compile(r"\w+")


def evidence_from(sources: Iterable[SourcePassage]) -> Evidence:
    """The core blocks of each passage, as alternatives."""
    return tuple(tuple(_opening(b.text) for b in source.core_blocks) for source in sources)


def evidence_of_view(source: SourcePassage, labels: Sequence[str]) -> Evidence:
    """What answers the query of a view of a negative: its core blocks, or, without any, the first block kept."""
    view_blocks = [block for block in source.blocks if block.label in labels]
    core = tuple(_opening(block.text) for block in view_blocks if block.core)
    return (core or tuple(_opening(block.text) for block in view_blocks[:1]),)


def dump_evidence(evidence: Sequence[Sequence[str]]) -> str:
    """The JSON kept in an intent's attributes."""
    return canonical_json([list(texts) for texts in evidence])


def evidence_of(intent: Intent) -> Evidence:
    """What answers the intent's query; empty where nobody knows."""
    stored = intent.attributes.get("evidence", "")
    return tuple(map(tuple, json.loads(stored))) if stored else ()


def answers(evidence: Evidence, passage: Passage) -> bool:
    """Whether the passage holds all texts of some alternative."""
    words = _words(full_text(passage))
    return any(texts and all(_words(text) in words for text in texts) for texts in evidence)


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _opening(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS].rpartition(" ")[0] or text[:_CHARACTERS]
