"""PIR (Zhao et al. 2024): queries that ask for one perspective on a root query, two tasks in one extract.

    pir_two_tasks.json  {TASK: {corpus: [text], ...}}
    pairs.jsonl         {task, id, query, instructed, counter, gold: [place], other_gold: [place]}

The original mode is the root query, to which the passages of both perspectives are relevant; instructed and reversed
are the questions for either. The query names its perspective itself, so no query has an instruction.
"""

from collections.abc import Iterator
from pathlib import Path

from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import SourceRow
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, Mode
from foil.trainer.evaluate.benchmarks.files import as_text, read_document, rows

TASKS = "pir_two_tasks.json"
MEASURES = ("both views", "p-MRR", "WISE(K=20)", "SICR", "Robustness@10", "nDCG@10")


def tasks_in(path: Path) -> tuple[str, ...]:
    """The tasks of the extract."""
    return tuple(_corpora(path))


def read_pir(source: BenchmarkSource, part: str, _ledger: Ledger) -> Benchmark:
    """One task."""
    corpora = _corpora(source.path)
    if part not in corpora:
        raise UsageError(f"{source.path / TASKS} has no task {part!r}, only {', '.join(corpora)}")
    documents = {str(place): ("", text) for place, text in enumerate(corpora[part])}
    variants = [variant for row in rows(source.path, "pairs") if row.name("task") == part for variant in _variants(row)]
    qrels = {query.id: dict.fromkeys(relevant, 1) for query, relevant in variants}
    queries = tuple(query for query, _ in variants)
    return Benchmark(source.name, source.revision, documents, queries, qrels, None, MEASURES)


def _corpora(path: Path) -> dict[str, list[str]]:
    tasks = read_document(path / TASKS)
    try:
        return {task: [as_text(text) for text in of["corpus"]] for task, of in tasks.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"{path / TASKS}: expected {{task: {{corpus: [text]}}}}, found {error!r}") from None


def _variants(row: SourceRow) -> Iterator[tuple[EvaluationQuery, list[str]]]:
    """The three modes of a row, with the passages that are relevant in each."""
    core = row.name("id")
    gold, rest = ([str(place) for place in row.items(key)] for key in ("gold", "other_gold"))
    modes: tuple[tuple[Mode, str, list[str]], ...] = (
        ("original", "query", gold + rest), ("instructed", "instructed", gold), ("reversed", "counter", rest)
    )  # fmt: skip
    for mode, key, relevant in modes:
        yield EvaluationQuery(f"{core}-{mode}", row.text(key), core=core, mode=mode), relevant
