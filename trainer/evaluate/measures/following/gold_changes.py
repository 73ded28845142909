"""InfoSearch's gold documents: where each stands without an instruction, with it, and with its reverse.

InfoSearch (ICLR 2025), arXiv 2410.23841, section 2.3: the instruction keeps some of the documents that are relevant to
the core query, its gold documents. The reversed instruction excludes these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from foil.trainer.evaluate.measures.following.paired_measure import in_mode
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery, relevant_documents
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
