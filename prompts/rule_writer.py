"""The embedded model: deterministic, free, without weights. It answers the recipes' requests from their inputs.

For `verifiable.topic` it takes two views of the positives that both keep the answering blocks, constraints that hold of
one and fail of the other, puts them into English, and finds a negative for another query. All choices follow from the
rendered `variation`, so that equal prompts have equal answers. About a millisecond for passages of 100 words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from engine.errors import RefusedRequestError
from engine.topic import Passage, Reply, Request
from prompts.blocks import Cut, stems
from prompts.constraints import Constraint, all_hold, body
from prompts.families import FAMILIES, Kind
from prompts.finders import folded
from prompts.instructions import LENGTHS, STYLES, Length, Style, compose, pick
from prompts.pairs import NO_LOANS, VISIBLE, Pair, PairFinder
from prompts.topic_answer import Demand, Instruction, OtherQuery, TopicAnswer

T = TypeVar("T")

_TRIES = 4
"""Pairs tried for a second view with a demand of its own, before one is taken that has none."""

_ONE_PHRASE = ("information about {a}", "{a}", "facts on {a}", "{a} explained")
_TWO_PHRASES = ("{a} and {b}", "{a}, {b}", "{a} in connection with {b}", "information about {a} and {b}")


@dataclass(frozen=True, slots=True)
class Parted:
    """A pair with what d+ alone shows (`mine`, never empty) and what d- alone shows (`theirs`)."""

    pair: Pair
    mine: list[Constraint]
    theirs: list[Constraint]


class RuleWriter:
    """Implements `engine.protocols.Model`."""

    name = "rule_writer"
    free = True

    async def complete(self, request: Request) -> Reply:
        """The answer as JSON. RefusedRequestError for a task that has no rules."""
        write = _TASKS.get(request.task)
        if write is None:
            raise RefusedRequestError(
                f"the rule writer has no rules for the task {request.task!r}; it knows {', '.join(_TASKS)}. "
                "Name a hosted or local model for this recipe"
            )
        return Reply(request.id, write({**request.inputs, **request.facts}), model=self.name)


class _TopicWriter:
    """One topic's work. Inputs are those of the template `verifiable/topic`."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._query: str = inputs["query"]
        self._positives: Sequence[Cut] = inputs["positives"]
        self._negatives: Sequence[Cut] = inputs["negatives"]
        self._count: int = inputs["count"]
        self._length: Length = inputs["length"]
        self._style: Style = inputs["style"]
        self._dual: bool = inputs["dual"]
        self._denied: bool = inputs["denied"]
        self._rng = Random(inputs["variation"])
        self._finder = PairFinder(
            self._query,
            self._positives,
            self._negatives,
            inputs["families"],
            room=inputs["view_chars"],
            rng=self._rng,
            dual=self._dual,
        )

    def write(self) -> TopicAnswer:
        fallback: Parted | None = None
        for tried, pair in enumerate(self._finder.pairs()):
            parted = self._part(pair)
            if parted is not None and (parted.theirs or not self._dual):
                return self._answer(parted)
            fallback = fallback or parted
            if fallback is not None and tried >= _TRIES:
                break
        if fallback is not None:
            return self._answer(fallback)
        only_answers = len(self._positives) == 1 and all(b.core for b in self._positives[0].blocks)
        return TopicAnswer(refusal="one_block" if only_answers else "no_contrast")

    def _part(self, pair: Pair) -> Parted | None:
        """What d+ shows and d- lacks, and the other way round; None where nothing parts them."""
        mine = self._finder.contrasts(pair, self._count)
        theirs = self._finder.contrasts(pair.turned(), self._count + 1)
        if mine:
            return Parted(pair, mine, theirs)
        return Parted(pair.turned(), theirs[: self._count], []) if theirs else None

    def _answer(self, parted: Parted) -> TopicAnswer:
        """Instructions for a pair: what one side shows is demanded or, denied, excluded."""
        pair, mine, theirs = parted.pair, parted.mine, parted.theirs
        if theirs and self._dual:
            instruction, reverse, poison = mine, theirs[: self._count], theirs[-1:]
            if self._denied:
                instruction, reverse, poison = _denials(reverse), _denials(mine), _denials(mine[-1:])
            elif self._count > 1 and self._rng.random() < 0.5:
                instruction = [*mine[: self._count - 1], *_denials(theirs[:1])]
                reverse = [*theirs[: self._count - 1], *_denials(mine[:1])]
        else:
            instruction, reverse, poison = mine, _denials(mine), theirs[:1] or _denials(mine[:1])
            if self._denied:
                pair, instruction, reverse, poison = pair.turned(), reverse, mine, mine[:1]
        kind = pair.kinds[0]
        return TopicAnswer(
            first=pair.first,
            second=pair.second,
            instruction=self._instruction(instruction, self._length, self._style, kind),
            reverse=self._instruction(reverse, self._length, self._style, kind),
            poison=self._instruction(
                poison, self._another(LENGTHS, self._length), self._another(STYLES, self._style), kind
            ),
            other=self._other(pair, instruction),
        )

    def _another(self, options: Sequence[T], but: T) -> T:
        rest = [o for o in options if o != but]
        return rest[int(self._rng.random() * len(rest))]

    def _instruction(self, constraints: Sequence[Constraint], length: Length, style: Style, kind: Kind) -> Instruction:
        demands = tuple(Demand(family=c.family, value=c.value, negated=c.negated) for c in constraints)
        return Instruction(constraints=demands, wording=compose(self._rng, constraints, length, style, kind))

    def _other(self, pair: Pair, constraints: Sequence[Constraint]) -> OtherQuery | None:
        """A negative that obeys the instruction, as it is or with the blocks that make it obey, and what it answers."""
        kept = [self._finder.blocks.block(label) for label in pair.first.blocks]
        added = [b for b in kept if not b.core]
        for loan in ([], added):
            for cut in self._negatives:
                if loan and (cut.kind != pair.kinds[0] or cut.kind in NO_LOANS):
                    continue
                view = self._finder.view(cut, [b for b in cut.blocks if not b.core], loan)
                passage = self._finder.blocks.passage(view, "query_negative")
                if all_hold(constraints, passage):
                    query = self._query_for(passage, cut, pair.d_plus)
                    if (
                        query
                        and folded(query) != folded(self._query)
                        and folded(query) not in folded(body(pair.d_plus))
                    ):
                        return OtherQuery(query=query, view=view)
        return None

    def _query_for(self, passage: Passage, cut: Cut, d_plus: Passage) -> str:
        """What the negative answers and d+ does not: its own query if known, its title, or what it speaks of."""
        known = cut.passage.attributes.get("query", "")
        if known:
            return known
        title = " ".join(cut.passage.title.split())
        if title and title.lower() not in body(d_plus).lower():
            return title if " " in title else f"what is {title} for"
        phrases = self._phrases(passage.text[:VISIBLE], body(d_plus))
        if not phrases:
            return ""
        frame = pick(self._rng, _ONE_PHRASE if len(phrases) < 2 else _TWO_PHRASES)
        return frame.replace("{a}", phrases[0]).replace("{b}", phrases[-1])

    def _phrases(self, text: str, known: str) -> list[str]:
        """Up to two telling phrases of the text, none of whose words the known text has."""
        seen = stems(known)
        offered = FAMILIES["mentions"].offer(text, {})
        news = [p for p in offered if stems(p) and not stems(p) & seen]
        chosen: list[str] = []
        for phrase in sorted(self._finder.shuffled(news), key=lambda p: " " not in p):
            if len(chosen) < 2 and not any(stems(phrase) & stems(c) for c in chosen):
                chosen.append(phrase)
        return chosen


def _denials(constraints: Sequence[Constraint]) -> list[Constraint]:
    return [c.negate() for c in constraints]


def _write_topic(inputs: Mapping[str, Any]) -> str:
    return _TopicWriter(inputs).write().model_dump_json(exclude_defaults=True)


_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"verifiable.topic": _write_topic}
