"""What a person says of data, as the `seeds` of a job: `foil init --data`.

    python_docs                            the documentation of installed libraries
    questions.jsonl                        a table; its columns are found by their names
    questions.jsonl query=q positives=a    a table whose columns have other names
    handbook/                              a folder of text, Markdown, HTML and PDF, of BEIR's files, or of tables
    msmarco                                a public corpus, where `foil seeds fetch` puts it
    metamath:PATH, robust04 documents=PATH one that lies elsewhere

Words with `=` are settings of the corpus.
"""

import json
import re
import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from foil.cluster.catalog import SEEDS
from foil.cluster.job import settings_from
from foil.cluster.yaml_page import read_yaml
from foil.engine.errors import UsageError
from foil.engine.seeds.files.rows import ENDINGS, read_rows
from foil.engine.seeds.files.streams import list_files
from foil.engine.settings import Settings

Section = dict[str, Any]
Checked = TypeVar("Checked", bound=Settings)

FETCHED: Mapping[str, Section] = {
    "msmarco": {"path": "seeds/msmarco/v2.1"},
    "metamath": {"path": "seeds/metamath/MetaMathQA-395K.json"},
    "leetcode": {"path": "seeds/leetcode"},
    "robust04": {
        "topics": "seeds/robust04/topics.robust04.gz",
        "qrels": ["seeds/robust04/qrels.robust2004.txt"],
        "documents": "seeds/robust04/documents",
    },
}
"""Public corpora, and where their files lie by default."""
_COLUMNS = {
    "query": ("query", "question", "anchor"),
    "positives": ("positives", "positive", "pos", "positive_passages", "answers", "answer", "passages", "passage",
                  "contexts", "context"),
    "negatives": ("negatives", "negative", "neg", "negative_passages"),
    "id": ("id", "_id", "qid", "query_id"),
}  # fmt: skip
"""Part of a seed -> the names that its column usually has."""
_MOST_ROW_BYTES = 8 << 20


def read_data(answer: str) -> Section:
    """The section `seeds`. Raises UsageError for what is not there or cannot be read."""
    name, words = split_answer(answer)
    kind, colon, place = name.partition(":")
    if not (colon and kind in SEEDS):
        kind, place = (name, "") if name in (*FETCHED, "python_docs") else (_kind_of(Path(name)), name)
    section: Section = {"kind": kind, **FETCHED.get(kind, {}), **({"path": place} if place else {})}
    if kind in ("table", "documents"):
        section["corpus"] = re.sub(r"\W+", "-", Path(place).stem).strip("-") or kind
    if kind == "table":
        columns = {part: words.pop(part) for part in _COLUMNS if part in words}
        section["columns"] = _columns(Path(place), columns)
    section |= words
    _check(section)
    return section


def split_answer(answer: str) -> tuple[str, Section]:
    """The first word of an answer, and the settings after it."""
    try:
        name, *rest = shlex.split(answer) or [""]
    except ValueError as error:
        raise UsageError(f"{answer!r} cannot be read: {error}; close the quotation mark") from None
    if wrong := [word for word in rest if "=" not in word]:
        raise UsageError(f"{wrong[0]!r} is no setting; write NAME=VALUE, and quote a path that has blanks")
    pairs = (word.partition("=") for word in rest)
    return name, {key: read_yaml(value, key)[0] for key, _, value in pairs}


def checked(section: Section, settings: type[Checked]) -> Checked:
    """The settings of a section. Raises UsageError that lists what is wrong with it."""
    try:
        return settings_from([f"{key}={json.dumps(value)}" for key, value in section.items()], settings)
    except UsageError as error:
        raise UsageError(str(error).replace("--set ", "")) from None


def _kind_of(path: Path) -> str:
    """What a file or folder holds."""
    if not path.exists():
        raise UsageError(f"{path} is no file or folder here, and no corpus: {', '.join(('python_docs', *FETCHED))}")
    if path.is_dir() and list(path.glob("corpus.jsonl*")):
        return "beir"
    names = [file.name.lower().removesuffix(".gz") for file in list_files(path)]
    return "table" if any(name.endswith(ENDINGS) for name in names) else "documents"


def _columns(path: Path, by_word: Mapping[str, str]) -> Section:
    """The columns that were named, and the others by their names in the first row."""
    row = next(islice(read_rows(path, _MOST_ROW_BYTES), 1), None)
    if row is None or isinstance(row, Exception):
        raise UsageError(f"{path} has no row that can be read: {row or 'it is empty'}")
    names = row.value.keys()
    by_name = {part: next((name for name in usual if name in names), "") for part, usual in _COLUMNS.items()}
    columns = {part: name for part, name in {**by_name, **by_word}.items() if name}
    missing = [part for part in ("query", "positives") if part not in columns]
    unknown = [name for name in columns.values() if name.partition(".")[0] not in names and name not in names]
    if missing or unknown:
        wrong = f"it has no column {unknown[0]!r}" if unknown else f"none of them is surely the {missing[0]}"
        raise UsageError(
            f"{path} has the columns {', '.join(names)}; {wrong}. Say so: {shlex.quote(str(path))} query=NAME "
            "positives=NAME"
        )
    return columns


def _check(section: Section) -> None:
    """Raises UsageError for settings that the corpus does not have, and for files that are not there."""
    settings = checked(section, SEEDS[section["kind"]][0])
    paths = [value for _, value in settings for value in (value if isinstance(value, tuple) else [value])]
    for path in paths:
        if isinstance(path, Path) and not path.exists():
            kind = section["kind"]
            fetch = f"`foil seeds fetch {kind}` gets it or says how; or name" if kind in FETCHED else "name"
            raise UsageError(f"{path} is not there; {fetch} its place: {kind}:PATH, or KEY=PATH")
