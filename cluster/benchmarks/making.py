"""`foil benchmarks make SOURCE --into FOLDER`: a run's own topics, or a benchmark that is there, as a new benchmark.

SOURCE -> benchmarks, one at a time -> without queries that runs train on -> sampled -> FOLDER, whole or not at all
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from foil.cluster.benchmarks.sources import PartToMake, parts_to_make
from foil.cluster.evaluations.benchmarks import DEFAULT_OUT, REFERENCES, open_pool
from foil.cluster.extras import PACKAGE, version_of
from foil.cluster.job import load_training_job, settings_beside_job
from foil.cluster.terminal import print_json, say, show
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import Split, SplitSettings, TopicGroup, TrainingView
from foil.engine.atomic_files import publish_folder
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, checked, only_queries
from foil.trainer.evaluate.benchmarks.making.made import write_benchmark
from foil.trainer.evaluate.benchmarks.making.sampling import (
    MEASURE,
    core_queries,
    kendall_tau,
    mean_scores,
    sample_documents,
    sample_queries,
)
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from foil.trainer.evaluate.measures.judged import Run, relevant_documents
from foil.trainer.evaluate.systems.embedder import embedder
from foil.trainer.evaluate.systems.system import System, SystemSettings, ranking_of
from foil.validators.overlap.contamination import ContaminationSettings
from foil.validators.overlap.ngram_index import Item, NgramIndex


@dataclass(frozen=True, slots=True)
class MakingOrder:
    """What a benchmark is made from and held against, as the command line names it; `foil benchmarks make` explains."""

    source: str
    into: Path
    overrides: Sequence[str] = ()
    job: Path | None = None
    snapshot: str | None = None
    against: Sequence[str] = ()
    refuse: bool = False
    systems: Sequence[str] = ()
    first: str = "bm25"
    vectors: Path = DEFAULT_OUT / "vectors"

    def settings(self) -> MakingSettings:
        """Under `--set`, and in the job's splits."""
        job = load_training_job(self.job) if self.job else None
        return settings_beside_job(self.overrides, MakingSettings, job, "split")


@dataclass(frozen=True, slots=True)
class Making:
    """An order with what it names, read; `pool`: the systems whose ranking a sample keeps."""

    order: MakingOrder
    settings: MakingSettings
    against: tuple[Snapshot, ...]
    pool: tuple[System, ...]


def make_benchmark(order: MakingOrder, *, as_json: bool = False) -> None:
    """Makes the benchmark and prints what is in it. Raises UsageError where nothing is left, or FOLDER is there."""
    if order.into.exists():
        raise UsageError(f"{order.into} is there already; name a new folder with --into")
    settings = order.settings()
    is_sampled = settings.queries or settings.documents
    pool = open_pool(order.systems, settings, order.vectors, order.first) if is_sampled else ()
    making = Making(order, settings, tuple(map(named_snapshot, order.against)), tuple(pool))
    rows: list[dict[str, Any]] = []
    publish_folder(order.into, partial(_write, making, rows))
    if as_json:
        print_json(rows)
        return
    columns = dict.fromkeys(name for row in rows for name in row)
    show([*columns], [[row.get(name, "") for name in columns] for row in rows], f"made in {order.into}")
    say(f"measure systems on it: foil evaluate MODEL --on made:{order.into}")


def named_snapshot(text: str) -> Snapshot:
    """RUN or RUN#SNAPSHOT."""
    run, _, name = text.partition("#")
    return load_snapshot(Path(run), name or None)


def _write(making: Making, rows: list[dict[str, Any]], draft: Path) -> None:
    for part in parts_to_make(making.order.source, making.settings, making.order.snapshot):
        benchmark, facts = _made(part, making)
        write_benchmark(draft / part.folder, checked(benchmark), facts)
        counts = {"documents": len(benchmark.documents), "queries": len(benchmark.queries)}
        rows.append({"benchmark": benchmark.name, **counts, **facts["counts"]})


def _made(part: PartToMake, making: Making) -> tuple[Benchmark, dict[str, Any]]:
    """The benchmark as it is written, and what `benchmark.json` says of its making."""
    benchmark, against = part.benchmark, (*part.trained_on, *making.against)
    clean = _clean(benchmark, making, against)
    contaminated = {"contaminated": len(benchmark.queries) - len(clean.queries)} if against else {}
    small, ranking = sample(clean, making.pool, making.settings, making.order.vectors) if making.pool else (clean, {})
    tau = {"tau": ranking["tau"]} if ranking else {}
    own = set(MakingSettings.model_fields) - set(SystemSettings.model_fields)
    return small, {
        "made_from": making.order.source,
        "name": benchmark.name,
        "of": {"digest": benchmark.digest, "revision": benchmark.revision, "queries": len(benchmark.queries),
               "documents": len(benchmark.documents)},
        "counts": {**part.counts, **contaminated, **tau},
        "ranking": ranking,
        "against": [{"run": str(each.out), "snapshot": each.name, "digest": each.digest} for each in against],
        "settings": making.settings.model_dump(mode="json", include=own),
        PACKAGE: version_of(PACKAGE),
    }  # fmt: skip


def _clean(benchmark: Benchmark, making: Making, against: Sequence[Snapshot]) -> Benchmark:
    """Without the queries that these runs train on, and the variants of their cores."""
    dirty = contaminated_queries(benchmark, against, making.settings) if against else set()
    cores = {query.core for query in benchmark.queries if query.id in dirty}
    clean = only_queries(benchmark, {query.id for query in benchmark.queries if query.core not in cores})
    if dirty and (making.order.refuse or not clean.queries):
        advice = "leave out --refuse to drop them" if clean.queries else "none is left: make it of other topics"
        raise UsageError(
            f"{len(dirty):,} of {len(benchmark.queries):,} queries of {benchmark.name} stand in what these runs train "
            f"on, such as {min(dirty)!r}; {advice}"
        )
    return clean


QUERY, DOCUMENT = "query", "document"
_LEAST = {name: ContaminationSettings.model_fields[name].default for name in ("query_words", "passage_words")}
_SPLITS: tuple[Split, ...] = ("train", "dev")
_TOPICS_AT_ONCE = 256


class TrainingText(NamedTuple):
    """A text that training reads, and the least words of a shorter item that count in it."""

    text: str
    least_words: int


def contaminated_queries(benchmark: Benchmark, snapshots: Sequence[Snapshot], settings: MakingSettings) -> set[str]:
    """The ids of queries whose own text, or a relevant document of theirs, some of these runs train on.

    A query is contaminated if 13 of its words in a row, or all of a shorter one, stand in a training text, or if half
    of a document that is relevant to it does, in a row: the matcher of `validators.overlap`, turned around.
    Instructions do not count: training on their style is what it is for.
    """
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


def rank_all(benchmark: Benchmark, pool: Sequence[System], depth: int) -> dict[str, Run]:
    """The runs of all systems, by their names."""
    return {system.name: ranking_of(system, benchmark, depth) for system in pool}


def sample(
    benchmark: Benchmark, pool: Sequence[System], settings: MakingSettings, vectors: Path
) -> tuple[Benchmark, dict[str, Any]]:
    """A sample of queries and documents, and the systems' scores on the whole and on it.

    Raises UsageError where it does not keep their ranking.
    """
    runs = rank_all(benchmark, pool, settings.pool_depth)
    small = benchmark
    if settings.queries:
        small = sample_queries(benchmark, _core_vectors(benchmark, settings, vectors), settings.queries, settings.seed)
    if settings.documents:
        small = sample_documents(small, list(runs.values()), settings.documents, settings.pool_depth, settings.seed)
    full, sampled = mean_scores(benchmark, runs), mean_scores(small, rank_all(small, pool, settings.pool_depth))
    tau = kendall_tau(full, sampled)
    _show(benchmark.name, full, sampled, tau)
    if tau is None or tau < settings.least_tau:
        raise UsageError(
            f"the sample of {benchmark.name} does not keep the ranking of {len(full)} systems by {MEASURE}: Kendall's "
            f"tau is {_words(tau)}, and least_tau {settings.least_tau:g}; take more queries or documents, compare more "
            "systems with --system, or --set least_tau"
        )
    return small, {"measure": MEASURE, "tau": tau, "full": full, "sampled": sampled}


def _core_vectors(benchmark: Benchmark, settings: MakingSettings, vectors: Path) -> Any:
    """The base model's vectors of the cores' queries without instructions, [cores, D]."""
    pairs = [("", text) for text in core_queries(benchmark).values()]
    return embedder(REFERENCES[-1], settings, vectors).pair_vectors(pairs)


def _show(name: str, full: Mapping[str, float], sampled: Mapping[str, float], tau: float | None) -> None:
    rows = [(system, f"{100 * full[system]:.1f}", f"{100 * sampled[system]:.1f}") for system in full]
    show([f"{MEASURE}, in points", "whole", "sample"], rows, f"{name}: Kendall's tau {_words(tau)}")


def _words(tau: float | None) -> str:
    return "undefined, since all systems tie" if tau is None else f"{tau:.3f}"
