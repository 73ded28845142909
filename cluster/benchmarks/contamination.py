"""Which queries of a benchmark stand in what a run trains on: the matcher of `validators.overlap`, turned around.

    query texts, relevant documents -> NgramIndex;   training topics -> their texts, streamed -> hits -> queries

A query is contaminated if 13 of its words in a row, or all of a shorter one, stand in a training text, or if half of a
document that is relevant to it does, in a row. Instructions do not count: training on their style is what it is for.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import Split, SplitSettings, TopicGroup, TrainingView
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from foil.trainer.evaluate.measures.judged import relevant_documents
from foil.validators.overlap.contamination import ContaminationSettings
from foil.validators.overlap.ngram_index import Item, NgramIndex

QUERY, DOCUMENT = "query", "document"
_LEAST = {name: ContaminationSettings.model_fields[name].default for name in ("query_words", "passage_words")}
_SPLITS: tuple[Split, ...] = ("train", "dev")
_TOPICS_AT_ONCE = 256


class TrainingText(NamedTuple):
    """A text that training reads, and the least words of a shorter item that count in it."""

    text: str
    least_words: int


def contaminated_queries(benchmark: Benchmark, snapshots: Sequence[Snapshot], settings: MakingSettings) -> set[str]:
    """The ids of queries whose own text, or a relevant document of theirs, some of these runs train on."""
    index = NgramIndex.build(_items(benchmark), settings.overlap_words)
    hit_items: set[tuple[str, str]] = set()
    for texts in (batch for snapshot in snapshots for batch in training_texts(snapshot, settings.split)):
        hits = index.find([each.text for each in texts], [each.least_words for each in texts])
        hit_items |= {
            (hit.source, hit.item)
            for hit in hits
            if hit.source == QUERY or hit.words >= settings.document_share * hit.item_words
        }
    return {
        query.id
        for query in benchmark.queries
        if (QUERY, query.query) in hit_items
        or any((DOCUMENT, name) in hit_items for name in relevant_documents(benchmark.qrels, query.id))
    }


def _items(benchmark: Benchmark) -> list[Item]:
    relevant = {name for query in benchmark.queries for name in relevant_documents(benchmark.qrels, query.id)}
    documents = (Item(DOCUMENT, name, "\n".join(benchmark.documents[name])) for name in sorted(relevant)
                 if name in benchmark.documents)  # fmt: skip
    texts = dict.fromkeys(query.query for query in benchmark.queries)
    return [*(Item(QUERY, text, text) for text in texts), *documents]


def training_texts(snapshot: Snapshot, split: SplitSettings) -> Iterator[list[TrainingText]]:
    """The queries and passages that a training on this run reads, a batch of topics at a time. The bytes are verified.

    A passage that a held-out topic has too is none of them.
    """
    view = TrainingView([TopicSource(snapshot)], split)
    for name in _SPLITS:
        for start in range(0, len(view.partitions(name)), _TOPICS_AT_ONCE):
            stop = min(start + _TOPICS_AT_ONCE, len(view.partitions(name)))
            yield [text for group in view.read(name, range(start, stop)) for text in _texts(group)]


def _texts(group: TopicGroup) -> Iterator[TrainingText]:
    queries = dict.fromkeys(query for _, query in group.intents)
    yield from (TrainingText(query, _LEAST["query_words"]) for query in queries)
    yield from (TrainingText("\n".join(passage), _LEAST["passage_words"]) for passage in group.passages)
