"""Small documents on disk, complete or not at all. Nothing heavy is imported, so what is there can be told at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from engine.errors import CorruptDataError


def write_json(path: Path, value: Any) -> None:
    """JSON that a person reads: indented, keys in the order given."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def put_json(path: Path, value: Any) -> None:
    """The same, complete or not at all."""
    put_text(path, json.dumps(value))


def put_text(path: Path, text: str) -> None:
    """Writes or replaces a file such that it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    sync(draft)
    draft.rename(path)
    sync(path.parent)


def read_json(path: Path) -> Any:
    """A JSON document; CorruptDataError if it is absent or does not parse."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptDataError(f"{path} does not read ({error}); remove its directory and train again") from error


def sync(path: Path) -> None:
    """Waits until a file or directory is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
