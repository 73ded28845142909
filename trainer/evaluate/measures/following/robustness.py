"""Robustness@k: the worst nDCG@k among the variants of an information need.

Oh et al., InstructIR: a benchmark for instruction following of information retrieval models, 2024, arXiv 2402.14334.
InfoSearch (ICLR 2025), arXiv 2410.23841, has it of each mode (table 1; eq. 7 and 8), since the modes differ in what is
relevant: among original queries, of which a core has one, it is their nDCG@k.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from foil.trainer.evaluate.measures.following.paired_measure import PairedMeasure
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery
from foil.trainer.evaluate.measures.ranking.ndcg import NDCG
from foil.trainer.evaluate.measures.ranking.ranking_measure import at


@dataclass(frozen=True, slots=True)
class Robustness(PairedMeasure):
    """The least nDCG of the judged variants of one mode, or of all; that of a single variant is its own."""

    cutoff: int
    mode: str = ""

    @property
    def name(self) -> str:
        return f"Robustness{at(self.cutoff)}" + (f"({self.mode})" if self.mode else "")

    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        chosen = [variant for variant in variants if self.mode in ("", variant.mode)]
        return [min(NDCG(self.cutoff).values(chosen, qrels, run).values())] if chosen else []
