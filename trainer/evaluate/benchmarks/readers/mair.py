"""MAIR (Sun et al. 2024): 126 tasks of six domains; an instruction a query, a document collection a task.

    MAIR-Queries/TASK/queries.jsonl  {qid, instruction, query, labels: [{id, score}]}
    MAIR-Docs/TASK/docs.jsonl        {id, doc}
    a task of several collections has NAME_queries.jsonl and NAME_docs.jsonl instead; its parts are TASK/NAME

The average of all is that of their queries, not of the tasks (sunnweiwei/MAIR, mair.py at 38c95e3, print_results).
Built from that code and its README, and config.py for the domains. The published files were not at hand, so this reader
was not tried on them.
"""

from pathlib import Path

import yaml

from foil.engine.errors import UsageError
from foil.engine.seeds.beir import find_table, grade_of
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import SourceRow
from foil.engine.seeds.judged import judge
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import present, read_documents, rows

QUERIES, DOCUMENTS = "MAIR-Queries", "MAIR-Docs"

_TASKS = yaml.safe_load(Path(__file__).with_name("mair_tasks.yaml").read_text(encoding="utf-8"))
DOMAINS = {task: domain for domain, tasks in _TASKS.items() for task in tasks.split()}
"""Task -> domain."""


def tasks_in(path: Path) -> tuple[str, ...]:
    """The tasks, or parts of tasks, that lie there."""
    folder = path / QUERIES
    if not folder.is_dir():
        raise UsageError(f"no folder {QUERIES} in {path}; put {QUERIES} and {DOCUMENTS} there, a subfolder a task")
    return tuple(part for task in sorted(folder.iterdir()) if task.is_dir() for part in _parts(task))


def _parts(task: Path) -> list[str]:
    if find_table(task, "queries") is not None:
        return [task.name]
    names = (file.name.partition("_queries.") for file in sorted(task.iterdir()))
    return [f"{task.name}/{name}" for name, divider, _ in names if divider] or [task.name]


def read_mair(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """One task, or one of the collections of a task."""
    task, _, name = part.partition("/")
    prefix = f"{name}_" if name else ""
    domain, queries, qrels = DOMAINS.get(task, ""), [], dict[str, dict[str, int]]()
    for row in rows(source.path / QUERIES / task, f"{prefix}queries"):
        query = row.name("qid")
        queries.append(EvaluationQuery(query, row.text("query"), present(row, "instruction"), query, "instructed",
                                       domain=domain))  # fmt: skip
        qrels[query] = {}
        for label in row.items("labels"):
            judge(qrels, ledger, (query, *_label(row, label)), f"{row.path}:{row.line}")
    documents = read_documents(source.path / DOCUMENTS / task, ledger, f"{prefix}docs", "doc")
    return Benchmark(source.name, source.revision, documents, tuple(queries), qrels)


def _label(row: SourceRow, label: object) -> tuple[str, int]:
    nested = row.nested(label, "{id, score} under 'labels'")
    return nested.name("id"), grade_of(nested)
