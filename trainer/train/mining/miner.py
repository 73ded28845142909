"""Hard negatives: passages that rank high for an intent, and that do not answer it as far as can be known.

    intents --scorer--> ranks [skip, depth) of the candidates --refused candidates are counted--> the first `per_intent`

A candidate is refused for the first of these reasons that holds:
    own           the topic itself holds the passage, or an edit or part of the same text
    answers       it answers one of the topic's queries, or its seed, in any topic; or is related to such an answer
    margin        it scores above `max_relative` of the intent's lowest positive, or within `min_gap` of it
    other_intent  the same under another intent of the topic, since training contrasts a passage with all of them
    alike         it shares most of its words with a positive
    satisfies     it satisfies the intent's own constraints, where these can be checked
Intents of poisoned rows are never mined for. The relative margin is that of NV-Retriever (Moreira et al.,
arXiv 2407.15831, section 3.2). Price: a topic's intents are scored twice, against all candidates and against the best.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from foil.datasets_out.training.candidate_pool import CandidatePool, SplitCandidates, related_keys
from foil.datasets_out.training.mined_negatives import MinedNegative, MiningResult
from foil.datasets_out.training.training_view import Split
from foil.engine.seeds.bm25 import words_of
from foil.engine.topic import Intent, Passage, Topic
from foil.trainer.train.mining.scorers import Floats, MiningQuery, Scorer
from foil.trainer.train.mining.settings import MineSettings

Satisfies = Callable[[Intent, Passage], bool]
"""Whether the passage satisfies the constraints of the intent; False where it has none that can be checked."""


@dataclass(frozen=True, slots=True)
class _MiningTask:
    """A topic, its intents with a positive, and which of them are mined for; their queries begin at `first_row`."""

    topic: Topic
    intents: tuple[Intent, ...]
    positives: tuple[tuple[int, ...], ...]
    first_row: int
    mined: tuple[int, ...]

    @property
    def rows(self) -> range:
        return range(self.first_row, self.first_row + len(self.intents))


class Miner:
    """Mines the negatives of a partition's topics. `open_scorer` makes the scorer of a split's candidates, once.

    The counts: `topics` and `intents` mined for, candidates `considered`, each `refused REASON` or `taken`.
    """

    def __init__(
        self,
        pool: CandidatePool,
        open_scorer: Callable[[SplitCandidates], Scorer],
        settings: MineSettings,
        satisfies: Satisfies,
    ) -> None:
        self._pool, self._open_scorer, self._settings, self._satisfies = pool, open_scorer, settings, satisfies
        self._scorers: dict[Split, Scorer] = {}

    def __call__(self, topics: Sequence[Topic]) -> MiningResult:
        mined: dict[str, list[MinedNegative]] = {}
        counts: Counter[str] = Counter()
        for split in dict.fromkeys(self._settings.splits):
            tasks = list(self._tasks(topics, split))
            if tasks:
                mined |= self._mine(tasks, split, counts)
        return MiningResult(mined, counts)

    def _tasks(self, topics: Sequence[Topic], split: Split) -> Iterator[_MiningTask]:
        candidates, row = self._pool.by_split[split], 0
        for topic in topics:
            if topic.status == "accepted" and self._pool.split_of(topic) == split:
                task = _make_task(topic, candidates, self._settings.roles, row)
                if task.mined:
                    row += len(task.intents)
                    yield task

    def _mine(self, tasks: Sequence[_MiningTask], split: Split, counts: Counter[str]) -> dict[str, list[MinedNegative]]:
        if split not in self._scorers:
            self._scorers[split] = self._open_scorer(self._pool.by_split[split])
        pairs = [(intent.instruction, intent.query) for task in tasks for intent in task.intents]
        queries = self._scorers[split].prepare(pairs)
        rows = [task.first_row + number for task in tasks for number in task.mined]
        nearest = iter(queries.nearest(rows, self._settings.depth))
        return {
            task.topic.id: list(self._take(task, [next(nearest) for _ in task.mined], queries, counts))
            for task in tasks
        }

    def _take(
        self, task: _MiningTask, nearest: Sequence[list[int]], queries: MiningQuery, counts: Counter[str]
    ) -> Iterator[MinedNegative]:
        """The negatives of one topic; `nearest` has the best positions of each intent that is mined for."""
        positions = sorted({*chain(*nearest, *task.positives)})
        scored = queries.scores(task.rows, positions), positions
        screen = _CandidateFilter(self._pool, task, self._settings, self._satisfies, scored)
        counts["topics"] += 1
        for number, ranked in zip(task.mined, nearest, strict=True):
            counts["intents"] += 1
            yield from islice(screen.accepted(number, ranked, counts), self._settings.per_intent)


class _CandidateFilter:
    """Refuses candidates of one topic, by the reasons in the module's docstring.

    `scored` has scores [intents, positions], and these positions.
    """

    def __init__(
        self,
        pool: CandidatePool,
        task: _MiningTask,
        settings: MineSettings,
        satisfies: Satisfies,
        scored: tuple[Floats, Sequence[int]],
    ) -> None:
        scores, positions = scored
        self._task, self._candidates = task, pool.by_split[pool.split_of(task.topic)]
        self._settings, self._satisfies = settings, satisfies
        self._own, self._answers = pool.topic_keys(task.topic), pool.answer_keys(task.topic)
        self._positive_words = [self._words(position) for position in sorted({*chain(*task.positives)})]
        self._scores, self._column = scores, {position: column for column, position in enumerate(positions)}
        columns = [[self._column[position] for position in positives] for positives in task.positives]
        self._lowest = [float(scores[row, own].min()) for row, own in enumerate(columns)]
        self._too_high = scores > np.array([score_ceiling(low, settings) for low in self._lowest])[:, None]

    def accepted(self, number: int, ranked: Sequence[int], counts: Counter[str]) -> Iterator[MinedNegative]:
        """The candidates of the intent of this number that no reason refuses, by rank."""
        skip, intent = self._settings.skip, self._task.intents[number]
        for rank, position in enumerate(ranked[skip:], start=skip + 1):
            reason = self._refusal(number, position)
            counts["considered"] += 1
            counts[f"refused {reason}" if reason else "taken"] += 1
            if not reason:
                score = float(self._scores[number, self._column[position]])
                yield MinedNegative(intent.id, self._candidates.candidates[position], rank, score, self._lowest[number])

    def _refusal(self, number: int, position: int) -> str:
        passage, too_high = self._candidates.candidates[position].passage, self._too_high[:, self._column[position]]
        kin = related_keys(passage)
        reasons: dict[str, Callable[[], object]] = {
            "own": lambda: not self._own.isdisjoint(kin),
            "answers": lambda: not self._answers.isdisjoint(kin),
            "margin": lambda: too_high[number],
            "other_intent": too_high.any,
            "alike": lambda: self._is_alike(position),
            "satisfies": lambda: (
                self._settings.satisfying == "refuse" and self._satisfies(self._task.intents[number], passage)
            ),
        }
        return next((reason for reason, holds in reasons.items() if holds()), "")

    def _is_alike(self, position: int) -> bool:
        words = self._words(position)
        shares = (overlap(words, positive) for positive in self._positive_words)
        return max(shares, default=0.0) > self._settings.max_overlap

    def _words(self, position: int) -> frozenset[str]:
        passage = self._candidates.candidates[position].passage
        return frozenset(words_of([f"{passage.title} {passage.text}"])[0])


def score_ceiling(lowest_positive: float, settings: MineSettings) -> float:
    """The score that a negative may have at most, given the score of the intent's lowest positive."""
    relative = lowest_positive - (1 - settings.max_relative) * abs(lowest_positive)
    return min(relative, lowest_positive - settings.min_gap)


def overlap(first: frozenset[str], second: frozenset[str]) -> float:
    """The share of the smaller set that the larger one has.

    >>> overlap(frozenset("abc"), frozenset("bcdef"))
    0.6666666666666666
    """
    return len(first & second) / max(1, min(len(first), len(second)))


def _make_task(topic: Topic, candidates: SplitCandidates, roles: Sequence[str], row: int) -> _MiningTask:
    """Leaves out an intent that has no positive, or has one of another split."""
    position_of = {passage.id: candidates.position(passage) for passage in topic.passages}
    all_positives: dict[str, list[int | None]] = {}
    for judgment in topic.judgments:
        if judgment.relevance > 0:
            all_positives.setdefault(judgment.intent_id, []).append(position_of[judgment.passage_id])
    positives_of = {
        intent_id: tuple(position for position in positions if position is not None)
        for intent_id, positions in all_positives.items()
        if None not in positions
    }
    intents = tuple(intent for intent in topic.intents if intent.id in positives_of)
    mined = tuple(number for number, intent in enumerate(intents) if intent.role in roles)
    return _MiningTask(topic, intents, tuple(positives_of[intent.id] for intent in intents), row, mined)
