"""Benchmarks whose queries stand under several instructions: FollowIR, mFollowIR and InfoSearch.

    FollowIR, as published  queries {_id, text, instruction_og, instruction_changed}, qrels_og/test, qrels_changed/test,
                            corpus {_id, title, text}, top_ranked {qid, pid}
    FollowIR, as in mteb    queries {_id, text} and qrels/test with ids X-og and X-changed, instruction {query-id,
                            instruction}, top_ranked {query-id, corpus-ids}
    mFollowIR, as in mteb   the same, each name with its language (corpus-fas), in one folder; corpus, queries,
                            instruction, default, top_ranked, qrel_diff {query-id, corpus-ids}
    InfoSearch              as FollowIR, without top_ranked, with instruction_reversed and qrels_reversed/test

Built from the code that reads the published files (EIT-NLP/InfoSearch at d0eae63, AbsTaskInstructionRetrieval.py;
mteb 2.20) and from the papers. The published files were not at hand, so these readers were not tried on them.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from foil.engine.seeds.beir import find_table, row_id
from foil.engine.seeds.files.ledger import Ledger
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, Mode
from foil.trainer.evaluate.benchmarks.files import judgments, present, read_candidates, read_documents, rows, subpaths
from foil.trainer.evaluate.measures.following.p_mrr import removed_documents
from foil.trainer.evaluate.measures.judged import Qrels

LOG = logging.getLogger(__name__)

FOLLOWIR: Mapping[str, Mode] = {"og": "original", "changed": "changed"}
INFOSEARCH: Mapping[str, Mode] = {"og": "original", "changed": "instructed", "reversed": "reversed"}
"""The published suffix of an instruction and of its qrels -> the mode."""
DIMENSIONS = {"clarity": "keyword"}
"""The paper's name of a dimension, where its data set has another."""
QRELS = ("qrels/test", "qrels", "default/test", "default", "data/test")
"""Where mteb's judgments lie: by the name of the configuration or of its files."""

Judged = tuple[tuple[EvaluationQuery, ...], Qrels]


def read_followir(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """One collection."""
    folder = source.path / part
    published = find_table(folder, "qrels_og/test") is not None
    queries, qrels = _in_columns(folder, ledger, FOLLOWIR, "") if published else _with_suffixes(folder, ledger)
    measures = followir_measures(part or folder.name)
    documents, candidates = read_documents(folder, ledger), _candidates(folder, queries)
    return Benchmark(source.name, source.revision, documents, queries, qrels, candidates, measures, measures[1])


def read_mfollowir(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """One language of mFollowIR (Weller et al., arXiv 2501.19264), or of its form with English queries."""
    folder, end = source.path, f"-{part}"
    queries, qrels = _with_suffixes(folder, ledger, end)
    documents, candidates = read_documents(folder, ledger, f"corpus{end}"), _candidates(folder, queries, end)
    measures = ("p-MRR", "nDCG@20")
    return Benchmark(source.name, source.revision, documents, queries, qrels, candidates, measures, measures[1])


def languages_in(path: Path) -> tuple[str, ...]:
    """The languages whose corpus lies there, such as fas."""
    names = (table.name.split(".")[0] for table in subpaths(path))
    return tuple(sorted({name.removeprefix("corpus-") for name in names if name.startswith("corpus-")}))


def followir_measures(collection: str) -> tuple[str, str]:
    """Robust04 and Core17 are measured by AP@1000, News21 by nDCG@5 (FollowIR, section 5)."""
    return "p-MRR", "nDCG@5" if "news21" in collection.lower() else "AP@1000"


def read_infosearch(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """One dimension: the condition of a query left out, asked for and asked against."""
    folder = source.path / part
    name = (part or folder.name).lower().removesuffix("-v1")
    queries, qrels = _in_columns(folder, ledger, INFOSEARCH, DIMENSIONS.get(name, name))
    measures = (
        "WISE(K=20)", "SICR", "p-MRR", "nDCG@10", "Robustness@10(instructed)", "Robustness@10(reversed)",
    )  # fmt: skip
    return Benchmark(source.name, source.revision, read_documents(folder, ledger), queries, qrels, None, measures)


def _in_columns(folder: Path, ledger: Ledger, modes: Mapping[str, Mode], dimension: str) -> Judged:
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
    judged = {suffix: judgments(folder, ledger, f"qrels_{suffix}/test") for suffix in modes}
    qrels = {f"{core}-{suffix}": grades for suffix in modes for core, grades in judged[suffix].items()}
    return tuple(queries), qrels


def _with_suffixes(folder: Path, ledger: Ledger, end: str = "") -> Judged:
    """mteb's form, where an instruction is a query of its own; `end` follows the name of each table."""
    instructions = {row.name("query-id"): present(row, "instruction") for row in rows(folder, f"instruction{end}")}
    queries = []
    for row in rows(folder, f"queries{end}"):
        core, dash, suffix = row_id(row).rpartition("-")
        if not dash or suffix not in FOLLOWIR:
            raise row.format_error("an id that ends in -og or -changed", row_id(row))
        if row_id(row) not in instructions:
            raise row.format_error("a query that the table `instruction` names", row_id(row))
        queries.append(
            EvaluationQuery(row_id(row), row.text("text"), instructions[row_id(row)], core, FOLLOWIR[suffix])
        )
    qrels = judgments(folder, ledger, *([f"default{end}"] if end else QRELS))
    _tell_other_changes(folder, f"qrel_diff{end}", qrels)
    return tuple(queries), qrels


def _tell_other_changes(folder: Path, name: str, qrels: Qrels) -> None:
    """Warns where mteb's list of the documents that should fall is another than that of the qrels."""
    if find_table(folder, name) is None:
        return
    listed = {row.name("query-id"): sorted(map(str, row.items("corpus-ids"))) for row in rows(folder, name)}
    removed = {core: sorted(removed_documents({f"{core}-changed": {}, **qrels}, f"{core}-og", f"{core}-changed"))
               for core in listed}  # fmt: skip
    if unlike := [core for core in listed if listed[core] != removed[core]]:
        LOG.warning("%s: %s names other documents than the qrels change for %s of %s queries, e.g. %s; mteb's p-MRR "
                    "goes by it, Foil's by the qrels", folder, name, len(unlike), len(listed), unlike[0])  # fmt: skip


def _candidates(folder: Path, queries: Sequence[EvaluationQuery], end: str = "") -> dict[str, tuple[str, ...]] | None:
    lists = read_candidates(folder, f"top_ranked{end}")
    return lists and {query.id: lists[key] for query in queries if (key := _key(query, lists))}


def _key(query: EvaluationQuery, lists: Mapping[str, tuple[str, ...]]) -> str:
    """The name of a query's candidates: its own, or that of its core."""
    return next((name for name in (query.id, query.core) if name in lists), "")
