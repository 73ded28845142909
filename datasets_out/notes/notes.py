"""Notes and flags that people put on topics, as rows of the view `notes`: OUT/desk/notes.jsonl.

They are no part of what is committed: no fingerprint, snapshot or training run depends on them. A note is a line of
JSON; the last one on a topic by an author counts.
"""

import json
import os
from pathlib import Path

import pyarrow as pa

from foil.engine.atomic_files import locked, read_regular, sync
from foil.engine.errors import CorruptDataError
from foil.engine.ids import canonical_json
from foil.engine.storage.store import inside

NOTES = pa.schema([(name, pa.string()) for name in ("topic_id", "author", "flag", "note", "noted_at")])
"""`flag` is "" or a word such as `bad`; `noted_at` is the time in UTC, as ISO 8601."""


def put_note(out: Path, **note: str) -> None:
    """Keeps a note (the columns of NOTES). On return it survives a kill and a power cut."""
    path = _path(out)
    path.parent.mkdir(exist_ok=True)
    line = canonical_json({name: note[name] for name in NOTES.names}).encode() + b"\n"
    with locked(path.with_suffix(".lock")):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            _end_torn_line(fd)
            os.write(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)
        sync(path.parent)


def read_notes(out: Path) -> pa.Table:
    """The newest note on each topic by each author. A line that a power cut tore is left out.

    Raises CorruptDataError for a line that does not read and has others behind it, or a link that leads elsewhere.
    """
    path = _path(out)
    try:
        lines = read_regular(path).split(b"\n") if path.exists() else []
        rows = [json.loads(line) for line in lines[:-1] if line.strip()]
        newest = {(row["topic_id"], row["author"]): row for row in rows}
        current = [row for row in newest.values() if row["note"] or row["flag"]]
        return pa.Table.from_pylist([{name: str(row[name]) for name in NOTES.names} for row in current], NOTES)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CorruptDataError(f"{path} does not hold notes ({error!r}); mend its lines, or move it away") from error


def _end_torn_line(fd: int) -> None:
    """Cuts off a last line without an end, which nobody was promised."""
    size = os.fstat(fd).st_size
    begin = max(0, size - (1 << 20))
    tail = os.pread(fd, size - begin, begin)
    if tail and not tail.endswith(b"\n"):
        os.ftruncate(fd, begin + tail.rfind(b"\n") + 1)


def _path(out: Path) -> Path:
    return inside(Path(out), Path(out) / "desk" / "notes.jsonl")
