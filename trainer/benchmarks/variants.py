"""Benchmarks whose queries stand under several instructions: FollowIR and InfoSearch, as published and as in mteb.

    FollowIR, as published  queries {_id, text, instruction_og, instruction_changed}, qrels_og/test, qrels_changed/test,
                            corpus {_id, title, text}, top_ranked {qid, pid}
    FollowIR, as in mteb    queries {_id, text} and qrels/test with ids X-og and X-changed, instruction {query-id,
                            instruction}, top_ranked {query-id, corpus-ids}
    InfoSearch              as FollowIR, without top_ranked, with instruction_reversed and qrels_reversed/test

Built from the code that reads the published files (EIT-NLP/InfoSearch at d0eae63, AbsTaskInstructionRetrieval.py;
mteb 2.20) and from the papers. The published files were not at hand, so these readers were not tried on them.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.seeds.beir import find_table
from trainer.benchmarks.benchmark import Benchmark, EvaluationQuery, Mode
from trainer.benchmarks.files import judgments, present, read_candidates, read_documents, row_id, rows
from trainer.benchmarks.source import BenchmarkSource
from trainer.measures.judged import Qrels

FOLLOWIR: Mapping[str, Mode] = {"og": "original", "changed": "changed"}
INFOSEARCH: Mapping[str, Mode] = {"og": "original", "changed": "instructed", "reversed": "reversed"}
"""The published suffix of an instruction and of its qrels -> the mode."""
DIMENSIONS = {"clarity": "keyword"}
"""The paper's name of a dimension, where its data set has another."""
QRELS = ("qrels/test", "qrels", "default/test", "default", "data/test")
"""Where mteb's judgments lie: by the name of the configuration or of its files."""

Judged = tuple[tuple[EvaluationQuery, ...], Qrels]


def read_followir(source: BenchmarkSource, part: str) -> Benchmark:
    """One collection."""
    folder = source.path / part
    published = find_table(folder, "qrels_og/test") is not None
    queries, qrels = _in_columns(folder, FOLLOWIR, "") if published else _with_suffixes(folder)
    lists = read_candidates(folder)
    candidates = lists and {query.id: lists[key] for query in queries if (key := _key(query, lists))}
    measures = followir_measures(part or folder.name)
    documents = read_documents(folder)
    return Benchmark(source.name, source.revision, documents, queries, qrels, candidates, measures, measures[1])


def followir_measures(collection: str) -> tuple[str, str]:
    """Robust04 and Core17 are measured by AP@1000, News21 by nDCG@5 (FollowIR, section 5)."""
    return "p-MRR", "nDCG@5" if "news21" in collection.lower() else "AP@1000"


def read_infosearch(source: BenchmarkSource, part: str) -> Benchmark:
    """One dimension: the condition of a query left out, asked for and asked against."""
    folder = source.path / part
    name = (part or folder.name).lower().removesuffix("-v1")
    queries, qrels = _in_columns(folder, INFOSEARCH, DIMENSIONS.get(name, name))
    measures = ("WISE(K=20)", "SICR", "p-MRR", "nDCG@10")
    return Benchmark(source.name, source.revision, read_documents(folder), queries, qrels, None, measures)


def _in_columns(folder: Path, modes: Mapping[str, Mode], dimension: str) -> Judged:
    """Each row is a core query with an instruction a mode; an instruction may be empty, not missing."""
    queries = [
        EvaluationQuery(
            id=f"{row_id(row)}-{suffix}",
            query=row.text("text"),
            instruction=present(row, f"instruction_{suffix}"),
            core=row_id(row),
            mode=mode,
            dimension=dimension,
        )
        for row in rows(folder, "queries")
        for suffix, mode in modes.items()
    ]
    judged = {suffix: judgments(folder, f"qrels_{suffix}/test") for suffix in modes}
    qrels = {f"{core}-{suffix}": grades for suffix in modes for core, grades in judged[suffix].items()}
    return tuple(queries), qrels


def _with_suffixes(folder: Path) -> Judged:
    """mteb's form, where an instruction is a query of its own."""
    instructions = {row.name("query-id"): present(row, "instruction") for row in rows(folder, "instruction")}
    queries = []
    for row in rows(folder, "queries"):
        core, dash, suffix = row_id(row).rpartition("-")
        if not dash or suffix not in FOLLOWIR:
            raise row.format_error("an id that ends in -og or -changed", row_id(row))
        if row_id(row) not in instructions:
            raise row.format_error("a query that the table `instruction` names", row_id(row))
        queries.append(
            EvaluationQuery(row_id(row), row.text("text"), instructions[row_id(row)], core, FOLLOWIR[suffix])
        )
    return tuple(queries), judgments(folder, *QRELS)


def _key(query: EvaluationQuery, lists: Mapping[str, tuple[str, ...]]) -> str:
    """The name of a query's candidates: its own, or that of its core."""
    return next((name for name in (query.id, query.core) if name in lists), "")
