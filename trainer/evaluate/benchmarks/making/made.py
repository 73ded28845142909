"""What `foil benchmarks make` writes: BEIR's layout, with the instruction and the variants of each query with it.

    corpus.jsonl        {_id, title, text}
    queries.jsonl       {_id, text, metadata: {core, mode, dimension, domain}}
    qrels/test.tsv      query-id, corpus-id, score
    instruction.jsonl   {query-id, instruction}, of queries that have one (the table of mteb)
    top_ranked.jsonl    {query-id, corpus-ids}, where each query has candidates of its own (the table of mteb)
    excluded.jsonl      {query-id, corpus-ids}, where documents stand in no ranking of a query
    benchmark.json      {digest, measures, ...}: how it was made

BEIR's readers take the same folder without instructions. Ids of queries are CORE_NUMBER, as InstructIR's.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from foil.engine.atomic_files import write_json
from foil.engine.errors import UsageError
from foil.engine.seeds.beir import find_table, row_id
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import SourceRow
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, Mode
from foil.trainer.evaluate.benchmarks.files import (
    judgments,
    present,
    read_candidates,
    read_document,
    read_documents,
    rows,
)

FACTS = "benchmark.json"
INSTRUCTIONS, CANDIDATES, EXCLUDED = "instruction", "top_ranked", "excluded"


def read_made(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """The folder, or its subfolder of that name; UsageError where its files do not belong together."""
    folder = source.path / part
    facts = read_facts_of(folder)
    instructions = _instructions(folder)
    queries = tuple(_query(row, instructions) for row in rows(folder, "queries"))
    excluded = {query: frozenset(names) for query, names in (read_candidates(folder, EXCLUDED) or {}).items()}
    benchmark = Benchmark(source.name, source.revision or facts["digest"], read_documents(folder, ledger), queries,
                          judgments(folder, ledger, "qrels/test"), read_candidates(folder), tuple(facts["measures"]),
                          excluded=excluded)  # fmt: skip
    if benchmark.digest != facts["digest"]:
        raise UsageError(f"{folder} is not what {FACTS} vouches for: its content has the digest "
                         f"{benchmark.digest[:16]}, not {facts['digest'][:16]}; make it again, or read it as "
                         f"beir:{folder}")  # fmt: skip
    return benchmark


def read_facts_of(folder: Path) -> Mapping[str, Any]:
    """How a benchmark was made; UsageError where the folder does not say."""
    facts = read_document(folder / FACTS)
    if not isinstance(facts, dict) or not isinstance(facts.get("digest"), str) or not _are_texts(facts.get("measures")):
        raise UsageError(f"{folder / FACTS} has no digest and measures; make the benchmark again")
    return facts


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _instructions(folder: Path) -> dict[str, str]:
    if find_table(folder, INSTRUCTIONS) is None:
        return {}
    return {row.name("query-id"): present(row, "instruction") for row in rows(folder, INSTRUCTIONS)}


def _query(row: SourceRow, instructions: Mapping[str, str]) -> EvaluationQuery:
    of = row.nested(row.value.get("metadata"), "{core, mode, dimension, domain} under 'metadata'")
    core, dimension, domain = (present(of, key) for key in ("core", "dimension", "domain"))
    mode: Any = of.value.get("mode")
    if mode not in get_args(Mode):
        raise row.format_error(f"a mode: {', '.join(get_args(Mode))}", str(mode))
    instruction = instructions.get(row_id(row), "")
    return EvaluationQuery(row_id(row), row.text("text"), instruction, core, mode, dimension, domain)


def write_benchmark(folder: Path, benchmark: Benchmark, facts: Mapping[str, Any]) -> None:
    """Writes the files into a folder, a draft's: not crash-safe. UsageError where an id cannot stand in a TSV file."""
    for name in (*benchmark.documents, *(query.id for query in benchmark.queries)):
        if " " in name or not name.isprintable():
            raise UsageError(f"{name!r} cannot stand in qrels/test.tsv, whose fields have no blanks; rename it")
    written = _normal(benchmark)
    (folder / "qrels").mkdir(parents=True)
    for name, table_rows in _tables(written).items():
        if table_rows:
            _put(folder / f"{name}.jsonl", table_rows)
    (folder / "qrels" / "test.tsv").write_text("".join(_qrels_lines(written)), encoding="utf-8")
    write_json(folder / FACTS, {"digest": written.digest, "measures": list(written.measures), **facts})


def _normal(benchmark: Benchmark) -> Benchmark:
    """What a reader gets back: no blanks around a text, no query whose judgments are none."""
    documents = {name: (title.strip(), text.strip()) for name, (title, text) in benchmark.documents.items()}
    queries = tuple(
        replace(query, query=query.query.strip(), instruction=query.instruction.strip()) for query in benchmark.queries
    )
    qrels = {query: grades for query, grades in benchmark.qrels.items() if grades}
    return replace(benchmark, documents=documents, queries=queries, qrels=qrels)


def _tables(benchmark: Benchmark) -> dict[str, list[dict[str, Any]]]:
    return {
        "corpus": [{"_id": name, "title": title, "text": text} for name, (title, text) in benchmark.documents.items()],
        "queries": [_query_row(query) for query in benchmark.queries],
        INSTRUCTIONS: [{"query-id": q.id, "instruction": q.instruction} for q in benchmark.queries if q.instruction],
        CANDIDATES: [{"query-id": q, "corpus-ids": [*names]} for q, names in (benchmark.candidates or {}).items()],
        EXCLUDED: [{"query-id": q, "corpus-ids": sorted(names)} for q, names in benchmark.excluded.items()],
    }


def _query_row(query: EvaluationQuery) -> dict[str, Any]:
    about = {name: getattr(query, name) for name in ("core", "mode", "dimension", "domain")}
    return {"_id": query.id, "text": query.query, "metadata": about}


def _qrels_lines(benchmark: Benchmark) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore\n"
    for query, grades in benchmark.qrels.items():
        yield from (f"{query}\t{document}\t{grade}\n" for document, grade in grades.items())


def _put(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)
