"""The one list of measures, by the names that papers and ir_measures give them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.following.both_views import BothViews, JudgedChange, JudgedViews, OfQueries
from foil.trainer.evaluate.measures.following.infosearch import SICR, WISE, Robustness
from foil.trainer.evaluate.measures.following.p_mrr import PMRR
from foil.trainer.evaluate.measures.judged import Qrels, Run, VariantOfQuery
from foil.trainer.evaluate.measures.ranking import (
    NDCG,
    AveragePrecision,
    Precision,
    RankingMeasure,
    Recall,
    ReciprocalRank,
    rank_relevant,
)


class Measure(Protocol):
    """A number in [-1, 1] for each query (ranking measures) or for each core of queries (paired measures).

    Queries without judgments have none. A judged query that the run lacks counts 0; `missing_queries` names it.
    """

    @property
    def name(self) -> str: ...

    def values(self, queries: Sequence[VariantOfQuery], qrels: Qrels, run: Run) -> dict[str, float]:
        """The values by query id or by core; empty where there is nothing to compare. A NaN score is a UsageError."""


_NUMBER = r"[1-9]\d{0,8}"
_CUTOFF = rf"@(?P<cutoff>{_NUMBER})"
_MODE = r"(?:original|instructed|reversed|changed|variant)"
_AND = r"(?:, ?|(?=\)))"
_WISE = (
    rf"WISE(?:\((?=\w)(?:(?P<released>released){_AND})?(?:K=(?P<k>{_NUMBER}){_AND})?"
    rf"(?:N=(?P<positives>{_NUMBER}))?(?<=\w)\))?"
)
MEASURES: Mapping[str, tuple[str, Callable[..., Measure]]] = {
    "nDCG@k": (rf"nDCG(?:{_CUTOFF})?", NDCG),
    "AP@k": (rf"AP(?:{_CUTOFF})?", AveragePrecision),
    "RR@k": (rf"RR(?:{_CUTOFF})?", ReciprocalRank),
    "R@k": (rf"R{_CUTOFF}", Recall),
    "P@k": (rf"P{_CUTOFF}", Precision),
    "p-MRR(before->after)": (rf"p-MRR(?:\((?P<before>{_MODE})->(?P<after>{_MODE})\))?", PMRR),
    "SICR(released)": (r"SICR(?:\((?P<released>released)\))?", SICR),
    "WISE(released,K=20,N=4)": (_WISE, WISE),
    "ideal WISE(released,K=20,N=4)": (rf"(?P<ideal>ideal) {_WISE}", WISE),
    "Robustness@k(mode)": (rf"Robustness{_CUTOFF}(?:\((?P<mode>{_MODE})\))?", Robustness),
    "both views": (r"both views", BothViews),
    "both_views": (r"both_views", JudgedViews),
    "should_fall": (r"should_fall", partial(JudgedChange, "should_fall")),
    "should_stay": (r"should_stay", partial(JudgedChange, "should_stay")),
    "net": (r"net", partial(JudgedChange, "net")),
    "plain_ndcg@k": (rf"(?P<queries>plain)_(?P<measure>ndcg)(?:{_CUTOFF})?", OfQueries),
    "plain_rr@k": (rf"(?P<queries>plain)_(?P<measure>rr)(?:{_CUTOFF})?", OfQueries),
    "instructed_ndcg@k": (rf"(?P<queries>instructed)_(?P<measure>ndcg)(?:{_CUTOFF})?", OfQueries),
}
"""spelling -> (pattern of names, what makes the measure of the pattern's groups); what stands in brackets, and the
cutoff of nDCG, AP and RR, may be left out. Those with a line below are of topics, which judge both ways."""


def measure_named(name: str) -> Measure:
    """The measure of that name; UsageError names the known ones.

    >>> [measure_named(name).name for name in ("nDCG@10", "AP", "WISE", "ideal WISE(released)")]
    ['nDCG@10', 'AP', 'WISE(K=20)', 'ideal WISE(released)']
    """
    for pattern, make in MEASURES.values():
        if match := re.fullmatch(pattern, name):
            return make(**{key: _option(key, text) for key, text in match.groupdict().items() if text is not None})
    raise UsageError(
        f"there is no measure {name!r}; known are {', '.join(MEASURES)} (k, K and N are whole numbers from 1)"
    )


def _option(key: str, text: str) -> Any:
    return int(text) if text.isdigit() else text == key or text


def measure_all(
    measures: Iterable[Measure], queries: Sequence[VariantOfQuery], qrels: Qrels, run: Run
) -> dict[str, dict[str, float]]:
    """The values of several measures, by name; what the ranking measures share is worked out once."""
    ranked = None
    values = {}
    for measure in measures:
        if isinstance(measure, RankingMeasure):
            ranked = rank_relevant(queries, qrels, run) if ranked is None else ranked
            values[measure.name] = measure.of(ranked)
        else:
            values[measure.name] = measure.values(queries, qrels, run)
    return values
