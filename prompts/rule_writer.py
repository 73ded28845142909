"""The embedded model: deterministic, free, without weights. It answers the recipes' requests from their inputs.

For `verifiable.topic` it chooses two views of the positives that both keep the answering blocks, finds constraints that
hold of one and fail of the other, puts them into English, and finds a negative for another query. Everything it claims
has been checked with `Constraint.holds`; the recipe checks again. All choices follow from the rendered `variation`, so
equal prompts have equal answers. About half a millisecond for passages of 100 words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.errors import RefusedRequestError
from engine.topic import Passage, Reply, Request
from prompts.blocks import Block, Cut, stems
from prompts.constraints import Constraint, all_hold, body
from prompts.families import FAMILIES, is_source
from prompts.instructions import Kind, Length, Style, LENGTHS, STYLES, compose
from prompts.topic_answer import Blocks, Demand, Instruction, OtherQuery, TopicAnswer, View

VISIBLE = 700
"""Characters of a passage within which the difference must show: about what an encoder of 200 word pieces reads."""
_WHOLE = 1200
_TRIES = 6
_CHOICES = 4


class RuleWriter:
    """Implements `engine.protocols.Model`."""

    name = "rule_writer"
    free = True

    async def complete(self, request: Request) -> Reply:
        """The answer as JSON. RefusedRequestError for a task that has no rules."""
        write = _TASKS.get(request.task)
        if write is None:
            raise RefusedRequestError(
                f"the rule writer has no rules for the task {request.task!r}; it knows {', '.join(_TASKS)}. Use a hosted or local model"
            )
        return Reply(request.id, write(request.inputs), model=self.name)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two views and the passages that they make; `lead` is the constraint that the views were parted by, if any."""

    first: View
    second: View
    d_plus: Passage
    d_minus: Passage
    lead: Constraint | None = None

    def turned(self) -> _Pair:
        return _Pair(self.second, self.first, self.d_minus, self.d_plus, self.lead)


class _TopicWriter:
    """One topic's work. Inputs are those of the template `verifiable/topic`."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.query: str = inputs["query"]
        self.positives: Sequence[Cut] = inputs["positives"]
        self.negatives: Sequence[Cut] = inputs["negatives"]
        self.count: int = inputs["count"]
        self.length: Length = inputs["length"]
        self.style: Style = inputs["style"]
        self.dual: bool = inputs["dual"]
        self.denied: bool = inputs["denied"]
        self.room: int = inputs["view_chars"]
        self.families: Sequence[str] = inputs["families"]
        self.rng = Random(inputs["variation"])
        self.blocks = Blocks([*self.positives, *self.negatives])
        self.query_stems = stems(self.query)
        self.kind = _kind_of(self.positives[0])

    def write(self) -> TopicAnswer:
        for pair in self._pairs():
            answer = self._answer(pair)
            if answer is not None:
                return answer
        return TopicAnswer(refusal=self._refusal())

    def _refusal(self) -> str:
        if (
            not any(not b.core for cut in self.positives for b in cut.blocks)
            and len(self.positives) < 2
            and not self.negatives
        ):
            return "one_block"
        return "no_contrast"

    # --- two views that both answer the query ---

    def _pairs(self) -> Iterator[_Pair]:
        """Pairs to try, most wanted first: another positive or two views of one, then views with a borrowed sentence."""
        others_first = self.rng.random() < 0.5
        if others_first:
            yield from self._pairs_of_two()
        for cut in self._shuffled(self.positives)[:_TRIES]:
            yield from self._pairs_of_one(cut)
        if not others_first:
            yield from self._pairs_of_two()
        for cut in self._shuffled(self.positives)[:_TRIES]:
            yield from self._borrowed(cut)

    def _shuffled(self, items: Sequence[Any]) -> list[Any]:
        return sorted(items, key=lambda _: self.rng.random())

    def _pairs_of_two(self) -> Iterator[_Pair]:
        cuts = self._shuffled(self.positives)[:3]
        for one, other in zip(cuts, cuts[1:], strict=False):
            yield self._pair(self._opening(one), self._opening(other))

    def _opening(self, cut: Cut) -> View:
        """The passage as it is where it is short; else its answering blocks and as many of the first as there is room for."""
        if cut.whole and len(cut.passage.text) <= _WHOLE:
            return View(blocks=tuple(b.label for b in cut.blocks))
        return self._view(cut, [b for b in cut.blocks if not b.core])

    def _view(self, cut: Cut, chosen: Sequence[Block], borrowed: Sequence[Block] = ()) -> View:
        """Core and chosen blocks in their order, within the room; borrowed blocks after them."""
        room = self.room - sum(len(b.text) + 1 for b in cut.blocks if b.core)
        kept: set[str] = set()
        for block in chosen:
            room -= len(block.text) + len(block.header) + 1
            if room < 0 and kept:
                break
            kept.add(block.label)
        own = [b.label for b in cut.blocks if b.core or b.label in kept]
        return View(blocks=(*own, *(b.label for b in borrowed)))

    def _pair(self, first: View, second: View, lead: Constraint | None = None) -> _Pair:
        return _Pair(
            first,
            second,
            self.blocks.passage(first, "seed_positive"),
            self.blocks.passage(second, "instruction_negative"),
            lead,
        )

    def _pairs_of_one(self, cut: Cut) -> Iterator[_Pair]:
        """Views of one passage: a block that shows something goes to one view, other blocks to the other."""
        free = [b for b in cut.blocks if not b.core]
        if not free:
            return
        core = Passage("\n".join(b.text for b in cut.blocks if b.core), "seed_positive", title=cut.passage.title)
        for lead, block in self._leads(free, core):
            having = [b for b in free if _shows(lead, b)]
            rest = self._shuffled([b for b in free if not _shows(lead, b)])
            shared = rest[1:] if self.dual else rest
            mine, theirs = shared[::2], shared[1::2]
            if self.dual:
                theirs = [*rest[:1], *theirs]
            else:
                mine = theirs = shared
            borrowed = [] if rest or not self.dual else self._foreign(lead)
            first = self._view(cut, [block, *(b for b in having if b is not block), *mine])
            second = self._view(cut, theirs, borrowed)
            if first.blocks != second.blocks:
                yield self._pair(first, second, lead)

    def _leads(self, free: Sequence[Block], core: Passage) -> Iterator[tuple[Constraint, Block]]:
        """Constraints that some free block shows and the core does not, by preference."""
        found = 0
        blocks = self._shuffled(free)
        for family in self.families:
            for block in blocks:
                for constraint in self._offers(family, block.text, core):
                    yield constraint, block
                    found += 1
                    break
                else:
                    continue
                break
            if found >= _TRIES:
                return

    def _borrowed(self, cut: Cut) -> Iterator[_Pair]:
        """The passage beside the same with a sentence of a negative, or two such."""
        own = View(blocks=tuple(b.label for b in cut.blocks)) if cut.whole else self._view(cut, cut.blocks)
        foreign = [b for negative in self._shuffled(self.negatives)[:3] for b in self._shuffled(negative.blocks)[:1]]
        for one in foreign:
            first = self._view(cut, [b for b in cut.blocks if not b.core], [one])
            others = [b for b in foreign if b is not one][:1] if self.dual else []
            second = self._view(cut, [b for b in cut.blocks if not b.core], others) if others else own
            if first.blocks != second.blocks:
                yield self._pair(first, second)

    def _foreign(self, lead: Constraint) -> list[Block]:
        for negative in self._shuffled(self.negatives)[:3]:
            for block in self._shuffled(negative.blocks)[:2]:
                if len(block.text) < 300 and not _shows(lead, block):
                    return [block]
        return []

    # --- what parts them ---

    def _offers(
        self, family: str, text: str, other: Passage, attributes: Mapping[str, str] | None = None
    ) -> Iterator[Constraint]:
        """Constraints of a family that the text shows and the other passage does not, plainly."""
        values = list(FAMILIES[family].offer(text, attributes or {}))
        if len(values) > 1:
            values = self._ranked(values)
        other_stems: frozenset[str] | None = None
        for value in values:
            constraint = Constraint(family, value)
            if constraint.witness(other) >= 0:
                continue
            if FAMILIES[family].group == "content":
                other_stems = stems(body(other)) if other_stems is None else other_stems
                if not self._is_plain(value, other_stems):
                    continue
            yield constraint

    def _ranked(self, values: Sequence[str]) -> list[str]:
        """The more telling values first, in an order that varies: longer phrases say more."""
        return sorted(values, key=lambda v: self.rng.random() - 0.5 * min(v.count(" "), 1))

    def _is_plain(self, value: str, other_stems: frozenset[str]) -> bool:
        """Whether the value is news to the other passage and not the query's own subject."""
        own = stems(value)
        return bool(own) and not own & other_stems and not own <= self.query_stems

    def _contrasts(
        self, here: Passage, there: Passage, families: Sequence[str], lead: Constraint | None
    ) -> Iterator[Constraint]:
        """Constraints that hold of one passage, visibly, and not of the other; at most one a family."""
        if lead is not None and lead.holds(here) and not lead.holds(there):
            yield lead
        text = body(here)[:VISIBLE]
        for family in families:
            for constraint in self._offers(family, text, there, here.attributes):
                if constraint.holds(here) and constraint != lead:
                    yield constraint
                    break

    def _answer(self, pair: _Pair) -> TopicAnswer | None:
        """Instructions for the pair, or None where nothing parts it as wanted."""
        order = list(self.families)
        turned = order[len(order) // 2 :] + order[: len(order) // 2]
        mine = _first(self._contrasts(pair.d_plus, pair.d_minus, order, pair.lead), self.count)
        if not mine:
            return None
        theirs = _first(self._contrasts(pair.d_minus, pair.d_plus, turned, pair.lead), self.count + 1)
        if not theirs or not self.dual:
            if self.denied:
                pair = pair.turned()
                instruction, reverse = [c.negate() for c in mine], mine
            else:
                instruction, reverse = mine, [c.negate() for c in mine]
            poison = reverse[:1]
        else:
            instruction, reverse = mine[: self.count], theirs[: self.count]
            poison = theirs[-1:]
            if self.denied:
                instruction, reverse = [c.negate() for c in reverse], [c.negate() for c in instruction]
                poison = [c.negate() for c in mine[-1:]]
        return TopicAnswer(
            first=pair.first,
            second=pair.second,
            instruction=self._instruction(instruction, self.length, self.style),
            reverse=self._instruction(reverse, self.length, self.style),
            poison=self._instruction(poison, self._another(LENGTHS, self.length), self._another(STYLES, self.style)),
            other=self._other(pair, instruction),
        )

    def _another(self, options: Sequence[Any], but: Any) -> Any:
        rest = [o for o in options if o != but]
        return rest[int(self.rng.random() * len(rest))]

    def _instruction(self, constraints: Sequence[Constraint], length: Length, style: Style) -> Instruction:
        demands = tuple(Demand(family=c.family, value=c.value, negated=c.negated) for c in constraints)
        return Instruction(constraints=demands, wording=compose(self.rng, constraints, length, style, self.kind))

    # --- another query ---

    def _other(self, pair: _Pair, constraints: Sequence[Constraint]) -> OtherQuery | None:
        """A negative that obeys the instruction, as it is or with the blocks that make it obey, and what it answers."""
        own = [b for b in self._blocks_of(pair.first) if not b.core]
        for added in ((), own):
            for cut in self.negatives:
                view = self._view(cut, [b for b in cut.blocks if not b.core], added)
                passage = self.blocks.passage(view, "query_negative")
                if all_hold(constraints, passage):
                    query = self._query_for(cut, pair.d_plus)
                    if query:
                        return OtherQuery(query=query, view=view)
        return None

    def _blocks_of(self, view: View) -> list[Block]:
        return [self.blocks.block(label) for label in view.blocks]

    def _query_for(self, cut: Cut, d_plus: Passage) -> str:
        """What the negative answers and d+ does not: its own query if known, its title, or what its first blocks speak of."""
        known = cut.passage.attributes.get("query", "")
        if known:
            return known
        title = " ".join(cut.passage.title.split())
        if title and title.lower() not in body(d_plus).lower():
            return title if " " in title else f"what is {title} for"
        text = "\n".join(b.text for b in cut.blocks)[:VISIBLE]
        seen = stems(body(d_plus))
        phrases = [c for c in FAMILIES["mentions"].offer(text, {}) if stems(c) and not stems(c) & seen]
        phrases = sorted(self._shuffled(phrases), key=lambda p: -min(p.count(" "), 1))[:2]
        if not phrases:
            return ""
        frames = _ONE_PHRASE if len(phrases) < 2 else _TWO_PHRASES
        frame = frames[int(self.rng.random() * len(frames))]
        return frame.replace("{a}", phrases[0]).replace("{b}", phrases[-1])


_ONE_PHRASE = ("information about {a}", "{a}", "facts on {a}", "where is {a} discussed")
_TWO_PHRASES = (
    "{a} and {b}",
    "how {a} is related to {b}",
    "{a} in connection with {b}",
    "information about {a} and {b}",
)


def _first(items: Iterator[Constraint], count: int) -> list[Constraint]:
    taken: list[Constraint] = []
    for item in items:
        taken.append(item)
        if len(taken) == count:
            break
    return taken


def _shows(constraint: Constraint, block: Block) -> bool:
    text = f"{block.header}\n{block.text}" if block.header else block.text
    return FAMILIES[constraint.family].find(text, {}, constraint.value) >= 0


def _kind_of(cut: Cut) -> Kind:
    passage = cut.passage
    if passage.attributes.get("language") or passage.attributes.get("library") or is_source(passage.text[:VISIBLE]):
        return "code"
    if FAMILIES["arithmetic"].find(passage.text[:VISIBLE], {}, "") >= 0:
        return "mathematics"
    return "text"


def _write_topic(inputs: Mapping[str, Any]) -> str:
    return _TopicWriter(inputs).write().model_dump_json(exclude_defaults=True)


_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"verifiable.topic": _write_topic}
