"""How good is a judge by people's labels? What it says of each labelled pair, and the figures that follow.

    topics of labelled pairs -> the judge's own questions -> Rated -> accuracy, AUC and its interval, kappa, thresholds

Single passages (`judge_relevance`, `judge_demands`): AUC over P(relevant). Two passages (`judge_polarity`): each
relevant passage against each other one of its search, in both orders; AUC is the share where the relevant one is named,
half where the swap changes the answer. Many (`judge_scenarios`): the share of questions that name the relevant one.

The interval is the 2.5th and 97.5th percentile over resamples of searches' cores, since pairs of one core depend on
each other. Promise: the same answers give the same figures.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from foil.engine.errors import JudgeUnreliableError, UsageError
from foil.engine.ids import sha256_hex
from foil.engine.protocols import Ask
from foil.engine.topic import Call, Passage, Topic
from foil.prompts.judge_answers import LABELS
from foil.validators.judges.agreement import measure_agreement
from foil.validators.judges.demands import DemandJudges, JudgeDemandsSettings
from foil.validators.judges.panel import JudgePanel, JudgeSettings, PanelSettings, shuffle_passages
from foil.validators.judges.polarity import JudgePolaritySettings
from foil.validators.judges.relevance import JudgeRelevanceSettings
from foil.validators.judges.scenarios import JudgeScenariosSettings
from foil.validators.judges.votes import UNREADABLE, VoteSlot

POINTWISE = ("judge_relevance", "judge_demands")
"""Judges of single passages."""
RESAMPLES = 1000
_NEVER = 1e-12
_RIVALS = 4
"""Passages with the relevant one in a question of many."""


@dataclass(frozen=True, slots=True)
class Rated:
    """What a judge said of one unit: a pair, or a question over several passages. None: it could not be read.

    Of a pair, `score` is P(relevant) and `right` the label; of a question, `score` is the share of the answer that is
    right and `chance` what guessing gives. Pairs of one `search` have one query and instruction. `first`: whether each
    answer named the passage shown first. `probabilities`: P(true) of its questions, as the logprobs have them.
    """

    core: str
    score: float | None
    relevant: bool = True
    accepted: bool = False
    chance: float = 0.5
    first: tuple[bool, ...] = ()
    expected_first: float = 0.5
    search: str = ""
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's figures over pairs, or questions of several passages. `auc` as the module says, `low` and `high` its
    0.95 interval, `chance` what guessing gives; `within` is the AUC among the passages of one search, on average.

    `keep`: the least P from which on at most the wanted share of passages is not relevant; `drop`: the most down from
    which at most that share is relevant; `decided`: the share of pairs outside of the two. `neutral`: the
    median P(true) of all questions asked, of labels that are relevant half of the time. `first`: the share of
    answers that named the passage shown first, `expected_first` without bias. `kappa` and `accuracy` are with the
    labels at the judge's own threshold. `tokens` and `usd` are those of a pair or question.
    """

    judge: str
    model: str
    units: int
    relevant: int
    unreadable: int
    auc: float
    low: float
    high: float
    chance: float
    accuracy: float
    within: float | None = None
    kappa: float | None = None
    keep: float | None = None
    drop: float | None = None
    decided: float | None = None
    neutral: float | None = None
    first: float | None = None
    expected_first: float | None = None
    tokens: float = 0.0
    usd: float = 0.0

    @property
    def is_coin(self) -> bool:
        """Whether guessing is within the interval, or above it."""
        return self.low <= self.chance


def refuse_coin(rating: Calibration) -> None:
    """Raises JudgeUnreliableError with the figures of a judge that may as well guess."""
    if rating.is_coin:
        raise JudgeUnreliableError(
            f"{rating.judge} by {rating.model} is no better than a coin: AUC {rating.auc:.3f}, 0.95 interval "
            f"{rating.low:.3f} to {rating.high:.3f}, guessing {rating.chance:.3f}, over {rating.units} labelled pairs "
            f"or questions (accuracy {rating.accuracy:.3f}); name a better model, another judge, or bring more labels"
        )


async def rate_topic(settings: JudgeSettings, topic: Topic, core: str, ask: Ask) -> list[Rated]:
    """What the judge says of the labelled passages of one search."""
    if isinstance(settings, JudgeDemandsSettings):
        return await _rate_demands(settings, topic, core, ask)
    assert isinstance(settings, PanelSettings)
    panel = JudgePanel(str(settings.model_dump()["kind"]), settings, topic, ask)
    if isinstance(settings, JudgePolaritySettings):
        return await _rate_polarity(settings, panel, topic, core)
    if isinstance(settings, JudgeScenariosSettings):
        return await _rate_scenarios(settings, panel, topic, core)
    assert isinstance(settings, JudgeRelevanceSettings)
    return await _rate_relevance(settings, panel, topic, core)


async def _rate_demands(settings: JudgeDemandsSettings, topic: Topic, core: str, ask: Ask) -> list[Rated]:
    """Every question is asked, so that no product is a bound alone."""
    judges = DemandJudges(settings.kind, settings.model_copy(update={"drop": _NEVER}), topic, ask)
    rated = []
    for passage, relevant in _labelled(topic):
        judges.probabilities.clear()
        count = await judges.rate(topic.intents[0], passage)
        scores = [vote.score for vote in count.votes if vote.score is not None]
        score = sum(scores) / len(scores) if scores else None
        accepted = score is not None and score >= settings.keep
        rated.append(Rated(core, score, relevant, accepted, search=topic.id, probabilities=tuple(judges.probabilities)))
    return rated


async def _rate_relevance(settings: JudgeRelevanceSettings, panel: JudgePanel, topic: Topic, core: str) -> list[Rated]:
    question = partial(panel.rate_passage, threshold=settings.threshold, logprobs=settings.logprobs)
    rated = []
    for passage, relevant in _labelled(topic):
        count = await panel.collect_votes(question, topic.intents[0], [passage])
        scores = [
            float(vote.choice == passage.id) if vote.score is None else vote.score
            for vote in count.votes
            if vote.choice != UNREADABLE
        ]
        score = sum(scores) / len(scores) if scores else None
        rated.append(Rated(core, score, relevant, count.decision == passage.id, search=topic.id))
    return rated


async def _rate_polarity(settings: JudgePolaritySettings, panel: JudgePanel, topic: Topic, core: str) -> list[Rated]:
    """Each relevant passage against each other, in both orders."""
    good, bad = _sides(topic)
    rated = []
    for plus, minus in ((plus, minus) for plus in good for minus in bad):
        points, first, readable = 0.0, [], 0
        for slot in (VoteSlot(judge, number) for number in range(settings.votes) for judge in settings.judges):
            for order in ((plus, minus), (minus, plus)):
                vote = await panel.compare_once(topic.intents[0], order, slot)
                readable += vote.choice != UNREADABLE
                points += 1.0 if vote.choice == plus.id else 0.0 if vote.choice in (minus.id, UNREADABLE) else 0.5
                first += [vote.choice == order[0].id] if vote.choice in (plus.id, minus.id) else []
        score = points / readable if readable else None
        rated.append(Rated(core, score, first=tuple(first), accepted=score == 1.0))
    return rated


async def _rate_scenarios(settings: JudgeScenariosSettings, panel: JudgePanel, topic: Topic, core: str) -> list[Rated]:
    """A question for each relevant passage, among up to `_RIVALS` others."""
    good, bad = _sides(topic)
    rated = []
    for plus in good if bad else ():
        options = [plus, *shuffle_passages(bad, topic.id, plus.id)[: min(_RIVALS, len(LABELS) - 1)]]
        count = await panel.collect_votes(panel.choose_best, topic.intents[0], options)
        choices = [vote.choice for vote in count.votes if vote.choice != UNREADABLE]
        score = sum(choice == plus.id for choice in choices) / len(choices) if choices else None
        first = tuple(_named_first(settings, topic, options, [vote.choice for vote in count.votes]))
        rated.append(Rated(core, score, True, count.decision == plus.id, 1 / len(options), first, 1 / len(options)))
    return rated


def _named_first(
    settings: JudgeScenariosSettings, topic: Topic, options: Sequence[Passage], choices: Sequence[str]
) -> Iterator[bool]:
    """For each vote that names a passage, whether that stood first in the order of its slot."""
    ids = {passage.id for passage in options}
    for number, choice in enumerate(choices):
        if choice in ids:
            slot = str(number // len(settings.judges))
            yield shuffle_passages(options, topic.id, topic.intents[0].id, slot)[0].id == choice


def _labelled(topic: Topic) -> Iterator[tuple[Passage, bool]]:
    relevance = {label.passage_id: label.relevance for label in topic.judgments}
    return ((passage, relevance[passage.id] > 0) for passage in topic.passages)


def _sides(topic: Topic) -> tuple[list[Passage], list[Passage]]:
    labelled = list(_labelled(topic))
    return [p for p, relevant in labelled if relevant], [p for p, relevant in labelled if not relevant]


def calibrate(judge: str, model: str, rated: Sequence[Rated], error: float, calls: Iterable[Call]) -> Calibration:
    """The figures over everything rated, and asked with these calls. `error`: the wanted share of wrong labels.

    Raises UsageError where the labels are of one kind alone.
    """
    read = [each for each in rated if each.score is not None]
    is_pair = judge in POINTWISE
    relevant = sum(each.relevant for each in rated)
    if not read or (is_pair and {each.relevant for each in read} != {True, False}):
        raise UsageError(
            f"{judge} by {model}: {len(read)} of {len(rated)} answers could be read, {relevant} of relevant passages; "
            "a judge is measured on passages of both kinds: bring more labels, or mend the model"
        )
    auc, low, high = _interval(read, f"{judge} by {model}", is_pair=is_pair)
    probabilities = [probability for each in read for probability in each.probabilities]
    first = [is_first for each in read for is_first in each.first]
    distinct_calls = {call.request_id: call for call in calls}.values()
    right = sum(each.accepted == each.relevant for each in rated) / len(rated)
    thresholds = _thresholds(read, error) if is_pair else {}
    labels = [(1 if each.accepted else -1, 1 if each.relevant else -1) for each in rated]
    return Calibration(
        judge, model, len(rated), relevant, len(rated) - len(read), round(auc, 4), round(low, 4), round(high, 4),
        chance=round(sum(each.chance for each in read) / len(read), 4),
        accuracy=round(right, 4),
        within=_within(read) if is_pair else None,
        kappa=measure_agreement(judge, "people", labels).kappa if is_pair else None,
        neutral=round(float(np.median(probabilities)), 4) if probabilities else None,
        first=round(sum(first) / len(first), 4) if first else None,
        expected_first=round(sum(each.expected_first for each in read) / len(read), 4) if first else None,
        tokens=round(sum(call.prompt_tokens + call.completion_tokens for call in distinct_calls) / len(rated), 1),
        usd=sum(call.cost_usd for call in distinct_calls) / len(rated),
        **thresholds,
    )  # fmt: skip


def area(scores: ArrayLike, relevant: ArrayLike, weights: np.ndarray[Any, Any] | None = None) -> float:
    """The area under the ROC curve: how often a relevant passage has the higher score, a tie as half; nan without both.

    >>> area([0.9, 0.4, 0.4], [True, True, False])
    0.75
    """
    values, place = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    weight = np.ones(len(place)) if weights is None else weights
    yes = np.bincount(place, weight * np.asarray(relevant, bool), len(values))
    no = np.bincount(place, weight * ~np.asarray(relevant, bool), len(values))
    below = np.cumsum(no) - no
    total = yes.sum() * no.sum()
    return float((yes * (below + no / 2)).sum() / total) if total else float("nan")


def _interval(read: Sequence[Rated], name: str, *, is_pair: bool) -> tuple[float, float, float]:
    """The AUC, or the mean share that is right, with its interval over resamples of cores."""
    scores = np.array([each.score for each in read], np.float64)
    relevant = np.array([each.relevant for each in read])
    cores, core_of = np.unique([each.core for each in read], return_inverse=True)

    def figure(weights: np.ndarray[Any, Any]) -> float:
        if is_pair:
            return area(scores, relevant, weights)
        return float((scores * weights).sum() / weights.sum()) if weights.sum() else float("nan")

    rng = np.random.default_rng(int(sha256_hex(f"auc\x1f{name}")[:16], 16))
    draws = rng.multinomial(len(cores), np.full(len(cores), 1 / len(cores)), size=RESAMPLES)
    resampled = np.array([figure(draw[core_of].astype(np.float64)) for draw in draws])
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return figure(np.ones(len(read))), float(low), float(high)


def _within(read: Sequence[Rated]) -> float | None:
    """The mean AUC of the searches that have passages of both kinds; None where none has."""
    searches: dict[str, list[Rated]] = {}
    for each in read:
        searches.setdefault(each.search, []).append(each)
    areas = [area([each.score or 0.0 for each in own], [each.relevant for each in own]) for own in searches.values()]
    defined = [each for each in areas if not np.isnan(each)]
    return round(sum(defined) / len(defined), 4) if defined else None


def _thresholds(read: Sequence[Rated], error: float) -> dict[str, float | None]:
    """The thresholds of the wanted error, and the share of pairs that they decide."""
    ranked = sorted(((each.score or 0.0, each.relevant) for each in read), reverse=True)
    keep = _last_within([(score, not relevant) for score, relevant in ranked], error)
    lowest = _last_within([(-score, relevant) for score, relevant in reversed(ranked)], error)
    drop = None if lowest is None else -lowest
    if keep is not None and drop is not None and drop >= keep:
        drop = keep
    decided = sum((keep is not None and score >= keep) or (drop is not None and score <= drop) for score, _ in ranked)
    rounded = {name: None if value is None else round(value, 4) for name, value in (("keep", keep), ("drop", drop))}
    return {**rounded, "decided": round(decided / len(ranked), 4)}


def _last_within(ranked: Sequence[tuple[float, bool]], error: float) -> float | None:
    """The last score of a descending list down to which at most this share is wrong; equal scores go together."""
    wrong, threshold = 0, None
    for number, (score, is_wrong) in enumerate(ranked, start=1):
        wrong += is_wrong
        ends = number == len(ranked) or ranked[number][0] < score
        if ends and wrong <= error * number:
            threshold = score
    return threshold
