"""Retrieval, reranking and instruction tasks that mteb holds, by their names: `mteb:NAME`. A part is SUBSET/SPLIT, or
TASK/SUBSET/SPLIT of an aggregate (CQADupstack), whose mean is over its tasks.

mteb loads the data, from the hub or from what `datasets` has on this machine. Queries of an InstructionReranking task
whose ids end in -og and -changed are one core; so are those of an InstructionRetrieval task that differ behind the
last underscore (InstructIR). Two of mteb's rules do not hold: the qrels say what should fall, not by a list of
the task; and a document with its query's id stays. Written for mteb 2.26.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import Ledger
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, Mode
from foil.trainer.evaluate.benchmarks.readers.beir import judged
from foil.trainer.evaluate.benchmarks.readers.instructir import core_of
from foil.trainer.evaluate.benchmarks.readers.variants import FOLLOWIR, followir_measures

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval

MEASURES = {"ndcg": "nDCG", "map": "AP", "mrr": "RR", "recall": "R", "precision": "P", "robustness": "Robustness"}
"""mteb's name of a measure -> ours; others, such as hit_rate, have none here."""
NO_COUNTERPART = ("nDCG@10",)
LOG = logging.getLogger(__name__)


def parts_of_task(path: Path) -> tuple[str, ...]:
    """The subsets of a task, or of each task of an aggregate, with their splits."""
    return tuple(_parts(str(path)))


def _parts(name: str) -> dict[str, tuple["AbsTaskRetrieval", str, str]]:
    tasks = _tasks(name)
    return {
        "/".join([*([task.metadata.name] if len(tasks) > 1 else []), subset, split]): (task, subset, split)
        for task in tasks for subset in task.hf_subsets for split in task.eval_splits
    }  # fmt: skip


def read_mteb(source: BenchmarkSource, part: str, _ledger: Ledger) -> Benchmark:
    """One subset in one split."""
    parts = _parts(str(source.path))
    if part not in parts:
        raise UsageError(f"{source.path} has no {part!r}; it has {', '.join(parts)}")
    task, subset, split = parts[part]
    data = _loaded(task).get(subset, {}).get(split)
    if data is None:
        raise UsageError(f"the data of {task.metadata.name} have no {subset}/{split}; evaluate another part of it")
    documents = {row["id"]: (_text(row, "title"), _text(row, "text")) for row in data["corpus"]}
    queries = judged([_query(row, task.metadata.type) for row in data["queries"]], data["relevant_docs"])
    lists = data.get("top_ranked")
    candidates = lists and {name: tuple(dict.fromkeys(ranked)) for name, ranked in lists.items()}
    qrels = {name: dict(grades) for name, grades in data["relevant_docs"].items()}
    main, measures = task.metadata.main_score, measures_of(task.metadata.main_score, task.metadata.name)
    if measures == NO_COUNTERPART and main != "ndcg_at_10":
        LOG.warning("%s is measured by %s in mteb, which Foil has not; nDCG@10 is shown", task.metadata.name, main)
    return Benchmark(source.name, source.revision or _revision(task), documents, queries, qrels, candidates or None,
                     measures, measures[1] if main == "p-MRR" else "")  # fmt: skip


def measures_of(main_score: str, task: str) -> tuple[str, ...]:
    """Our name of a task's main measure, nDCG@10 where it has none here; those of FollowIR for p-MRR.

    >>> measures_of("map_at_1000", ""), measures_of("p-MRR", "News21"), measures_of("hit_rate_at_5", "")
    (('AP@1000',), ('p-MRR', 'nDCG@5'), ('nDCG@10',))
    """
    if main_score == "p-MRR":
        return followir_measures(task)
    name, _, k = main_score.partition("_at_")
    return (f"{MEASURES[name]}@{k}",) if name in MEASURES and k.isdecimal() else NO_COUNTERPART


def _tasks(name: str) -> list["AbsTaskRetrieval"]:
    try:
        import mteb
        from mteb.abstasks.aggregated_task import AbsTaskAggregate
        from mteb.abstasks.retrieval import AbsTaskRetrieval
    except ImportError as error:
        raise UsageError(f"mteb:{name} needs mteb; pip install 'foil-ir[interop]' ({error})") from None
    try:
        chosen = mteb.get_task(name)
    except KeyError as error:
        raise UsageError(f"mteb has no task {name!r} ({error.args[0]})") from None
    tasks = list(chosen.tasks) if isinstance(chosen, AbsTaskAggregate) else [chosen]
    for task in tasks:
        if not isinstance(task, AbsTaskRetrieval) or task.metadata.modalities != ["text"]:
            raise UsageError(f"{name} is a {task.metadata.type} task of {', '.join(task.metadata.modalities)}; choose "
                             "one of retrieval or reranking of text")  # fmt: skip
    return tasks


def _loaded(task: "AbsTaskRetrieval") -> Mapping[str, Mapping[str, Any]]:
    try:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(num_proc=None)
    except Exception as error:  # the libraries raise errors of any kind
        raise UsageError(f"the data of {task.metadata.name}, {task.metadata.dataset['path']}, does not load ({error}); "
                         "go where the hub can be reached, or bring the cache of `datasets`") from error  # fmt: skip
    dataset: Mapping[str, Mapping[str, Any]] = task.dataset
    return dataset


def _query(row: Mapping[str, Any], kind: str) -> EvaluationQuery:
    core, mode = _place(row["id"], kind)
    return EvaluationQuery(row["id"], _text(row, "text"), _text(row, "instruction"), core, mode)


def _place(name: str, kind: str) -> tuple[str, Mode]:
    """The core and the mode of a query by its id.

    >>> _place("7-og", "InstructionReranking"), _place("7_2", "InstructionRetrieval"), _place("7-og", "Retrieval")
    (('7', 'original'), ('7', 'variant'), ('7-og', 'original'))
    """
    core, _, suffix = name.rpartition("-")
    if kind == "InstructionReranking" and core and suffix in FOLLOWIR:
        return core, FOLLOWIR[suffix]
    return (core_of(name), "variant") if kind == "InstructionRetrieval" else (name, "original")


def _text(row: Mapping[str, Any], key: str) -> str:
    text = row.get(key) or ""
    if not isinstance(text, str):
        raise UsageError(f"{key} of {row['id']!r} is a {type(text).__name__}, such as a conversation, not a text")
    return text.strip()


def _revision(task: "AbsTaskRetrieval") -> str:
    import mteb

    data = task.metadata.dataset
    return f"mteb {mteb.__version__}, {data['path']} {data.get('revision', '')}".strip()
