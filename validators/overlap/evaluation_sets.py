"""Reads the strings of evaluation sets that no training text may hold: the input of the contamination index.

Promise: every record gives its strings or an error that names file and line. Price: the sets are held in memory once,
while the index is built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.trec import read_topics
from foil.engine.settings import Settings
from foil.validators.overlap.ngram_index import Item

_TOPIC_PARTS = ("title", "description", "narrative")
_TOPIC_BYTES = 1 << 20


class EvaluationSet(Settings):
    """One file of strings that belong to an evaluation."""

    name: str = Field(pattern=r"^[^\x00-\x1f]+$", description="what hits call this set")
    path: Path = Field(description="the file, UTF-8")
    format: Literal["jsonl", "tsv", "trec", "text"] = Field(
        description="jsonl: one object a line; tsv: id, tab, text; trec: <top> topics; text: one string a line"
    )
    fields: tuple[str, ...] = Field(
        (), description="jsonl: the keys to read; trec: some of title, description, narrative (default all)"
    )
    id_field: str = Field("", description="jsonl: the key of the record's id; default: the line number")

    @model_validator(mode="after")
    def _fits_format(self) -> EvaluationSet:
        if self.format == "jsonl" and not self.fields:
            raise ValueError("a jsonl set needs `fields`; name the keys to read, e.g. [question]")
        if self.format == "trec" and not set(self.fields) <= set(_TOPIC_PARTS):
            raise ValueError(f"a trec set has the fields {', '.join(_TOPIC_PARTS)}, not {', '.join(self.fields)}")
        if self.format in {"tsv", "text"} and self.fields:
            raise ValueError(f"a {self.format} set has no `fields`; leave them out")
        if self.id_field and self.format != "jsonl":
            raise ValueError(f"a {self.format} set has no `id_field`; leave it out")
        return self

    def digest(self) -> str:
        """sha256 over these settings, save the path, and the file's bytes."""
        with _existing(self.path).open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(f"{self.model_dump_json(exclude={'path'})}{content}".encode()).hexdigest()

    def items(self) -> Iterator[Item]:
        """The strings in file order. Raises UsageError for a missing file, a broken record or a set with no strings."""
        is_empty = True
        for item_id, text in _READERS[self.format](self):
            is_empty = False
            yield Item(self.name, item_id, text)
        if is_empty:
            raise UsageError(f"evaluation set {self.name!r} ({self.path}) holds no strings; check its path and format")


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"evaluation set {path} is not a file; give the path of one that is")
    return path


def _lines(source: EvaluationSet) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, numbered from 1."""
    with _existing(source.path).open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise _broken(source, number, "UTF-8 text", str(error)) from error
            if line.strip():
                yield number, line


def _broken(source: EvaluationSet, line: int, expected: str, actual: str) -> UsageError:
    return UsageError(
        f"{source.path}:{line}: evaluation set {source.name!r} expects {expected}, found {actual[:120]!r}; mend it"
    )


def _read_text(source: EvaluationSet) -> Iterator[tuple[str, str]]:
    for number, line in _lines(source):
        yield str(number), line


def _read_tsv(source: EvaluationSet) -> Iterator[tuple[str, str]]:
    for number, line in _lines(source):
        name, tab, text = line.partition("\t")
        if not tab:
            raise _broken(source, number, "an id, a tab and a text", line)
        yield name, text


def _read_jsonl(source: EvaluationSet) -> Iterator[tuple[str, str]]:
    for number, line in _lines(source):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise _broken(source, number, "a JSON object", line) from error
        if not isinstance(record, dict):
            raise _broken(source, number, "a JSON object", line)
        name = str(_value(source, number, record, source.id_field)) if source.id_field else str(number)
        for field in source.fields:
            value = _value(source, number, record, field)
            for text in value if isinstance(value, list) else [value]:
                if not isinstance(text, str):
                    raise _broken(source, number, f"a string or a list of strings under {field!r}", json.dumps(text))
                yield name, text


def _value(source: EvaluationSet, number: int, record: dict[str, Any], field: str) -> Any:
    if field not in record:
        raise _broken(source, number, f"the key {field!r}", ", ".join(record))
    return record[field]


def _read_trec(source: EvaluationSet) -> Iterator[tuple[str, str]]:
    for topic in read_topics(_existing(source.path), _TOPIC_BYTES):
        if isinstance(topic, SeedFormatError):
            raise _broken(source, topic.line, topic.expected, topic.found)
        for part in source.fields or _TOPIC_PARTS:
            if part in topic.attributes:
                yield topic.id, topic.attributes[part]


_READERS = {"text": _read_text, "tsv": _read_tsv, "jsonl": _read_jsonl, "trec": _read_trec}
