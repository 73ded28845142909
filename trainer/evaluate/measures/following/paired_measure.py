"""What all paired measures share: they compare the variants of one information need, and give one value for it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery, by_core, judged_queries


class PairedMeasure(ABC):
    """A measure of what changes between variants, in [-1, 1].

    Its value for a core is the mean over the core's pairs (or triples) of variants. A core without any has no value. A
    pair of which the run lacks a query counts 0.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """As papers write it, with its options."""

    @abstractmethod
    def pair_values(self, variants: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> list[float]:
        """One value for each pair or triple of judged variants of one core."""

    def values(self, queries: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> dict[str, float]:
        """The measure of every core that has pairs, by the core."""
        of_cores = {
            core: self.pair_values(variants, qrels, run)
            for core, variants in by_core(judged_queries(queries, qrels)).items()
        }
        return {core: float(np.mean(values)) for core, values in of_cores.items() if values}


def in_mode(variants: Sequence[VariantOfQuery], mode: str) -> list[str]:
    """The ids of the variants of one mode."""
    return [variant.id for variant in variants if variant.mode == mode]
