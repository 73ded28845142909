"""A benchmark that `foil benchmarks make` wrote, as a task of mteb's own evaluator.

    import mteb
    from foil.trainer.evaluate.interop.mteb_folder import task_of
    from foil.trainer.evaluate.interop.mteb_model import load_for_mteb
    mteb.evaluate(load_for_mteb("out/demo/model"), tasks=[task_of("benchmarks/demo")])

Its type is InstructionRetrieval where queries have instructions, else Retrieval; its main measure nDCG@10. Written for
mteb 2.26.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foil.engine.errors import UsageError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval

SPLIT = "test"


def task_of(folder: str | Path, part: str = "") -> "AbsTaskRetrieval":
    """The task of a folder, or of its subfolder `part`; UsageError where it does not read, or mteb is missing."""
    try:
        from mteb.abstasks.retrieval import AbsTaskRetrieval
        from mteb.abstasks.task_metadata import TaskMetadata
    except ImportError as error:
        raise UsageError(f"a task of mteb needs mteb; pip install 'foil-ir[interop]' ({error})") from None
    benchmark = read_benchmark(BenchmarkSource(kind="made", path=Path(folder)), part)

    class MadeTask(AbsTaskRetrieval):  # type: ignore[misc]  # mypy does not look into mteb
        """The benchmark in mteb's columns; nothing is fetched."""

        metadata = TaskMetadata(**_described(benchmark, Path(folder) / part))

        def load_data(self, *_: Any, **__: Any) -> None:
            self.dataset = {"default": {SPLIT: _split(benchmark)}}
            self.data_loaded = True

    return MadeTask()


def _described(benchmark: Benchmark, folder: Path) -> dict[str, Any]:
    instructed = any(query.instruction for query in benchmark.queries)
    return {
        "name": folder.resolve().name,
        "description": f"Made by Foil: {benchmark.name}",
        "type": "InstructionRetrieval" if instructed else "Retrieval",
        "category": "t2t",
        "main_score": "ndcg_at_10",
        "eval_splits": [SPLIT],
        "eval_langs": ["eng-Latn"],
        "dataset": {"path": str(folder), "revision": benchmark.digest[:40]},
    }


def _split(benchmark: Benchmark) -> dict[str, Any]:
    from datasets import Dataset

    lists, excluded = benchmark.candidates, benchmark.excluded
    if excluded:  # mteb knows no exclusion: each query lists what is left
        every = dict.fromkeys((query.id for query in benchmark.queries), tuple(benchmark.documents))
        lists = {
            query: tuple(name for name in names if name not in excluded.get(query, ()))
            for query, names in (lists or every).items()
        }
    return {
        "corpus": Dataset.from_list([
            {"id": name, "title": title, "text": text} for name, (title, text) in benchmark.documents.items()
        ]),
        "queries": Dataset.from_list([
            {"id": query.id, "text": query.query, "instruction": query.instruction} for query in benchmark.queries
        ]),
        "relevant_docs": {query: dict(grades) for query, grades in benchmark.qrels.items()},
        "top_ranked": lists and {query: list(names) for query, names in lists.items()},
    }  # fmt: skip
