"""Candidate lists to re-rank, in rank_llm's JSON: [{query, hits: [{qid, docid, content}]}], with TREC judgments.

The path is the JSON, `qrels` the judgments; or the path is a folder with one `.json` and one file named `qrel`.
"""

from engine.errors import UsageError
from engine.seeds.judged import read_qrels
from trainer.benchmarks.beir import judged
from trainer.benchmarks.benchmark import Benchmark, EvaluationQuery
from trainer.benchmarks.files import MOST_BYTES
from trainer.benchmarks.source import BenchmarkSource
from trainer.benchmarks.trec import only_file
from trainer.evaluation.evaluate import read_hits


def read_rank_llm(source: BenchmarkSource, _: str) -> Benchmark:
    """The queries that are judged, each with its own candidates."""
    path = source.path
    hits, judged_in = (only_file(path, ".json"), only_file(path, "qrel")) if path.is_dir() else (path, source.qrels)
    if judged_in is None:
        raise UsageError(f"rank_llm needs judgments beside {path}; name them as `qrels` in a YAML file")
    texts, lists = read_hits(hits)
    qrels = read_qrels([judged_in], MOST_BYTES)
    queries = judged([EvaluationQuery(name, text) for name, text in texts.items()], qrels)
    documents = {name: ("", text) for found in lists.values() for name, text in found.items()}
    candidates = {query.id: tuple(lists[query.id]) for query in queries}
    return Benchmark(source.name, source.revision, documents, queries, qrels, candidates)
