"""The audits of a run: keys of blind sheets, and readers' marks as rows of the view `audits`.

    out/audits/NAME.key.json           which topics a sheet has, and their labels; put once
    out/audits/NAME.READER.parquet     the marks of one reader; put again when the sheet is scored again

They are no part of what is committed: no fingerprint, snapshot or training run depends on them.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foil.engine.atomic_files import link_if_absent, locked, put_bytes, read_json, write_new
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import canonical_json
from foil.engine.storage.store import inside

AUDITS = pa.schema(
    [
        *((name, pa.string()) for name in ("audit", "reader")),
        ("item", pa.int32()),
        *((name, pa.string()) for name in ("topic_id", "seed_id", "intent_id", "passage_id")),
        *((name, pa.string()) for name in ("recipe", "corpus", "contrast", "family")),
        ("edited", pa.bool_()),
        *((name, pa.int8()) for name in ("label", "mark")),
        *((name, pa.bool_()) for name in ("answers", "usable", "natural", "gives_away")),
        ("remark", pa.string()),
    ]
)
"""A row is one passage of one item as one reader marked it."""
SHOWN = pa.schema([field.with_name("is_natural") if field.name == "natural" else field for field in AUDITS])
"""The columns of the view: NATURAL is a word of SQL."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def put_key(out: Path, name: str, facts: Mapping[str, Any]) -> None:
    """Keeps the key of a sheet. The same again changes nothing; raises UsageError where the name has another."""
    path = _path(out, f"{_checked(name)}.key.json")
    path.parent.mkdir(exist_ok=True)
    if not link_if_absent(write_new(path.parent, f".{path.name}", canonical_json(facts).encode()), path):
        standing = read_json(path)
        if canonical_json(standing) != canonical_json(facts):
            raise UsageError(f"{out} has an audit {name!r} of other topics; give this one another `--name`")


def read_key(out: Path, name: str) -> Mapping[str, Any]:
    """The key of a sheet. Raises UsageError where there is none of that name."""
    path = _path(out, f"{_checked(name)}.key.json")
    if not path.exists():
        raise UsageError(f"{out} has no audit {name!r}; it has {', '.join(key_names(out)) or 'none'}")
    facts: Mapping[str, Any] = read_json(path)
    return facts


def key_names(out: Path) -> list[str]:
    """The names of the sheets of a run."""
    return sorted(path.name.removesuffix(".key.json") for path in _path(out, "").glob("*.key.json"))


def put_rows(out: Path, name: str, reader: str, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Keeps the marks of one reader, in place of earlier ones."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), AUDITS), sink, compression="zstd", write_page_checksum=True)
    path = _path(out, f"{_checked(name)}.{_checked(reader)}.parquet")
    put_bytes(path, sink.getvalue().to_pybytes())
    return path


def put_item(out: Path, name: str, reader: str, item: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Keeps the marks of one item with the reader's others, in place of earlier ones of this item.

    On return they survive a kill and a power cut. Several processes of one machine may do so at a time.
    """
    path = _path(out, f"{_checked(name)}.{_checked(reader)}.parquet")
    path.parent.mkdir(exist_ok=True)
    with locked(path.parent / f".{name}.{reader}.lock"):
        rest = [row for row in read_reader(out, name, reader) if row["item"] != item]
        put_rows(out, name, reader, sorted([*rest, *rows], key=lambda row: row["item"]))


def read_reader(out: Path, name: str, reader: str) -> list[dict[str, Any]]:
    """The rows of one reader of an audit; none where that reader marked nothing yet."""
    path = _path(out, f"{_checked(name)}.{_checked(reader)}.parquet")
    if not path.exists():
        return []
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, schema=AUDITS, page_checksum_verification=True).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataError(f"{path} does not read: {error}; restore it from a copy, or move it away") from error
    return rows


def readers_of(out: Path, name: str) -> list[str]:
    """Who marked items of this audit, in order."""
    prefix = f"{_checked(name)}."
    names = (path.name for path in _path(out, "").glob(f"{prefix}*.parquet"))
    return sorted(name.removeprefix(prefix).removesuffix(".parquet") for name in names)


def audit_files(out: Path) -> list[Path]:
    """The files of all readers' marks."""
    return [inside(Path(out), path) for path in sorted(_path(out, "").glob("*.parquet"))]


def read_audits(out: Path) -> pa.Table:
    """The rows of all audits of a run, in the order of their names, under the names of the view."""
    try:
        tables = [pq.read_table(path, schema=AUDITS, page_checksum_verification=True) for path in audit_files(out)]
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataError(f"an audit of {out} does not read: {error}; score its sheet again") from error
    return pa.concat_tables([AUDITS.empty_table(), *tables]).rename_columns(SHOWN.names)


def _path(out: Path, name: str) -> Path:
    return inside(Path(out), Path(out) / "audits" / name)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name an audit or a reader; use letters, digits, dash and underscore")
    return name
