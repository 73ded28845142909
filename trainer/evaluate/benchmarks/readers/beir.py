"""BEIR's layout: corpus, queries and qrels/SPLIT in one folder, without instructions. The part is the split.

Queries without judgments are left out, as in BEIR. Unlike BEIR's `ignore_identical_ids`, a document that has the id of
its query stays: in ArguAna and Quora it is the query itself, in other sets mere chance.
"""

from dataclasses import replace

from foil.engine.seeds.beir import row_id
from foil.engine.seeds.files.ledger import Ledger
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import judgments, read_documents, rows, unique
from foil.trainer.evaluate.measures.judged import Qrels


def read_beir(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """The split of that name."""
    qrels = judgments(source.path, ledger, f"qrels/{part}")
    texts = ((row_id(row), row.text("text"), row.path, row.line) for row in rows(source.path, "queries"))
    queries = judged([EvaluationQuery(*query) for query in unique("query", texts, ledger).items()], qrels)
    return Benchmark(source.name, source.revision, read_documents(source.path, ledger), queries, qrels)


def judged(queries: list[EvaluationQuery], qrels: Qrels) -> tuple[EvaluationQuery, ...]:
    """The queries that have judgments, each a core of its own unless it names one."""
    return tuple(replace(query, core=query.core or query.id) for query in queries if query.id in qrels)
