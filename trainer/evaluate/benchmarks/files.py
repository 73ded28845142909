"""What the readers of benchmarks share: rows, documents, judgments and candidate lists of a folder.

A bad record raises SeedFormatError, since a benchmark without it is another one; the catalog says what to do.
"""

import json
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.beir import find_table, read_judgments, row_id
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import SourceRow, read_rows
from foil.engine.seeds.files.text_files import read_text
from foil.engine.seeds.files.unique import UniqueRecords
from foil.trainer.evaluate.benchmarks.benchmark import Documents
from foil.trainer.evaluate.measures.judged import Qrels

MOST_BYTES = 1 << 26
"""Bytes of one record."""

T = TypeVar("T", bound=Hashable)


def good(records: Iterable[T | SeedFormatError]) -> Iterator[T]:
    """The records, up to the first bad one, which is raised."""
    for record in records:
        if isinstance(record, SeedFormatError):
            raise record
        yield record


def table(folder: Path, *names: str) -> Path:
    """The first table of these names in a folder; UsageError where there is none."""
    for name in names:
        if (path := find_table(folder, name)) is not None:
            return path
    raise UsageError(
        f"no {' or '.join(names)} (.jsonl, .parquet, .tsv, or a folder of such) in {folder}; `foil benchmarks show "
        "KIND` says what to bring"
    )


def rows(folder: Path, *names: str) -> Iterator[SourceRow]:
    """The rows of the first table of these names."""
    return good(read_rows(table(folder, *names), MOST_BYTES))


def present(row: SourceRow, key: str) -> str:
    """The text under `key`, which may be empty but not missing."""
    text = row.value.get(key)
    if not isinstance(text, str):
        raise row.format_error(f"a text under {key!r}", f"keys {sorted(row.value)}" if key not in row.value else text)
    return text.strip()


def read_documents(folder: Path, ledger: Ledger, name: str = "corpus", text: str = "text") -> Documents:
    """The documents of a table; one that stands twice must stand twice alike."""
    return documents_of(rows(folder, name), text, ledger)


def documents_of(table_rows: Iterable[SourceRow], text: str, ledger: Ledger) -> Documents:
    """The same of rows, whose texts stand under `text`."""
    documents = ((row_id(row), (row.title().strip(), present(row, text)), row.path, row.line) for row in table_rows)
    return unique("document", documents, ledger)


def unique(kind: str, records: Iterable[tuple[str, T, str, int]], ledger: Ledger) -> dict[str, T]:
    """Records (id, content, file, line) by id: equal ones are one, and counted; SeedFormatError for two that differ."""
    ids = UniqueRecords[T](kind, ledger)
    return {name: content for name, content, path, line in records if ids.take(name, content, path, line)}


def judgments(folder: Path, ledger: Ledger, *names: str) -> Qrels:
    """Judgments of the first table of these names, in TREC's, BEIR's or mteb's columns."""
    return read_judgments(table(folder, *names), MOST_BYTES, ledger)


def read_candidates(folder: Path, name: str = "top_ranked") -> dict[str, tuple[str, ...]] | None:
    """The lists, where they are: rows of qid and pid (FollowIR), or of query-id and corpus-ids (mteb)."""
    if find_table(folder, name) is None:
        return None
    lists: dict[str, list[str]] = {}
    for row in rows(folder, name):
        if "qid" in row.value:
            lists.setdefault(row.name("qid"), []).append(row.name("pid"))
        else:
            lists.setdefault(row.name("query-id"), []).extend(map(str, row.items("corpus-ids")))
    return {query: tuple(dict.fromkeys(documents)) for query, documents in lists.items()}


def collections_in(folder: Path, name: str = "corpus") -> tuple[str, ...]:
    """The subfolders that hold a collection each; ("",) where the folder itself is one."""
    if find_table(folder, name) is not None:
        return ("",)
    folders = (path for path in subpaths(folder) if path.is_dir())
    return tuple(sorted(sub.name for sub in folders if find_table(sub, name))) or ("",)


def subpaths(folder: Path) -> list[Path]:
    """The files and folders in it, by name; UsageError where it is no folder."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the one that holds the benchmark's files")
    return sorted(folder.iterdir())


def read_document(path: Path) -> Any:
    """A JSON file of one value; UsageError where it does not read."""
    try:
        return json.loads(read_text(path, "a JSON file"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} does not read as JSON ({error}); bring the file again") from error


def as_text(value: Any) -> str:
    """The value, if it is a text; else TypeError, which a reader turns into words."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
