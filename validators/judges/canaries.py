"""Is the judge awake? Questions whose answer is known, asked among the real ones, in the same words.

    topic's own passages -> a constraint that a program decides -> an instruction -> the judge's own template -> right?

An instruction is composed from terms, names or figures that all stand in a passage which answers the query, and in none
of the others shown; so which passage is relevant, or that none is, is known by construction. That it answers is known
where the corpus says so of its own text, and where evidence proves it; a model's text is not taken at its word. A judge
cannot tell such a question from a real one: query, passages, template and form of the instruction are those of the run.

A judge fails when its wrong answers have become too unlikely for one that is as good as the threshold: a bet against
it, spread over a few lower accuracies, has multiplied its stake by 1/FALSE_ALARM. Such a bet cannot win on average
against a good judge, so by Ville's inequality one is stopped with a probability of at most FALSE_ALARM in a run of any
length. The tally is one process's own, and changes no row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from pydantic import Field

from engine.errors import JudgeUnreliableError
from engine.ids import sha256_hex
from engine.settings import Settings
from engine.topic import Intent, Passage, Topic, intent_id
from prompts.constraints.constraint import Constraint, dump_constraints, full_text
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import LENGTHS, STYLES, compose
from prompts.passages.answer_evidence import answers, evidence_of
from prompts.passages.blocks import kind_of

FALSE_ALARM = 0.01
_BETS = (0.05, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9)
"""Accuracies bet on, as shares of the threshold."""
_PLAIN = ("mentions", "names", "number", "year")
"""Families that a reader decides without doubt: the word is there, or it is not."""


class CanarySettings(Settings):
    """How many of a judge's calls are canaries, and how many it may get wrong."""

    share: float = Field(default=0.015, ge=0, le=0.5, description="share of a judge's calls that are canaries")
    threshold: float = Field(
        default=0.75, gt=0, lt=1, description="share of right answers under which a judge stops the run"
    )
    at_least: int = Field(default=20, ge=1, description="canaries before a judge can stop the run")


@dataclass(frozen=True, slots=True)
class Canary:
    """A question with its answer: the first passage alone is relevant, or, if `denied`, none of those shown."""

    intent: Intent
    passages: tuple[Passage, ...]
    denied: bool


class Tally:
    """Right and wrong answers of each judge in this process."""

    def __init__(self, settings: CanarySettings, validator: str) -> None:
        self._settings, self._validator = settings, validator
        self._asked, self._right = Counter[str](), Counter[str]()

    def count(self, judge: str, *, right: bool, problem: str = "") -> None:
        """Notes an answer, and why there was none. Raises JudgeUnreliableError once the judge is surely worse than the
        threshold."""
        self._asked[judge] += 1
        self._right[judge] += right
        asked, known = self._asked[judge], self._right[judge]
        if asked >= self._settings.at_least and surely_worse(known, asked, self._settings.threshold):
            raise JudgeUnreliableError(
                f"the judge {judge!r} of {self._validator} answered {known} of {asked} canaries rightly, surely fewer "
                f"than {self._settings.threshold:.0%}; name a better model, or lower `canaries.threshold`"
                + (f". The last one: {problem}" if problem else "")
            )


def surely_worse(right: int, asked: int, threshold: float) -> bool:
    """Whether so few right answers speak against `threshold`, however often this is asked as answers come in."""
    wrong = asked - right
    gains = (
        right * math.log(share) + wrong * (math.log1p(-threshold * share) - math.log1p(-threshold)) for share in _BETS
    )
    return max(gains) >= math.log(len(_BETS) / FALSE_ALARM)


def canary_of(topic: Topic, purpose: str, passages: int, chars: int) -> Canary | None:
    """A canary over up to `passages` passages of the topic (a single one is relevant half of the time), decided by
    what stands in their first `chars` characters.

    None where no passage that surely answers the query has words that tell it from the rest.
    """
    rng = Random(int(sha256_hex(f"canary\x1f{topic.id}\x1f{purpose}")[:16], 16))
    order = sorted(topic.passages, key=lambda _: rng.random())
    for base, hero in _surely_answering(topic, order):
        others = [passage for passage in order if passage is not hero][: passages - 1]
        if telling := _telling(hero, others, base.query, chars, rng):
            denied = passages == 1 and rng.random() < 0.5
            asked = _instructed(topic, base, hero, [one.negate() for one in telling] if denied else telling, rng)
            return Canary(asked, (hero, *others), denied)
    return None


def _surely_answering(topic: Topic, passages: Sequence[Passage]) -> Iterator[tuple[Intent, Passage]]:
    """The first intent with each passage that is +1 there by the corpus itself, or proven by evidence."""
    for base in topic.intents[:1]:
        makers = {j.passage_id: j.judge for j in topic.judgments if j.intent_id == base.id and j.relevance > 0}
        evidence = evidence_of(base)
        for passage in passages:
            maker = makers.get(passage.id)
            if maker and (_of_the_corpus(passage, maker) or answers(evidence, passage)):
                yield base, passage


def _of_the_corpus(passage: Passage, maker: str) -> bool:
    return maker == "seed" and passage.role == "seed_positive" and not passage.edited_from


def _telling(hero: Passage, others: Sequence[Passage], query: str, chars: int, rng: Random) -> list[Constraint]:
    """The fewest things that the passage shows, and that neither the query nor any of the others shows all of."""
    asked = Passage(query, "distractor")
    mine = [one for one in _shown_by(hero, chars, rng) if one.holds(hero) and not one.holds(asked)]
    chosen: list[Constraint] = []
    left = list(others)
    while mine and (left or not chosen):
        best = min(mine, key=lambda one: sum(map(one.holds, left)))
        still = [other for other in left if best.holds(other)]
        if left and still == left:
            return []
        chosen, left = [*chosen, best], still
    return chosen


def _shown_by(passage: Passage, chars: int, rng: Random) -> Iterator[Constraint]:
    for family in sorted(_PLAIN, key=lambda _: rng.random()):
        for value in FAMILIES[family].offer(full_text(passage)[:chars], passage.attributes):
            yield Constraint(family, value)


def _instructed(topic: Topic, base: Intent, hero: Passage, demands: Sequence[Constraint], rng: Random) -> Intent:
    length = LENGTHS[int(rng.random() * len(LENGTHS))]
    style = STYLES[int(rng.random() * len(STYLES))]
    wording = compose(rng, demands, length, style, kind_of(hero))
    attributes = {**base.attributes, "constraints": dump_constraints(demands)}
    return Intent(intent_id(topic.id, wording, base.query), "instructed", wording, base.query, attributes)
