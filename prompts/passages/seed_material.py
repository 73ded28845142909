"""A seed as the recipes see it: distinct passages in labelled blocks, and what answers the query.

Models see the texts alone. The blocks are what `prompts.rules` makes views of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from foil.engine.errors import Rejected
from foil.engine.ids import sha256_hex
from foil.engine.topic import Passage, Seed
from foil.prompts.passages.answer_evidence import Evidence, evidence_from
from foil.prompts.passages.answering import may_answer
from foil.prompts.passages.blocks import MAX_BLOCKS, MAX_TEXT, BlockIndex, SourcePassage, View, segment
from foil.prompts.passages.kinds import kind_of
from foil.prompts.passages.readable import flaw_of


@dataclass(frozen=True, eq=False)
class SeedMaterial:
    """`positives` and `negatives` are distinct; the first positive is the recipe's P+."""

    seed: Seed
    positives: tuple[SourcePassage, ...]
    negatives: tuple[SourcePassage, ...]

    @property
    def positive(self) -> Passage:
        return self.positives[0].passage

    @property
    def positive_passages(self) -> list[Passage]:
        return [source.passage for source in self.positives]

    @property
    def negative_passages(self) -> list[Passage]:
        return [source.passage for source in self.negatives]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts of strangers that prompts of this seed may show."""
        passages = (*self.positive_passages, *self.negative_passages)
        texts = (text for passage in passages for text in (passage.title, passage.text))
        return (self.seed.query, *self.seed.attributes.values(), *texts)

    @cached_property
    def evidence(self) -> Evidence:
        """What answers the seed's query."""
        return evidence_from(self.positives)

    def number(self, purpose: str) -> int:
        """A number of 64 bits that follows from the seed and the purpose alone."""
        return int(sha256_hex(f"{purpose}\x1f{self.seed.corpus}\x1f{self.seed.id}")[:16], 16)


def build_material(
    seed: Seed, *, passage_chars: int, negatives: int, most_positives: int = 8, shorten: bool = True
) -> SeedMaterial:
    """The passages of a seed in blocks. Raises Rejected (`empty_query`, `no_positive`, `unreadable`).

    Prose that cannot be used as it stands is left out (`prompts.passages.readable`), and what has few of the query's
    words comes last.
    `shorten` cuts a longer positive to its answering blocks and as many others as fit, and says so (`edited_from`);
    longer code is left out.
    At most `negatives` negatives are kept, of each the first `passage_chars` characters.
    """
    passages = _positives_of(seed)
    room = passage_chars if shorten else None
    usable = [passage for passage in passages if not flaw_of(passage) and not _is_cut_off(passage, room)]
    positives = sorted(usable, key=lambda passage: not may_answer(seed.query, passage))[:most_positives]
    if not positives:
        flaw = flaw_of(passages[0]) or f"{len(passages[0].text)} characters of code, which is never cut to {room}"
        raise Rejected("unreadable", f"no relevant passage can be used as it stands: {flaw}")
    answer = seed.attributes.get("answer_sentence", "") or seed.attributes.get("answer", "")
    return SeedMaterial(
        seed,
        tuple(_positive_source(f"P{i}", p, seed.query, answer, room) for i, p in enumerate(positives, 1)),
        tuple(
            segment(f"N{i}", p, p.attributes.get("query") or p.title, limit=passage_chars)
            for i, p in enumerate(_looked_at([p for p in non_relevant(seed) if not flaw_of(p)], negatives), 1)
        ),
    )


def _is_cut_off(passage: Passage, room: int | None) -> bool:
    """Whether it is code that does not fit: a part of a program is no solution."""
    return room is not None and len(passage.text) > room and kind_of(passage) == "code"


def _looked_at(negatives: Sequence[Passage], count: int) -> Sequence[Passage]:
    """The first negatives; half of them, if none of these has one, such as are known to answer a query of their own."""
    first, half = negatives[:count], count // 2
    if any(p.attributes.get("query") or p.title for p in first):
        return first
    with_queries = [p for p in negatives[count:] if p.attributes.get("query")][:half]
    return [*first[: count - len(with_queries)], *with_queries]


def non_relevant(seed: Seed) -> list[Passage]:
    """The seed's negatives that do not answer its query; an instruction negative does answer it."""
    return [p for p in distinct(seed.negatives) if p.role != "instruction_negative"]


def distinct(passages: Sequence[Passage]) -> list[Passage]:
    """Passages with text, each text once."""
    return list({p.id: p for p in passages if p.text.strip()}.values())


def _positives_of(seed: Seed) -> list[Passage]:
    if not seed.query.strip():
        raise Rejected("empty_query", seed.id)
    positives = distinct(seed.positives)
    if not positives:
        raise Rejected("no_positive", seed.id)
    return positives


def _positive_source(name: str, passage: Passage, query: str, answer: str, room: int | None) -> SourcePassage:
    """A positive in blocks, shortened to `room` characters where there is such a bound."""
    answer = passage.attributes.get("answer_sentence") or answer
    if room is None or len(passage.text) <= room:
        return segment(name, passage, query, answer)
    most_blocks = MAX_BLOCKS if room <= MAX_TEXT else None
    source = segment(name, passage, query, answer, limit=max(room, MAX_TEXT), most_blocks=most_blocks)
    used = sum(len(b.text) + 1 for b in source.core_blocks)
    labels = set()
    for block in source.free_blocks:
        if used + len(block.text) + len(block.header) < room:
            labels.add(block.label)
            used += len(block.text) + len(block.header) + 1
    view = View(blocks=tuple(b.label for b in source.blocks if b.core or b.label in labels))
    return segment(name, BlockIndex([source]).passage(view, passage.role), query, answer)
