"""Writes a benchmark as the files that `trainer.evaluate.benchmarks.making.made` reads back, to the same digest."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from foil.engine.atomic_files import write_json
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.making.made import CANDIDATES, EXCLUDED, FACTS, INSTRUCTIONS


def write_benchmark(folder: Path, benchmark: Benchmark, facts: Mapping[str, Any]) -> None:
    """Writes the files into a folder, a draft's: not crash-safe. UsageError where an id cannot stand in a TSV file."""
    for name in (*benchmark.documents, *(query.id for query in benchmark.queries)):
        if " " in name or not name.isprintable():
            raise UsageError(f"{name!r} cannot stand in qrels/test.tsv, whose fields have no blanks; rename it")
    written = _normal(benchmark)
    (folder / "qrels").mkdir(parents=True)
    for name, rows in _tables(written).items():
        if rows:
            _put(folder / f"{name}.jsonl", rows)
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
