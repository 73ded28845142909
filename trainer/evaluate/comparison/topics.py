"""Models on a run's own topics, as systems on any benchmark: during training, in `foil evaluate JOB` and ablations."""

from collections.abc import Mapping, Sequence

from foil.datasets_out.training.training_view import TopicGroup
from foil.trainer.evaluate.benchmarks.topic_benchmark import benchmark_of_topics
from foil.trainer.evaluate.comparison.results import Result, results
from foil.trainer.evaluate.comparison.scores import CollectionScores, Values, score
from foil.trainer.evaluate.comparison.weights import EncoderSystem, ScorerSystem
from foil.trainer.settings import TOPIC_MEASURES
from foil.trainer.text_templates import QueryPair


def score_topics(
    system: EncoderSystem | ScorerSystem,
    groups: Sequence[TopicGroup],
    measures: Sequence[str] = TOPIC_MEASURES,
    pairs: Sequence[Sequence[QueryPair]] | None = None,
    *,
    candidates: bool = False,
) -> CollectionScores:
    """All values of a model; `pairs` and `candidates` as in `benchmark_of_topics`."""
    topics = benchmark_of_topics("topics", groups, system.template, measures, pairs, candidates=candidates)
    [scores] = score([topics], [system], (), len(topics.documents))
    return scores


def gains(base: Mapping[str, Values], model: Mapping[str, Values], resamples: int) -> dict[str, Result]:
    """What one model gained over another, by measure."""
    part = CollectionScores("", "", "", {"base": base, "other": model}, {})
    rows = results("", [part], "base", "queries", resamples)
    return {result.measure: result for result in rows if result.system == "other"}
