"""BRIGHT (Su et al., arXiv 2407.12883): queries whose relevant documents share a way of reasoning, in twelve domains.

    documents/DOMAIN-*       {id, content}
    long_documents/DOMAIN-*  the same, whole web pages; the part DOMAIN/long
    examples/DOMAIN-*        {id, query, gold_ids, gold_ids_long, excluded_ids}

A query is never answered with its `excluded_ids`, such as the solution of its own problem; "N/A" stands for none
(xlang-ai/BRIGHT, run.py at 5ec4cb3). Its prompts belong to models: `--set template`, or the model's own, puts one.
Built from that code and from mteb 2.20. The published files were not at hand, so this reader was not tried on them.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import ENDINGS, SourceRow, read_rows
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import MOST_BYTES, documents_of, good, subpaths

NONE = "N/A"
_ENDINGS = "|".join(map(re.escape, ENDINGS))
_FILE = re.compile(rf"(?P<domain>\w+?)(-\d+-of-(?P<all>\d+))?({_ENDINGS})(\.gz)?")


def domains_in(path: Path) -> tuple[str, ...]:
    """The domains whose documents lie there."""
    return tuple(sorted({domain for domain, _, _ in _files(path / "documents")}))


def read_bright(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """One domain; DOMAIN/long has its long documents."""
    domain, _, length = part.partition("/")
    if length not in ("", "long"):
        raise UsageError(f"BRIGHT has no part {part!r}; name a domain, or DOMAIN/long")
    prefix, suffix = ("long_", "_long") if length else ("", "")
    queries, qrels, excluded = [], dict[str, dict[str, int]](), {}
    for row in _rows(source.path / "examples", domain):
        query = row.name("id")
        queries.append(EvaluationQuery(query, row.text("query"), core=query, domain=domain))
        qrels[query] = dict.fromkeys(map(str, row.items(f"gold_ids{suffix}")), 1)
        if kept_out := frozenset(map(str, row.items("excluded_ids"))) - {NONE}:
            excluded[query] = kept_out
    documents = documents_of(_rows(source.path / f"{prefix}documents", domain), "content", ledger)
    return Benchmark(source.name, source.revision, documents, tuple(queries), qrels, excluded=excluded)


def _rows(folder: Path, domain: str) -> Iterator[SourceRow]:
    files = [(path, of) for name, path, of in _files(folder) if name == domain]
    paths, of = [path for path, _ in files], max((of for _, of in files), default=1)
    if len(paths) < of or not paths:
        shortage = f"{len(paths)} of {of} files {domain}-*.parquet are in {folder}"
        raise UsageError(f"{shortage}; `foil benchmarks show bright` says what to bring")
    return good(chain.from_iterable(read_rows(path, MOST_BYTES) for path in paths))


def _files(folder: Path) -> list[tuple[str, Path, int]]:
    """(domain, file, of how many) of each file of rows, as the hub names them: DOMAIN-00000-of-00002.parquet."""
    names = ((_FILE.fullmatch(path.name), path) for path in subpaths(folder))
    return [(name["domain"], path, int(name["all"] or 1)) for name, path in names if name]
