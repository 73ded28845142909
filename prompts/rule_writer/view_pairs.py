"""Pairs of views that both answer a query and differ in something that can be named: the rule writer's search.

    positives in blocks --pairs()--> (first, second) views --contrasts()--> constraints that tell them apart

Tried in this order, half of the time with the first two exchanged: two views of one positive that share its answering
blocks; two different positives; a view with a sentence borrowed from a negative. The caller stops
at the first pair that serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TypeVar

from engine.topic import Passage
from prompts.constraints.constraint import Constraint, full_text
from prompts.constraints.families import FAMILIES, NAMES_BY_KIND, Kind
from prompts.passages.blocks import Block, SourcePassage, stems
from prompts.passages.reply_types import View
from prompts.passages.views import BlockIndex

VISIBLE = 700
"""The difference must stand within so many characters: about what an encoder of 200 word pieces reads."""
_WHOLE = 1200
_TRIES = 4
_LIST_RANK = 6
_LONGEST_BORROWED = 300
NO_BORROWING = frozenset({"code", "mathematics", "documentation"})
"""Kinds of text in which a borrowed sentence would be false, such as a parameter of another function."""
_FORMAL = frozenset({"at_most_words", "at_least_words", "at_most_steps", "at_least_steps"})
_PHRASES = frozenset({"mentions", "names", "discusses"})
_FIGURES = frozenset({"number", "year"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ViewPair:
    """Two views, the passages that they make, and the constraint that led to the pair, if there was one."""

    first: View
    second: View
    d_plus: Passage
    d_minus: Passage
    kinds: tuple[Kind, Kind]
    lead: Constraint | None = None

    def swapped(self) -> ViewPair:
        """The same pair with its sides exchanged."""
        return ViewPair(self.second, self.first, self.d_minus, self.d_plus, (self.kinds[1], self.kinds[0]), self.lead)


class ViewPairFinder:
    """Searches the pairs of one seed. `families` are tried in their order; `room` is in characters of a view."""

    def __init__(
        self,
        query: str,
        positives: Sequence[SourcePassage],
        negatives: Sequence[SourcePassage],
        families: Sequence[str],
        *,
        room: int,
        rng: Random,
        dual: bool,
    ) -> None:
        self._positives, self._negatives = positives, negatives
        self._families: Mapping[Kind, list[str]] = {k: _fitting(families, of) for k, of in NAMES_BY_KIND.items()}
        self._room, self._rng, self._dual = room, rng, dual
        self._query_stems = stems(query)
        self.blocks = BlockIndex([*positives, *negatives])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in an order that follows from the variation."""
        return sorted(items, key=lambda _: self._rng.random())

    def pairs(self) -> Iterator[ViewPair]:
        """Pairs to try, the best kind first."""
        others_first = len(self._positives) > 1 and self._rng.random() < 0.5
        sources = self.shuffled(self._positives)
        if others_first:
            yield from self._two_positives(sources)
        for source in sources:
            yield from self._two_views(source)
        if not others_first:
            yield from self._two_positives(sources)
        for source in sources:
            yield from self._borrowed_pairs(source)

    def view(self, source: SourcePassage, chosen: Sequence[Block], borrowed: Sequence[Block] = ()) -> View:
        """The answering blocks and as many of the chosen as there is room for, in their order; then the borrowed."""
        room = self._room - sum(len(b.text) + 1 for b in source.core_blocks)
        kept: set[str] = set()
        for block in chosen:
            room -= len(block.text) + len(block.header) + 1
            if room < 0 and kept:
                break
            kept.add(block.label)
        own = [b.label for b in source.blocks if b.core or b.label in kept]
        return View(blocks=(*own, *(b.label for b in borrowed)))

    def _pair(
        self, sources: tuple[SourcePassage, SourcePassage], first: View, second: View, lead: Constraint | None = None
    ) -> ViewPair:
        d_plus = self.blocks.passage(first, "seed_positive")
        d_minus = self.blocks.passage(second, "instruction_negative")
        return ViewPair(first, second, d_plus, d_minus, (sources[0].kind, sources[1].kind), lead)

    def _two_positives(self, sources: Sequence[SourcePassage]) -> Iterator[ViewPair]:
        for first, other in pairwise(sources[:3]):
            yield self._pair((first, other), self._opening(first), self._opening(other))

    def _opening(self, source: SourcePassage) -> View:
        """A short passage and code stay whole; else its answering blocks and as many others as fit."""
        if source.whole and (source.kind == "code" or len(source.passage.text) <= _WHOLE):
            return View(blocks=source.labels)
        return self.view(source, source.free_blocks)

    def _two_views(self, source: SourcePassage) -> Iterator[ViewPair]:
        """Views of one passage that share its answering blocks and differ in what a free block shows."""
        free, kind = source.free_blocks, source.kind
        core = Passage("\n".join(b.text for b in source.core_blocks), "seed_positive", title=source.passage.title)
        if not self._dual and kind == "text" and len(free) > 1 and "list" in self._families["text"][:_LIST_RANK]:
            kept = self.view(source, free)
            yield self._pair((source, source), kept.model_copy(update={"layout": "list"}), kept, Constraint("list"))
        for lead, block in self._leads(free, core, kind):
            rest = self.shuffled([b for b in free if not _shows(lead, b)])
            if lead.family in _FIGURES and self._rng.random() < 0.5:
                yield from self._changed(source, [block, *rest], lead)
            first, second = self._split(source, core, (lead, block), rest)
            if first.blocks != second.blocks:
                yield self._pair((source, source), first, second, lead)

    def _split(
        self, source: SourcePassage, core: Passage, shown: tuple[Constraint, Block], rest: Sequence[Block]
    ) -> tuple[View, View]:
        """The block that shows something goes to the first view; in dual mode the second gets one of its own."""
        lead, block = shown
        if not self._dual:
            return self.view(source, [block, *rest]), self.view(source, rest)
        first = Passage(f"{full_text(core)}\n{block.text}", "seed_positive")
        counter = next((b for _, b in self._leads(rest, first, source.kind)), None)
        borrowed = [] if counter else self._borrowed(source, lead)
        rest = [b for b in rest if b is not counter]
        second = [*([counter] if counter else []), *rest[1::2]]
        return self.view(source, [block, *rest[::2]]), self.view(source, second, borrowed)

    def _changed(self, source: SourcePassage, chosen: Sequence[Block], lead: Constraint) -> Iterator[ViewPair]:
        """The same view twice, with one figure changed in the second."""
        kept = self.view(source, chosen)
        passage = self.blocks.passage(kept, "seed_positive")
        if lead.value.isdecimal() and full_text(passage).count(lead.value) == 1 and lead.holds(passage):
            step = 1 + int(self._rng.random() * 9)
            other = str(int(lead.value) + (step if self._rng.random() < 0.5 or int(lead.value) < 20 else -step))
            if not Constraint(lead.family, other).holds(passage):
                yield self._pair((source, source), kept, kept.model_copy(update={"changed": (lead.value, other)}), lead)

    def _leads(self, free: Sequence[Block], core: Passage, kind: Kind) -> Iterator[tuple[Constraint, Block]]:
        """What some free block shows and the core does not, one block a family, in the order of the families."""
        blocks, count = self.shuffled(free), 0
        for family in self._families[kind]:
            for block in blocks:
                constraint = next(self._offers(family, _text_of(block), core), None)
                if constraint is not None:
                    yield constraint, block
                    count += 1
                    break
            if count == _TRIES:
                return

    def _borrowed_pairs(self, source: SourcePassage) -> Iterator[ViewPair]:
        """The passage with a borrowed sentence, beside the passage as it is or with another such."""
        if source.kind in NO_BORROWING:
            return
        free, borrowable = source.free_blocks, self._borrowable(source)
        for i, block in enumerate(borrowable):
            first = self.view(source, free, [block])
            others = borrowable[i + 1 : i + 2] if self._dual else []
            second = self.view(source, free, others) if others else self._opening(source)
            yield self._pair((source, source), first, second)

    def _borrowed(self, source: SourcePassage, lead: Constraint) -> list[Block]:
        return next(([b] for b in self._borrowable(source) if not _shows(lead, b)), [])

    def _borrowable(self, source: SourcePassage) -> list[Block]:
        """A short block of each of three negatives of the same kind of text."""
        same_kind = [n for n in self._negatives if n.kind == source.kind and n.kind not in NO_BORROWING]
        blocks = [b for n in self.shuffled(same_kind)[:3] for b in self.shuffled(n.blocks)[:1]]
        return [b for b in blocks if len(b.text) < _LONGEST_BORROWED]

    def contrasts(self, pair: ViewPair, count: int) -> list[Constraint]:
        """Up to `count` constraints that hold of d+, visibly early, and not of d-; at most one a family."""
        d_plus, d_minus, lead = pair.d_plus, pair.d_minus, pair.lead
        contrasts = [lead] if lead is not None and lead.holds(d_plus) and not lead.holds(d_minus) else []
        text = full_text(d_plus)[:VISIBLE]
        for family in self._families[pair.kinds[0]]:
            if len(contrasts) >= count:
                break
            offered = self._offers(family, text, d_minus, d_plus.attributes)
            contrast = next((c for c in offered if c.holds(d_plus)), None)
            if contrast is not None and contrast not in contrasts:
                contrasts.append(contrast)
        return contrasts[:count]

    def _offers(
        self, family: str, text: str, other: Passage, attributes: Mapping[str, str] | None = None
    ) -> Iterator[Constraint]:
        """Constraints of a family that the text shows and the other passage does not, plainly."""
        values = list(FAMILIES[family].offer(text, attributes or {}))
        if len(values) > 1:
            values.sort(key=lambda v: self._rng.random() - 0.5 * (" " in v))
        for value in values:
            constraint = Constraint(family, value)
            if constraint.find_witness(other) < 0 and (family not in _PHRASES or self._is_distinctive(value, other)):
                yield constraint

    def _is_distinctive(self, phrase: str, other: Passage) -> bool:
        """Whether the other passage has none of the phrase's words, and the phrase is more than the query's subject."""
        own = stems(phrase)
        return bool(own) and not own & stems(full_text(other)) and not own <= self._query_stems


def denials(constraints: Sequence[Constraint]) -> list[Constraint]:
    """The opposite demands."""
    return [c.negate() for c in constraints]


def _fitting(families: Sequence[str], kind: frozenset[str]) -> list[str]:
    """The families of a kind of text, in order; bounds on length only in the first half, or they would dominate."""
    fitting = [f for f in families if f in kind]
    return [f for i, f in enumerate(fitting) if f not in _FORMAL or i < len(fitting) // 2]


def _text_of(block: Block) -> str:
    return f"{block.header}\n{block.text}" if block.header else block.text


def _shows(constraint: Constraint, block: Block) -> bool:
    return FAMILIES[constraint.family].find(_text_of(block), {}, constraint.value) >= 0
