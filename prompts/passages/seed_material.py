"""A seed as the published recipes see it: passages of bounded length, in blocks, with what answers the query.

The same for every writer. A hosted model sees the texts; the rule writer is handed the whole material as a fact, since
it makes its instructions and passages from the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.errors import Rejected
from engine.ids import sha256_hex
from engine.topic import Passage, Seed
from prompts.passages.answer_evidence import Evidence, evidence_in
from prompts.passages.blocks import Cut, cut
from prompts.passages.views import Blocks, View

MAX_POSITIVES = 8


@dataclass(frozen=True, eq=False)
class Material:
    """`positives` and `negatives` are distinct, each cut whole into blocks; the first positive is the recipe's P+."""

    seed: Seed
    positives: tuple[Cut, ...]
    negatives: tuple[Cut, ...]

    @property
    def positive(self) -> Passage:
        return self.positives[0].passage

    @cached_property
    def evidence(self) -> Evidence:
        """What answers the seed's query."""
        return evidence_in(self.positives)

    def number(self, purpose: str) -> int:
        """A number of 64 bits that follows from the seed and the purpose alone."""
        return int(sha256_hex(f"{purpose}\x1f{self.seed.corpus}\x1f{self.seed.id}")[:16], 16)


def material(seed: Seed, *, passage_chars: int, negatives: int) -> Material:
    """Raises Rejected (`empty_query`, `no_positive`). A longer positive is shortened to its answering blocks and as
    many others as fit, and says so (`edited_from`); of negatives at most `negatives` are kept, cut off at that length.
    """
    if not seed.query.strip():
        raise Rejected("empty_query", seed.id)
    positives = distinct(seed.positives)[:MAX_POSITIVES]
    if not positives:
        raise Rejected("no_positive", seed.id)
    known = seed.attributes.get("answer_sentence", "") or seed.attributes.get("answer", "")
    return Material(
        seed,
        tuple(_whole(f"P{i + 1}", p, seed.query, known, passage_chars) for i, p in enumerate(positives)),
        tuple(
            cut(f"N{i + 1}", p, p.attributes.get("query") or p.title, limit=passage_chars)
            for i, p in enumerate(non_relevant(seed)[:negatives])
        ),
    )


def views_of(seed: Seed, *, passage_chars: int) -> Material:
    """The material of a seed that comes with an instruction negative: `positives` are d+ and d-, each as it is.

    Raises Rejected (`empty_query`, `no_positive`, `no_instruction_negative`).
    """
    if not seed.query.strip():
        raise Rejected("empty_query", seed.id)
    positives, others = distinct(seed.positives), distinct(seed.negatives)
    if not positives:
        raise Rejected("no_positive", seed.id)
    excluded = next((p for p in others if p.role == "instruction_negative" and p.id != positives[0].id), None)
    if excluded is None:
        raise Rejected("no_instruction_negative", "none of the seed's negatives has the role instruction_negative")
    return Material(
        seed,
        (cut("P1", positives[0], seed.query), cut("P2", excluded, seed.query)),
        tuple(cut(f"N{i + 1}", p, limit=passage_chars) for i, p in enumerate(non_relevant(seed))),
    )


def non_relevant(seed: Seed) -> list[Passage]:
    """The seed's negatives that do not answer its query: an instruction negative does, and is none here."""
    return [p for p in distinct(seed.negatives) if p.role != "instruction_negative"]


def distinct(passages: Sequence[Passage]) -> list[Passage]:
    """Passages with text, each text once."""
    return list({p.id: p for p in passages if p.text.strip()}.values())


def _whole(name: str, passage: Passage, query: str, known: str, room: int) -> Cut:
    answer = passage.attributes.get("answer_sentence") or known
    found = cut(name, passage, query, answer)
    if found.whole and len(passage.text) <= room:
        return found
    kept = sum(len(b.text) + 1 for b in found.blocks if b.core)
    labels = set()
    for block in found.blocks:
        if not block.core and kept + len(block.text) + len(block.header) < room:
            labels.add(block.label)
            kept += len(block.text) + len(block.header) + 1
    view = View(blocks=tuple(b.label for b in found.blocks if b.core or b.label in labels))
    return cut(name, Blocks([found]).passage(view, passage.role), query, answer)
