"""Is the judge reliable? Canaries: questions with a known answer, asked among the real ones in the same words.

    topic's own passages -> a constraint that a program decides -> an instruction -> the judge's own template -> right?

A canary's instruction is composed from terms, names or figures. All of them stand in one passage that answers the query
and in none of the others shown. So which passage is relevant, or that none is, is known by construction. That a passage
answers the query is known if the corpus says so of its own text, or if evidence proves it; a model's text is not taken
at its word. A judge cannot tell a canary from a real question: query, passages, template and form are those of the run.

A judge fails when it is significantly worse than the threshold. The test is a betting martingale over a few lower
accuracies: it rejects once the stake has grown by 1/FALSE_ALARM. By Ville's inequality, a judge as good as the
threshold is stopped with a probability of at most FALSE_ALARM in a run of any length. Each process counts alone, and
the counts change no row.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from pydantic import Field

from foil.engine.errors import JudgeUnreliableError
from foil.engine.ids import sha256_hex
from foil.engine.settings import Settings
from foil.engine.topic import Intent, Passage, Topic, intent_id
from foil.prompts.constraints.constraint import Constraint, dump_constraints, full_text
from foil.prompts.constraints.families import FAMILIES
from foil.prompts.constraints.instructions import LENGTHS, STYLES, compose
from foil.prompts.demands import ATTRIBUTE, dump_demands
from foil.prompts.passages.answer_evidence import answers, evidence_of
from foil.prompts.passages.kinds import kind_of

LOG = logging.getLogger(__name__)
FALSE_ALARM = 0.01
_BETS = (0.05, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9)
"""Accuracies bet on, as shares of the threshold."""
_UNAMBIGUOUS = ("mentions", "names", "number", "year")
"""Constraint families that a reader decides without doubt: the word is there, or it is not."""


class CanarySettings(Settings):
    """How many of a judge's calls are canaries, and how many it may get wrong."""

    share: float = Field(0.015, ge=0, le=0.5, description="share of a judge's calls that are canaries")
    threshold: float = Field(0.75, gt=0, lt=1, description="share of right answers under which a judge stops the run")
    at_least: int = Field(20, ge=1, le=10**6, description="canaries before a judge can stop the run")


@dataclass(frozen=True, slots=True)
class Canary:
    """A question with its answer: the first passage alone is relevant, or `none_relevant`."""

    intent: Intent
    passages: tuple[Passage, ...]
    none_relevant: bool


class CanaryMonitor:
    """Counts the right and wrong answers of each judge in this process; a refusal of the provider's is neither."""

    def __init__(self, settings: CanarySettings, validator: str) -> None:
        self._settings, self._validator = settings, validator
        self._asked, self._right, self._refused = Counter[str](), Counter[str](), Counter[str]()

    def record_refusal(self, judge: str, problem: str) -> None:
        """Notes a canary that the provider did not let the judge answer; the first is said."""
        self._refused[judge] += 1
        if self._refused[judge] == 1:
            LOG.warning(
                "the provider refused a canary of the judge %r of %s, which counts neither as right nor as wrong: %s",
                judge,
                self._validator,
                problem,
            )

    def record_answer(self, judge: str, *, right: bool, problem: str = "") -> None:
        """Raises JudgeUnreliableError once the judge is significantly worse than the threshold. `problem`: why there
        was no answer."""
        self._asked[judge] += 1
        self._right[judge] += right
        total, right_total = self._asked[judge], self._right[judge]
        if total >= self._settings.at_least and is_significantly_worse(right_total, total, self._settings.threshold):
            raise JudgeUnreliableError(
                f"the judge {judge!r} of {self._validator} answered {right_total} of {total} canaries rightly, "
                f"surely fewer than {self._settings.threshold:.0%}"
                + (f" ({refused} more were refused)" if (refused := self._refused[judge]) else "")
                + "; name a better model, or lower `canaries.threshold`"
                + (f". The last one: {problem}" if problem else "")
            )


def is_significantly_worse(right: int, total: int, threshold: float) -> bool:
    """Whether so few right answers speak against `threshold`, however often this is tested as answers come in."""
    wrong = total - right
    log_stakes = (
        right * math.log(share) + wrong * (math.log1p(-threshold * share) - math.log1p(-threshold)) for share in _BETS
    )
    return max(log_stakes) >= math.log(len(_BETS) / FALSE_ALARM)


def make_canary(topic: Topic, purpose: str, passages: int, chars: int) -> Canary | None:
    """A canary over up to `passages` passages of the topic, decided by what stands in their first `chars` characters.

    A single passage is relevant half of the time. None where no passage that certainly answers the query has words that
    distinguish it from the others.
    """
    rng = Random(int(sha256_hex(f"canary\x1f{topic.id}\x1f{purpose}")[:16], 16))
    order = sorted(topic.passages, key=lambda _: rng.random())
    for intent, target in _certain_answers(topic, order):
        rivals = [passage for passage in order if passage is not target][: passages - 1]
        if constraints := _distinguishing(target, rivals, intent.query, chars, rng):
            none_relevant = passages == 1 and rng.random() < 0.5
            demands = [constraint.negate() for constraint in constraints] if none_relevant else constraints
            return Canary(_canary_intent(topic, intent, target, demands, rng), (target, *rivals), none_relevant)
    return None


def _certain_answers(topic: Topic, passages: Sequence[Passage]) -> Iterator[tuple[Intent, Passage]]:
    """The first intent with each passage that is +1 there by the corpus itself, or proven by evidence."""
    for intent in topic.intents[:1]:
        sources = {j.passage_id: j.judge for j in topic.judgments if j.intent_id == intent.id and j.relevance > 0}
        evidence = evidence_of(intent)
        for passage in passages:
            source = sources.get(passage.id)
            of_corpus = source == "seed" and passage.role == "seed_positive" and not passage.edited_from
            if source and (of_corpus or answers(evidence, passage)):
                yield intent, passage


def _distinguishing(
    target: Passage, rivals: Sequence[Passage], query: str, chars: int, rng: Random
) -> list[Constraint]:
    """The fewest constraints that the passage meets, and that neither the query nor any of the others meets all of."""
    query_text = Passage(query, "distractor")
    candidates = [c for c in _constraints_in(target, chars, rng) if c.holds(target) and not c.holds(query_text)]
    chosen: list[Constraint] = []
    remaining = list(rivals)
    while candidates and (remaining or not chosen):
        best = min(candidates, key=lambda constraint: sum(map(constraint.holds, remaining)))
        still_left = [rival for rival in remaining if best.holds(rival)]
        if remaining and still_left == remaining:
            return []
        chosen, remaining = [*chosen, best], still_left
    return chosen


def _constraints_in(passage: Passage, chars: int, rng: Random) -> Iterator[Constraint]:
    for family in sorted(_UNAMBIGUOUS, key=lambda _: rng.random()):
        for value in FAMILIES[family].detector.offer(full_text(passage)[:chars], passage.attributes):
            yield Constraint(family, value)


def _canary_intent(topic: Topic, base: Intent, target: Passage, demands: Sequence[Constraint], rng: Random) -> Intent:
    length = LENGTHS[int(rng.random() * len(LENGTHS))]
    style = STYLES[int(rng.random() * len(STYLES))]
    instruction = compose(rng, demands, length, style, kind_of(target))
    questions = {sign: [_question(demand) for demand in demands if demand.negated is sign] for sign in (False, True)}
    attributes = {
        **base.attributes,
        "constraints": dump_constraints(demands),
        ATTRIBUTE: dump_demands(questions[False], questions[True]),
    }
    return Intent(intent_id(topic.id, instruction, base.query), "instructed", instruction, base.query, attributes)


def _question(demand: Constraint) -> str:
    """What is demanded or banned, as the question that a judge of demands is asked."""
    return f"Does it {(demand.negate() if demand.negated else demand).render()}?"
