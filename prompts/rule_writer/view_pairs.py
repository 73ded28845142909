"""Pairs of views that both answer a query and differ in something that can be named: the rule writer's search.

    positives in blocks --PairFinder.pairs()--> (first, second) views --.contrasts()--> constraints that part them

Tried in this order, half of the time with the first two exchanged: two views of one positive that share its answering
blocks; two different positives; a view with a sentence borrowed from a negative. The search is over a few candidates of
each and stops at the first that serves.
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
from prompts.passages.blocks import Block, Cut, stems
from prompts.passages.views import Blocks, View

VISIBLE = 700
"""Characters of a passage within which the difference must show: about what an encoder of 200 word pieces reads."""
_WHOLE = 1200
_TRIES = 4
_LIST_RANK = 6
_LONGEST_LOAN = 300
NO_LOANS = frozenset({"code", "mathematics", "documentation"})
"""Kinds of text in which a sentence of another passage would be plainly false: another function's parameter, say."""
_FORMAL = frozenset({"at_most_words", "at_least_words", "at_most_steps", "at_least_steps"})
_PHRASES = frozenset({"mentions", "names", "discusses"})
_FIGURES = frozenset({"number", "year"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two views, the passages that they make, and the constraint by which they were parted, if it was one."""

    first: View
    second: View
    d_plus: Passage
    d_minus: Passage
    kinds: tuple[Kind, Kind]
    lead: Constraint | None = None

    def turned(self) -> Pair:
        """The same pair with its sides exchanged."""
        return Pair(self.second, self.first, self.d_minus, self.d_plus, (self.kinds[1], self.kinds[0]), self.lead)


class PairFinder:
    """Searches the pairs of one seed. `families` are tried in their order; `room` is in characters of a view."""

    def __init__(
        self,
        query: str,
        positives: Sequence[Cut],
        negatives: Sequence[Cut],
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
        self.blocks = Blocks([*positives, *negatives])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in an order that follows from the variation."""
        return sorted(items, key=lambda _: self._rng.random())

    # --- views ---

    def pairs(self) -> Iterator[Pair]:
        """Pairs to try, the most wanted first."""
        others_first = len(self._positives) > 1 and self._rng.random() < 0.5
        cuts = self.shuffled(self._positives)
        if others_first:
            yield from self._two_positives(cuts)
        for cut in cuts:
            yield from self._two_views(cut)
        if not others_first:
            yield from self._two_positives(cuts)
        for cut in cuts:
            yield from self._with_loans(cut)

    def view(self, cut: Cut, chosen: Sequence[Block], borrowed: Sequence[Block] = ()) -> View:
        """The answering blocks and as many of the chosen as there is room for, in their order; then the borrowed."""
        room = self._room - sum(len(b.text) + 1 for b in cut.blocks if b.core)
        kept: set[str] = set()
        for block in chosen:
            room -= len(block.text) + len(block.header) + 1
            if room < 0 and kept:
                break
            kept.add(block.label)
        own = [b.label for b in cut.blocks if b.core or b.label in kept]
        return View(blocks=(*own, *(b.label for b in borrowed)))

    def _pair(self, cuts: tuple[Cut, Cut], first: View, second: View, lead: Constraint | None = None) -> Pair:
        d_plus = self.blocks.passage(first, "seed_positive")
        d_minus = self.blocks.passage(second, "instruction_negative")
        return Pair(first, second, d_plus, d_minus, (cuts[0].kind, cuts[1].kind), lead)

    def _two_positives(self, cuts: Sequence[Cut]) -> Iterator[Pair]:
        for one, other in pairwise(cuts[:3]):
            yield self._pair((one, other), self._opening(one), self._opening(other))

    def _opening(self, cut: Cut) -> View:
        """A short passage, and code, as it is; else its answering blocks and as many others as fit."""
        if cut.whole and (cut.kind == "code" or len(cut.passage.text) <= _WHOLE):
            return View(blocks=tuple(b.label for b in cut.blocks))
        return self.view(cut, _free(cut))

    def _two_views(self, cut: Cut) -> Iterator[Pair]:
        """A block that shows something goes to the one view; the other gets a block of its own, or goes without."""
        free = _free(cut)
        core = Passage("\n".join(b.text for b in cut.blocks if b.core), "seed_positive", title=cut.passage.title)
        if not self._dual and cut.kind == "text" and len(free) > 1 and "list" in self._families["text"][:_LIST_RANK]:
            kept = self.view(cut, free)
            yield self._pair((cut, cut), kept.model_copy(update={"layout": "list"}), kept, Constraint("list"))
        for lead, block in self._leads(free, core, cut.kind):
            rest = self.shuffled([b for b in free if not _shows(lead, b)])
            if lead.family in _FIGURES and self._rng.random() < 0.5:
                yield from self._changed(cut, [block, *rest], lead)
            mine = theirs = rest
            borrowed: list[Block] = []
            if self._dual:
                shown = Passage(f"{full_text(core)}\n{block.text}", "seed_positive")
                counter = next((found for _, found in self._leads(rest, shown, cut.kind)), None)
                borrowed = [] if counter else self._loan(cut, lead)
                rest = [b for b in rest if b is not counter]
                mine, theirs = rest[::2], [*([counter] if counter else []), *rest[1::2]]
            first, second = self.view(cut, [block, *mine]), self.view(cut, theirs, borrowed)
            if first.blocks != second.blocks:
                yield self._pair((cut, cut), first, second, lead)

    def _changed(self, cut: Cut, chosen: Sequence[Block], lead: Constraint) -> Iterator[Pair]:
        """The same view twice, with one figure changed in the second."""
        kept = self.view(cut, chosen)
        passage = self.blocks.passage(kept, "seed_positive")
        if lead.value.isdecimal() and full_text(passage).count(lead.value) == 1 and lead.holds(passage):
            step = 1 + int(self._rng.random() * 9)
            other = str(int(lead.value) + (step if self._rng.random() < 0.5 or int(lead.value) < 20 else -step))
            if not Constraint(lead.family, other).holds(passage):
                yield self._pair((cut, cut), kept, kept.model_copy(update={"changed": (lead.value, other)}), lead)

    def _leads(self, free: Sequence[Block], core: Passage, kind: Kind) -> Iterator[tuple[Constraint, Block]]:
        """What some free block shows and the core does not, one block a family, in the order of the families."""
        blocks = self.shuffled(free)
        found = 0
        for family in self._families[kind]:
            for block in blocks:
                constraint = next(self._offers(family, _text_of(block), core), None)
                if constraint is not None:
                    yield constraint, block
                    found += 1
                    break
            if found == _TRIES:
                return

    def _with_loans(self, cut: Cut) -> Iterator[Pair]:
        """The passage with a borrowed sentence, beside the passage as it is or with another such."""
        if cut.kind in NO_LOANS:
            return
        free = _free(cut)
        plain = self._opening(cut)
        loans = self._loans(cut)
        for i, loan in enumerate(loans):
            first = self.view(cut, free, [loan])
            others = loans[i + 1 : i + 2] if self._dual else []
            second = self.view(cut, free, others) if others else plain
            yield self._pair((cut, cut), first, second)

    def _loan(self, cut: Cut, lead: Constraint) -> list[Block]:
        return next(([b] for b in self._loans(cut) if not _shows(lead, b)), [])

    def _loans(self, cut: Cut) -> list[Block]:
        """A short block of each of three negatives of the same kind of text."""
        alike = [n for n in self._negatives if n.kind == cut.kind and n.kind not in NO_LOANS]
        return [b for n in self.shuffled(alike)[:3] for b in self.shuffled(n.blocks)[:1] if len(b.text) < _LONGEST_LOAN]

    # --- what parts them ---

    def contrasts(self, pair: Pair, count: int) -> list[Constraint]:
        """Up to `count` constraints that hold of d+, visibly early, and not of d-; at most one a family."""
        here, there, lead = pair.d_plus, pair.d_minus, pair.lead
        taken = [lead] if lead is not None and lead.holds(here) and not lead.holds(there) else []
        text = full_text(here)[:VISIBLE]
        for family in self._families[pair.kinds[0]]:
            if len(taken) >= count:
                break
            offered = self._offers(family, text, there, here.attributes)
            found = next((c for c in offered if c.holds(here)), None)
            if found is not None and found not in taken:
                taken.append(found)
        return taken[:count]

    def _offers(
        self, family: str, text: str, other: Passage, attributes: Mapping[str, str] | None = None
    ) -> Iterator[Constraint]:
        """Constraints of a family that the text shows and the other passage does not, plainly."""
        values = list(FAMILIES[family].offer(text, attributes or {}))
        if len(values) > 1:
            values.sort(key=lambda v: self._rng.random() - 0.5 * (" " in v))
        for value in values:
            constraint = Constraint(family, value)
            if constraint.find_witness(other) < 0 and (family not in _PHRASES or self._is_news(value, other)):
                yield constraint

    def _is_news(self, phrase: str, other: Passage) -> bool:
        """Whether the other passage has none of the phrase's words, and the phrase is more than the query's subject."""
        own = stems(phrase)
        return bool(own) and not own & stems(full_text(other)) and not own <= self._query_stems


def _fitting(families: Sequence[str], kind: frozenset[str]) -> list[str]:
    """The families of a kind of text, in order; bounds on length only where they come early, or they fill all gaps."""
    fitting = [f for f in families if f in kind]
    return [f for i, f in enumerate(fitting) if f not in _FORMAL or i < len(fitting) // 2]


def _free(cut: Cut) -> list[Block]:
    return [b for b in cut.blocks if not b.core]


def _text_of(block: Block) -> str:
    return f"{block.header}\n{block.text}" if block.header else block.text


def _shows(constraint: Constraint, block: Block) -> bool:
    return FAMILIES[constraint.family].find(_text_of(block), {}, constraint.value) >= 0
