"""Candidate lists to re-rank, in rank_llm's JSON: [{query, hits: [{qid, docid, content}]}], with TREC judgments.

The path is the JSON, `qrels` the judgments; or the path is a folder with one `.json` and one file named `qrel`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.text_files import read_text
from foil.engine.seeds.judged import read_qrels
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import MOST_BYTES, as_text
from foil.trainer.evaluate.benchmarks.readers.beir import judged
from foil.trainer.evaluate.benchmarks.readers.trec import only_file


def read_rank_llm(source: BenchmarkSource, _: str, ledger: Ledger) -> Benchmark:
    """The queries that are judged, each with its own candidates."""
    path = source.path
    hits, judged_in = (only_file(path, ".json"), only_file(path, "qrel")) if path.is_dir() else (path, source.qrels)
    if judged_in is None:
        raise UsageError(f"rank_llm needs judgments for {path}; name them as `qrels` in a YAML file")
    texts, lists = read_hits(hits)
    qrels = read_qrels([judged_in], MOST_BYTES, ledger)
    queries = judged([EvaluationQuery(name, text) for name, text in texts.items()], qrels)
    documents = {name: ("", text) for passages in lists.values() for name, text in passages.items()}
    candidates = {query.id: tuple(lists[query.id]) for query in queries}
    return Benchmark(source.name, source.revision, documents, queries, qrels, candidates)


def read_hits(path: Path) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Candidate lists in rank_llm's JSON: the text of each query, and its candidates' texts by docid."""
    queries: dict[str, str] = {}
    candidates: dict[str, dict[str, str]] = {}
    for number, row in enumerate(_lists_of(path)):
        try:
            qids = {str(hit["qid"]) for hit in row["hits"]}
            (qid,) = qids
            queries[qid] = as_text(row["query"])
            candidates[qid] = _texts_of(row["hits"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{path}, list {number}: expected {{query, hits: [{{qid, docid, content}}]}} with one qid: {error!r}"
            ) from error
    return queries, candidates


def _texts_of(hits: Sequence[Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for hit in hits:
        name, text = str(hit["docid"]), as_text(hit["content"])
        if texts.setdefault(name, text) != text:
            raise ValueError(f"{name!r} stands twice, with two texts")
    return texts


def _lists_of(path: Path) -> list[Any]:
    try:
        lists = json.loads(read_text(path, "a JSON file of rank_llm"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} does not read as JSON ({error}); give a file of rank_llm") from error
    if not isinstance(lists, list):
        raise UsageError(f"{path} holds {type(lists).__name__}; expected a list of {{query, hits}}")
    return lists
