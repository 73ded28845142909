"""Topics of a run as a benchmark: every intent is a query, every passage a document, every judgment a grade.

Intents of one topic with the same query are variants of one core. `original` and `reversed` keep their mode; every
other role is `instructed`. An intent to which no passage is relevant has no value and is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from foil.datasets_out.training.training_view import SplitSettings
from foil.engine.topic import Intent, Topic
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, Mode

_MODES: Mapping[str, Mode] = {"original": "original", "reversed": "reversed"}


def held_out(topics: Iterable[Topic], split: SplitSettings) -> Iterator[Topic]:
    """The topics that training never sees: those that say so, and those whose seeds the split holds out."""
    return (
        topic
        for topic in topics
        if topic.attributes.get("split") == "heldout" or split.split_of(topic.seed_id) == "heldout"
    )


def benchmark_of(name: str, topics: Iterable[Topic]) -> Benchmark:
    """The benchmark of these topics; it may be empty."""
    documents: dict[str, tuple[str, str]] = {}
    queries: list[EvaluationQuery] = []
    qrels: dict[str, dict[str, int]] = {}
    for topic in topics:
        documents |= {passage.id: (passage.title, passage.text) for passage in topic.passages}
        for query, grades in _queries(topic):
            queries.append(query)
            qrels[query.id] = grades
    return Benchmark(name, "", documents, tuple(queries), qrels, None, measures_for(queries))


def _queries(topic: Topic) -> Iterator[tuple[EvaluationQuery, dict[str, int]]]:
    cores = {text: f"{topic.id}-{place}" for place, text in enumerate(dict.fromkeys(i.query for i in topic.intents))}
    for number, intent in enumerate(topic.intents):
        grades = _grades(topic, intent)
        if any(grades.values()):
            core = cores[intent.query]
            yield (
                EvaluationQuery(
                    f"{core}_{number}", intent.query, intent.instruction, core,
                    _MODES.get(intent.role, "instructed"), intent.attributes.get("dimension", ""), topic.corpus,
                ),
                grades,
            )  # fmt: skip


def _grades(topic: Topic, intent: Intent) -> dict[str, int]:
    """Passage -> 1 for relevant, 0 for judged and not relevant."""
    judged = (judgment for judgment in topic.judgments if judgment.intent_id == intent.id)
    return {judgment.passage_id: int(judgment.relevance > 0) for judgment in judged}


def measures_for(queries: Sequence[EvaluationQuery]) -> tuple[str, ...]:
    """What queries of these modes are measured by.

    >>> measures_for([EvaluationQuery("q", "")]), measures_for([EvaluationQuery("q", "", mode="instructed")])
    (('nDCG@10',), ('both views', 'p-MRR', 'nDCG@10'))
    """
    modes = {query.mode for query in queries}
    paired = ("both views", "p-MRR") if modes - {"original"} else ()
    reversed_too = ("WISE(K=20)", "SICR") if "reversed" in modes else ()
    return (*paired, *reversed_too, "nDCG@10")
