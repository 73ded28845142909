"""`croissant.json`: the release in the MLCommons Croissant 1.1 vocabulary, every data file with its sha256.

Checked with mlcroissant 1.1.1, which also reads the records by it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from foil.datasets_out.release.checksums import file_sha256
from foil.datasets_out.release.row_files import WrittenFile

CROISSANT = "croissant.json"
_CONTEXT = json.loads(Path(__file__).with_name("croissant_context.json").read_text(encoding="utf-8"))
_FORMATS = {".parquet": "application/x-parquet", ".jsonl": "application/jsonlines", ".tsv": "text/tab-separated-values"}


def croissant(
    folder: Path, files: Sequence[WrittenFile], facts: Mapping[str, Sequence[str]], *, name: str, description: str
) -> dict[str, Any]:
    """The document over the data files that lie in the folder, with these facts where they say something.

    It tells no date: equal releases have equal bytes.
    """
    data = [file for file in files if not file.name.startswith("withheld/")]
    return {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": name,
        "description": description,
        "version": "1.0.0",
        **{fact: list(values) for fact, values in facts.items() if values},
        "distribution": [_file_object(folder, file) for file in data],
        "recordSet": [_record_set(file) for file in data],
    }


def _file_object(folder: Path, file: WrittenFile) -> dict[str, Any]:
    path = folder / file.name
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": _id(file.name),
        "contentUrl": file.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": _FORMATS[path.suffix],
        "sha256": file_sha256(path),
    }


def _record_set(file: WrittenFile) -> dict[str, Any]:
    parent = _id(file.name)
    return {
        "@type": "cr:RecordSet",
        "@id": parent,
        "name": parent,
        "field": [_field(parent, file, column) for column in file.schema],
    }


def _field(parent: str, file: WrittenFile, column: pa.Field) -> dict[str, Any]:
    source = {"fileObject": {"@id": file.name}, "extract": {"column": column.name}}
    facts = {"@type": "cr:Field", "@id": f"{parent}/{column.name}", "name": column.name, "source": source}
    if pa.types.is_list(column.type):
        return {**facts, "dataType": _type_of(column.type.value_type), "isArray": True, "arrayShape": "-1"}
    return {**facts, "dataType": _type_of(column.type)}


def _type_of(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Boolean" if pa.types.is_boolean(kind) else "sc:Text"


def _id(name: str) -> str:
    """A file's name without its ending, as an id."""
    return name.rpartition(".")[0].replace("/", "-")
