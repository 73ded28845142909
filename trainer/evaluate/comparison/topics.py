"""Models on a run's own topics, as systems on any benchmark: during training, in `foil evaluate JOB` and ablations.

    topics -> every passage once, under the key of its text; every intent a query -> Benchmark

Intents of a topic with the same query are one core. A judgment is 1 or 0; what nobody judged is not in the judgments.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.texts.words import text_key
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.comparison.results import Result, results
from foil.trainer.evaluate.comparison.scores import CollectionScores, Values, score
from foil.trainer.evaluate.comparison.weights import EncoderSystem, ScorerSystem
from foil.trainer.settings import TOPIC_MEASURES
from foil.trainer.text_templates import QueryPair, TextTemplate


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


OTHER_TOPICS = 4
"""Topics whose passages are candidates too, where queries have candidates."""


def benchmark_of_topics(
    name: str,
    groups: Sequence[TopicGroup],
    template: TextTemplate,
    measures: Sequence[str] = TOPIC_MEASURES,
    pairs: Sequence[Sequence[QueryPair]] | None = None,
    *,
    candidates: bool = False,
) -> Benchmark:
    """The benchmark of these topics; passages that the template makes equal are one.

    `pairs`: what is asked in place of each topic's intents; judgments stay as they are. `candidates`: a query ranks the
    passages of its topic and of the next ones, for systems that are too slow for all.
    """
    ids = [[_id_of(template.format_passage(*passage)) for passage in group.passages] for group in groups]
    passages = {
        name: passage
        for names, group in zip(ids, groups, strict=True)
        for name, passage in zip(names, group.passages, strict=True)
    }
    queries: list[EvaluationQuery] = []
    qrels: dict[str, dict[str, int]] = {}
    lists: dict[str, tuple[str, ...]] = {}
    for number, (group, names) in enumerate(zip(groups, ids, strict=True)):
        own = _queries(group, pairs[number] if pairs is not None else group.intents)
        queries += own
        qrels |= {query.id: _grades(names, row) for query, row in zip(own, group.relevance.tolist(), strict=True)}
        near = (ids[(number + step) % len(ids)] for step in range(min(OTHER_TOPICS + 1, len(ids))))
        lists |= dict.fromkeys((query.id for query in own), _in_order(near))
    documents = {name: passages[name] for name in _in_order(ids)}
    return Benchmark(name, "", documents, tuple(queries), qrels, lists if candidates else None, tuple(measures))


def _id_of(text: str) -> str:
    """The key of a text in as many digits as any, so that ids are in the order of keys."""
    return f"{text_key(text) + 2**63:020d}"


def _in_order(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Each document once, the one to which ties go first."""
    return tuple(sorted(set(chain.from_iterable(names)), reverse=True))


def _queries(group: TopicGroup, pairs: Sequence[QueryPair]) -> list[EvaluationQuery]:
    queries = dict.fromkeys(query for _, query in group.intents)
    cores = {query: f"{group.topic_id}#{place}" if place else group.topic_id for place, query in enumerate(queries)}
    return [
        EvaluationQuery(
            f"{group.topic_id}/{row}", query, pair[0], cores[query],
            "instructed" if instruction else "original", domain=group.corpus,
        )
        for row, ((instruction, query), pair) in enumerate(zip(group.intents, pairs, strict=True))
    ]  # fmt: skip


def _grades(names: Sequence[str], relevance: Sequence[int]) -> dict[str, int]:
    """Of a text that stands twice, whether any is relevant."""
    judged = sorted((value, name) for name, value in zip(names, relevance, strict=True) if value)
    return {name: int(value > 0) for value, name in judged}
