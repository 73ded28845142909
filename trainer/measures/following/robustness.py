"""Robustness@k: the worst nDCG@k among the variants of an information need.

Oh et al., InstructIR: a benchmark for instruction following of information retrieval models, 2024, arXiv 2402.14334.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.measures.following.paired_measure import PairedMeasure
from trainer.measures.judged import Qrels, Run, VariantOfQuery
from trainer.measures.ranking.ndcg import NDCG
from trainer.measures.ranking.ranking_measure import at


@dataclass(frozen=True, slots=True)
class Robustness(PairedMeasure):
    """The least nDCG of all judged variants, whatever their mode; that of a single variant is its own."""

    cutoff: int

    @property
    def name(self) -> str:
        return f"Robustness{at(self.cutoff)}"

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        return [min(NDCG(self.cutoff).values(variants, qrels, run).values())]
