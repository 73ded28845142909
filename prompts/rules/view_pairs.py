"""Pairs of views that both answer a query and differ in something that can be named: the search of `prompts.rules`.

    positives in blocks --pairs()--> (first, second) views --contrasts()--> constraints that tell them apart

Tried in this order: two different positives, whole where they are short enough; then two views of one positive that
share its answering blocks. No sentence of another passage enters a view, no figure is changed, no prose is set as a
list, and a worked solution or a program is never cut: it would be another solution, or none. Prose is cut only where
what stays surely answers. The caller stops at the first pair that serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from random import Random
from typing import TypeVar

from foil.engine.topic import Passage
from foil.prompts.constraints.constraint import Constraint, full_text, surely_broken
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.families import FAMILIES, NAMES_BY_KIND, Kind
from foil.prompts.constraints.phrases import is_noun_by_ending, is_vague
from foil.prompts.constraints.query_fit import asks_for_a_fact, families_for
from foil.prompts.passages.answering import is_about, is_judged, stems
from foil.prompts.passages.blocks import BlockIndex, SourcePassage, View
from foil.prompts.passages.layout import Block

VISIBLE = 700
"""The difference must stand within so many characters: about what an encoder of 200 word pieces reads."""
_WHOLE = 3000
"""Characters up to which a passage next to another stays as it is."""
_TRIES = 4
_POSITIVES = 4
WHOLE = frozenset({"code", "mathematics", "abstract"})
"""Kinds of text that are never cut."""
_WORD = re.compile(r"[^\W_]+")
_FORMAL = frozenset({"at_most_words", "at_least_words", "at_most_steps", "at_least_steps", "times_sign"})
"""What parts almost any two texts, and says little: how long they are, and how solutions write multiplication."""
_FIGURES = frozenset({"figure", "year", "date", "percentage", "money", "measure"})
_PHRASES = frozenset({"mentions", "names"})
_METHODS = frozenset({"approach", "uses"})
_PROGRAMMING = frozenset({"approach", "uses", "comments", "language"})
_TOOLS = frozenset({"language", "uses"})
"""A call tells the language too."""
_EXAMPLES = frozenset({"example", "code_sample", "section"})
_ORIGINS = frozenset({"library", "namespace", "object_kind"})
_SECTIONS = {"parameter": "parameters", "raises": "raises"}
"""Families whose values stand in a section of their own: who documents a parameter has a section on them."""
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

    @property
    def kind(self) -> Kind:
        """What an instruction may call both: a page of documentation where only one is code, else a text."""
        if self.kinds[0] == self.kinds[1]:
            return self.kinds[0]
        return "documentation" if set(self.kinds) == {"code", "documentation"} else "text"

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
        self._query = query
        about = [source for source in positives if is_about(query, source.passage)]
        self._most = 1 if any(source.kind == "text" for source in about) and asks_for_a_fact(query) else 5
        self._positives, self._negatives, self._all_positives = about, negatives, positives
        self._families: Mapping[Kind, list[str]] = {
            kind: _fitting(families, own & families_for(query) if kind == "text" else own)
            for kind, own in NAMES_BY_KIND.items()
        }
        self._room, self._rng, self._dual = room, rng, dual
        self._query_stems = stems(" ".join([query, *(source.passage.title for source in positives)]))
        texts = [source.passage.text for source in (*positives, *negatives)]
        self._folded, self._words = list(map(fold_text, texts)), {w for text in texts for w in _WORD.findall(text)}
        self.blocks = BlockIndex([*positives, *negatives])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in an order that follows from the variation."""
        return sorted(items, key=lambda _: self._rng.random())

    def reason(self) -> str:
        """Why there is no pair, if there is none: `no_answer`, `one_block`, or `no_contrast`."""
        if self._all_positives and not self._positives:
            return "no_answer"
        only_core = len(self._all_positives) == 1 and not self._all_positives[0].free_blocks
        return "one_block" if only_core else "no_contrast"

    def pairs(self) -> Iterator[ViewPair]:
        """Pairs to try, the best kind first."""
        sources = self.shuffled(self._positives)
        yield from self._two_positives(sources)
        for source in sources:
            if source.kind not in WHOLE and (source.kind != "text" or may_be_cut(source)):
                yield from self._two_views(source)

    def view(self, source: SourcePassage, chosen: Sequence[Block]) -> View:
        """The answering blocks and as many of the chosen as there is room for, in their order.

        What a chosen block leans on comes with the first of them; the others stay out where it is not there.
        """
        room = self._room - sum(len(b.text) + 1 for b in source.core_blocks)
        labels: set[str] = set()
        for block in (*_supports(source, chosen[:1]), *chosen):
            room -= len(block.text) + len(block.header) + 1
            if room < 0 and labels:
                break
            labels.add(block.label)
        own: list[str] = []
        for i, b in enumerate(source.blocks):
            if b.core or (b.label in labels and not (b.leans and source.blocks[i - 1].label not in own)):
                own.append(b.label)
        return View(blocks=tuple(own) or source.labels)

    def _pair(
        self, sources: tuple[SourcePassage, SourcePassage], first: View, second: View, lead: Constraint | None = None
    ) -> ViewPair:
        d_plus = self.blocks.passage(first, "seed_positive")
        d_minus = self.blocks.passage(second, "instruction_negative")
        return ViewPair(first, second, d_plus, d_minus, (sources[0].kind, sources[1].kind), lead)

    def _two_positives(self, sources: Sequence[SourcePassage]) -> Iterator[ViewPair]:
        for first, second in combinations(sources[:_POSITIVES], 2):
            if first.kind == second.kind:
                yield self._pair((first, second), self._opening(first), self._opening(second))

    def _opening(self, source: SourcePassage) -> View:
        """A short passage and code stay whole; else its answering blocks and as many others as fit."""
        if source.whole and (source.kind in WHOLE or len(source.passage.text) <= _WHOLE):
            return View(blocks=source.labels)
        return self.view(source, source.free_blocks)

    def _two_views(self, source: SourcePassage) -> Iterator[ViewPair]:
        """Views of one passage that share its answering blocks and differ in what a free block shows."""
        free, kind = source.free_blocks, source.kind
        core = Passage("\n".join(b.text for b in source.core_blocks), "seed_positive", title=source.passage.title)
        for lead, block in self._leads(free, core, kind):
            rest = self.shuffled([b for b in free if not _may_show(lead, b)])
            first, second = self._split(source, core, block, rest)
            if first.blocks != second.blocks:
                yield self._pair((source, source), first, second, lead)

    def _split(self, source: SourcePassage, core: Passage, block: Block, rest: Sequence[Block]) -> tuple[View, View]:
        """The block that shows something goes to the first view; in dual mode the second gets one of its own."""
        if not self._dual:
            return self.view(source, [block, *rest]), self.view(source, rest)
        first = Passage(f"{full_text(core)}\n{block.text}", "seed_positive")
        counter = next((b for _, b in self._leads(rest, first, source.kind)), None)
        rest = [b for b in rest if b is not counter]
        second = [*([counter] if counter else []), *rest[1::2]]
        return self.view(source, [block, *rest[::2]]), self.view(source, second)

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

    def contrasts(self, pair: ViewPair, count: int) -> list[Constraint]:
        """Up to `count` constraints that hold of d+, visibly early, and not of d-; at most one a family, and one alone
        where a fact is looked up.
        """
        count = min(count, self._most)
        d_plus, d_minus, lead = pair.d_plus, pair.d_minus, pair.lead
        parts = lead is not None and lead.holds(d_plus) and surely_broken([lead], d_minus)
        contrasts = [lead] if lead is not None and parts else []
        for family in self._families[pair.kinds[0]]:
            if len(contrasts) >= count:
                break
            offered = self._offers(family, full_text(d_plus), d_minus, d_plus.attributes)
            contrast = next((c for c in offered if 0 <= c.find_witness(d_plus) < VISIBLE), None)
            if contrast is not None and not any(overlap(contrast, each) for each in contrasts):
                contrasts.append(contrast)
        return contrasts[:count]

    def _offers(
        self, family: str, text: str, rival: Passage, attributes: Mapping[str, str] | None = None
    ) -> Iterator[Constraint]:
        """Constraints of a family that the text shows and the other passage does not, plainly."""
        if family in _PROGRAMMING and (attributes or {}).get("library"):
            return  # nobody looks for the code of a library by how it is written
        values = list(FAMILIES[family].detector.offer(text, attributes or {}))
        if len(values) > 1:
            values.sort(key=lambda v: self._rng.random() - (" " in v))
        for value in values:
            constraint = Constraint(family, value)
            if family in _PHRASES and not (self._is_distinctive(value, rival) and self.is_topical(value, text)):
                continue
            if family in _PHRASES and not self._is_beside_the_answer(value):
                continue
            if family == "total" and "total" in self._query.lower():
                continue  # whoever asks for a total has met the word
            if family in _PHRASES and " " not in value and (value.islower() or _is_abstract(attributes)):
                continue  # a single word is seldom what somebody is after, unless it is a name
            if family in _METHODS | {"author"} and stems(value) & self._query_stems:  # it is what the problem is about
                continue
            if surely_broken([constraint], rival):
                yield constraint

    def _is_distinctive(self, phrase: str, rival: Passage) -> bool:
        """Whether the other passage has none of the phrase's words, and the phrase is more than the query's subject."""
        own, text = stems(phrase), full_text(rival)
        return bool(own) and not own & stems(text) and not own <= self._query_stems and not _has_initials(text, phrase)

    def is_topical(self, phrase: str, text: str) -> bool:
        """Whether a phrase belongs to the subject: another passage says it too, or it is a name or several words said
        twice.

        A single word must look like a noun; one that also stands in small letters is no name. A vague noun is no
        subject, nor is a part of a longer name.
        """
        folded = fold_text(phrase)
        if not may_be_subject(phrase, text):
            return False
        if " " not in phrase and (folded in self._words if phrase != folded else not is_noun_by_ending(phrase)):
            return False
        is_single_noun = " " not in phrase and phrase == folded
        said_twice = not is_single_noun and fold_text(text).count(folded) > 1
        return said_twice or sum(folded in folded_text for folded_text in self._folded) > 1

    def _is_beside_the_answer(self, phrase: str) -> bool:
        """Whether a text on something else says it too, and one relevant passage alone: what several say may be the
        answer.
        """
        folded, relevant = fold_text(phrase), len(self._all_positives)
        has_phrase = [folded in folded_text for folded_text in self._folded]
        return any(has_phrase[relevant:]) and sum(has_phrase[:relevant]) < 2


def _is_abstract(attributes: Mapping[str, str] | None) -> bool:
    return (attributes or {}).get("form") == "abstract"


def _has_initials(text: str, phrase: str) -> bool:
    """Whether the text has a phrase in short: "U.S" for "United States", and perhaps "FL" for "Florida"."""
    initials = [re.escape(word[0].upper()) for word in phrase.split()]
    pattern = r"\.?".join(initials) if len(initials) > 1 else rf"{initials[0]}[A-Z]"
    return phrase != phrase.lower() and re.search(rf"\b{pattern}\b", text) is not None


def may_be_subject(phrase: str, text: str) -> bool:
    """False for a vague noun, and for a part of a longer name of the text: "Western" in "Western New York"."""
    name = re.escape(phrase)
    part_of_name = rf"\b[A-Z][\w.]+(?:,? (?:and|of|&))? {name}\b|\b{name}(?: [A-Z]|['’]s\b)"
    return not (is_vague(phrase) or (phrase != fold_text(phrase) and re.search(part_of_name, text)))


def may_be_cut(source: SourcePassage) -> bool:
    """Whether what is left of prose surely answers. Of a collection's judged passages nobody knows what answers."""
    return source.is_core_sure and not is_judged(source.passage)


def _supports(source: SourcePassage, chosen: Sequence[Block]) -> list[Block]:
    """The free blocks that a chosen one leans on, and those that these lean on."""
    by_label = {b.label: before for before, b in pairwise(source.blocks) if b.leans}
    blocks = list(chosen)
    for block in blocks:
        before = by_label.get(block.label)
        if before is not None and not before.core:
            blocks.append(before)
    return blocks[len(chosen) :]


def overlap(first: Constraint, second: Constraint) -> bool:
    """Whether two demands say much the same: of one family, both on figures or examples, of values with one word, or
    one of the section in which the other's value stands.
    """
    families = {first.family, second.family}
    alike = len(families) == 1 or any(families <= group for group in (_FIGURES, _EXAMPLES, _ORIGINS, _METHODS, _TOOLS))
    nested = any(a.family == "section" and a.value == _SECTIONS.get(b.family) for a, b in permutations((first, second)))
    return alike or nested or bool(stems(first.value) & stems(second.value))


def deniable(constraints: Sequence[Constraint]) -> list[Constraint]:
    """Those whose opposite people ask for too: "no code", but not "no section on the parameters"."""
    return [c for c in constraints if FAMILIES[c.family].deniable]


def denials(constraints: Sequence[Constraint]) -> list[Constraint]:
    """The opposite demands, of those that have one."""
    return [c.negate() for c in deniable(constraints)]


def _fitting(families: Sequence[str], kind: frozenset[str]) -> list[str]:
    """The families of a kind of text, in order; what is formal only in the first half, or it would dominate."""
    fitting = [f for f in families if f in kind]
    return [f for i, f in enumerate(fitting) if f not in _FORMAL or i < len(fitting) // 2]


def _text_of(block: Block) -> str:
    return f"{block.header}\n{block.text}" if block.header else block.text


def _may_show(constraint: Constraint, block: Block) -> bool:
    """Whether a reader might say that the block shows it."""
    return not surely_broken([constraint], Passage(_text_of(block), "seed_positive"))
