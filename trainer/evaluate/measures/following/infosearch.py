"""InfoSearch's measures: SICR, WISE and robustness, over its gold documents without an instruction, with it, reversed.

InfoSearch (ICLR 2025), arXiv 2410.23841, section 2.3: the instruction keeps some of the documents that are relevant to
the core query, its gold documents. The reversed instruction excludes these. The released code is EIT-NLP/InfoSearch,
25179c1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt

import numpy as np

from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure, in_mode
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery, relevant_documents
from foil.trainer.evaluate.measures.ranking import NDCG, at
from foil.trainer.evaluate.measures.ranks import ranks_of, scores_of


@dataclass(frozen=True, slots=True)
class GoldRanks:
    """R_ori, R_ins and R_rev of one gold document, from 1."""

    original: int
    instructed: int
    reversed: int


@dataclass(frozen=True, slots=True)
class GoldScores:
    """S_ori, S_ins and S_rev of one gold document; -inf where it was not retrieved."""

    original: float
    instructed: float
    reversed: float


@dataclass(frozen=True, slots=True)
class GoldChanges:
    """The gold documents of one instruction: ranks and scores, in the order of the judgments.

    Both are empty if the run lacks one of the three queries. `positives` is N, the number of documents relevant to
    the core query.
    """

    ranks: tuple[GoldRanks, ...]
    scores: tuple[GoldScores, ...]
    positives: int


def gold_changes(variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> Iterator[GoldChanges]:
    """One for each original, instructed and reversed query of a core that share gold documents.

    A document is gold if it is relevant to the first and the second, and not to the third.
    """
    for triple in product(*(in_mode(variants, mode) for mode in ("original", "instructed", "reversed"))):
        original, instructed, kept_by_reverse = (relevant_documents(qrels, query) for query in triple)
        golds = set(original).intersection(instructed).difference(kept_by_reverse)
        if golds:
            yield _changes(run, triple, [document for document in instructed if document in golds], len(original))


def _changes(run: Run, triple: Sequence[str], golds: Sequence[str], positives: int) -> GoldChanges:
    if not all(run.get(query) for query in triple):
        return GoldChanges((), (), positives)
    ranks = zip(*(ranks_of(run, query, golds).tolist() for query in triple), strict=True)
    scores = zip(*(scores_of(run, query, golds).tolist() for query in triple), strict=True)
    return GoldChanges(tuple(GoldRanks(*row) for row in ranks), tuple(GoldScores(*row) for row in scores), positives)


@dataclass(frozen=True, slots=True)
class SICR(PairedMeasure):
    """SICR: the share of gold documents that the instruction lifts, in rank and score, and its reverse lowers.

    Eq. 1 and 2. As printed it cannot be 1 for a document that is first already, and of several gold documents it is the
    mean (the paper has one). The released code accepts one that stays first; of several it counts the last alone, over
    their number; a document that was not retrieved has the score 0 there.
    """

    released: bool = False

    @property
    def name(self) -> str:
        return "SICR(released)" if self.released else "SICR"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        value = released_sicr if self.released else printed_sicr
        return [value(changes) if changes.ranks else 0.0 for changes in gold_changes(variants, qrels, run)]


def printed_sicr(changes: GoldChanges) -> float:
    """The share of an instruction's gold documents that comply (eq. 1)."""
    return float(np.mean([complies(*gold) for gold in zip(changes.ranks, changes.scores, strict=True)]))


def released_sicr(changes: GoldChanges) -> float:
    """1 / gold documents if the last of them complies, else 0."""
    ranks, scores = changes.ranks[-1], _missing_as_zero(changes.scores[-1])
    stays_first = (
        ranks.original == ranks.instructed == 1 < ranks.reversed
        and scores.instructed >= scores.original > scores.reversed
    )
    return (complies(ranks, scores) or stays_first) / len(changes.ranks)


def complies(ranks: GoldRanks, scores: GoldScores) -> bool:
    """Eq. 1: R_ins < R_ori < R_rev and S_ins > S_ori > S_rev.

    >>> ranks = GoldRanks(3, 1, 7)
    >>> complies(ranks, GoldScores(0.6, 0.8, 0.4)), complies(ranks, GoldScores(0.6, 0.55, 0.4))
    (True, False)
    """
    in_ranks = ranks.instructed < ranks.original < ranks.reversed
    return in_ranks and scores.instructed > scores.original > scores.reversed


def _missing_as_zero(scores: GoldScores) -> GoldScores:
    modes = ("original", "instructed", "reversed")
    return replace(scores, **{mode: 0.0 for mode in modes if getattr(scores, mode) == -np.inf})


@dataclass(frozen=True, slots=True)
class WISE(PairedMeasure):
    """WISE: rewards a gold document that the instruction lifts and its reverse lowers, most at the top; else a penalty.

    Eq. 3 to 6, with the top `k` ranks and N `positives` (those of the core query where None). In eq. 4 the root is of
    R_ori - R_ins alone and K divides it afterwards, as in the released code and in the paper's heat map. The paper's
    text says that larger gains earn more; for one R_ins the equation has the opposite. `released`: the code wants R_ori
    < N for the full reward, the paper R_ori <= N.

    `ideal`: what a re-ranker of this run's original lists would get at best. It puts every gold document first under
    the instruction, and one rank lower under its reverse (the column "Ideal" of the paper's tables 17 to 22).
    """

    k: int = 20
    positives: int | None = None
    released: bool = False
    ideal: bool = False

    @property
    def name(self) -> str:
        options = [f"K={self.k}"] if not self.released else ["released", *([f"K={self.k}"] if self.k != 20 else [])]
        options += [] if self.positives is None else [f"N={self.positives}"]
        return f"{'ideal ' if self.ideal else ''}WISE({','.join(options)})"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        changes = gold_changes(variants, qrels, run)
        return [float(np.mean([self.value(gold, each.positives) for gold in each.ranks] or [0])) for each in changes]

    def value(self, ranks: GoldRanks, positives: int) -> float:
        """The value of one gold document whose core query has so many relevant ones."""
        if self.ideal:
            ranks = GoldRanks(ranks.original, 1, ranks.original + 1)
        n = positives if self.positives is None else self.positives
        if ranks.instructed <= ranks.original < ranks.reversed:
            return reward(ranks.original, ranks.instructed, self.k, n - self.released)
        return penalty(ranks)


def reward(original: int, instructed: int, k: int, full_until: int) -> float:
    """Eq. 4; an original rank up to `full_until` earns 1 if the instruction puts the document first.

    >>> [round(reward(*ranks, k=20, full_until=4), 6) for ranks in [(4, 1), (5, 1), (3, 2), (20, 1), (25, 1)]]
    [1.0, 0.9, 0.671751, 0.782055, 0.01]
    """
    if original <= full_until and instructed == 1:
        return 1.0
    return (1 - sqrt(original - instructed) / k) / sqrt(instructed) if original <= k else 0.01


def penalty(ranks: GoldRanks) -> float:
    """Eq. 5, in its order of cases: without a move under the instruction it is 0, whatever the reverse does.

    >>> [penalty(GoldRanks(*ranks)) for ranks in [(2, 5, 9), (5, 8, 5), (5, 3, 2), (4, 8, 2), (5, 5, 2)]]
    [-0.6, -0.375, -0.6, -1.0, 0.0]
    """
    if ranks.reversed < ranks.original < ranks.instructed:
        return -1.0
    if ranks.original <= ranks.instructed:
        return (ranks.original - ranks.instructed) / ranks.instructed
    return (ranks.reversed - ranks.original) / ranks.original


@dataclass(frozen=True, slots=True)
class Robustness(PairedMeasure):
    """Robustness@k: the least nDCG@k of the judged variants of one mode, or of all; that of a single one is its own.

    Oh et al., InstructIR, 2024, arXiv 2402.14334. InfoSearch has it of each mode (table 1; eq. 7 and 8), since modes
    differ in what is relevant: among original queries, of which a core has one, it is their nDCG@k.
    """

    cutoff: int
    mode: str = ""

    @property
    def name(self) -> str:
        return f"Robustness{at(self.cutoff)}" + (f"({self.mode})" if self.mode else "")

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        chosen = [variant for variant in variants if self.mode in ("", variant.mode)]
        return [min(NDCG(self.cutoff).values(chosen, qrels, run).values())] if chosen else []
