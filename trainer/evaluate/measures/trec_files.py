"""Runs and judgments as TREC's tools read and write them, one document a line, fields separated by blanks.

    run      query Q0 document rank score tag
    qrels    query iteration document relevance

trec_eval orders a run by its scores and does not read the rank; neither does this. A run's lines may have more fields
than six, as there. A document stands once for a query.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import chain
from logging import getLogger
from pathlib import Path
from typing import TypeVar

from foil.engine.atomic_files import put_text
from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import Ledger, ledger_lines
from foil.engine.seeds.judged import read_qrels as read_judgments
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.measures.ranks import ranked

LOG = getLogger(__name__)
V = TypeVar("V")
_FIELDS = re.compile(r"\S+", re.ASCII)
_LINE_BYTES = 1 << 20
_RUN = "`query Q0 document rank score tag`, score a number"


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """The judgments of a file, in its order, as all of Foil reads them; UsageError names the line that is none."""
    ledger = Ledger()
    qrels = read_judgments([path], _LINE_BYTES, ledger)
    for line in ledger_lines(ledger.plain()):
        LOG.warning("%s: %s", path, line)
    return qrels


def read_run(path: Path) -> dict[str, dict[str, float]]:
    """The scores of a file, in its order; UsageError names the line that is none, or whose score is NaN."""
    return _read(path, _retrieval, _RUN)


def write_run(path: Path, run: Run, tag: str = "foil") -> None:
    """Writes a run, best first, with ranks from 1; scores read back equal."""
    for name in (tag, *chain.from_iterable((query, *scores) for query, scores in run.items())):
        check_field(name)
    lines = (
        f"{query} Q0 {document} {rank} {float(scores[document])!r} {tag}\n"
        for query, scores in run.items()
        for rank, document in enumerate(ranked(run, query), start=1)
    )
    put_text(path, "".join(lines))


def check_field(name: str) -> None:
    """UsageError for a name that cannot stand in a file of TREC's."""
    if not _FIELDS.fullmatch(name):
        raise UsageError(f"{name!r} cannot stand in a TREC file, whose fields have no blanks; rename it")


def _retrieval(fields: list[str]) -> tuple[str, str, float] | None:
    match fields:
        case [query, _, document, _, score, _, *_] if (value := _number(score)) is not None:
            return query, document, value
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _read(
    path: Path, parse: Callable[[list[str]], tuple[str, str, V] | None], expected: str
) -> dict[str, dict[str, V]]:
    rows: dict[str, dict[str, V]] = {}
    for number, line in enumerate(_lines_of(path), start=1):
        fields = _FIELDS.findall(line)
        row = parse(fields) if fields else None
        if fields and row is None:
            raise UsageError(f"{path}:{number}: expected {expected}, found {line.strip()[:120]!r}; mend the line")
        if row:
            query, document, value = row
            if document in rows.setdefault(query, {}):
                raise UsageError(
                    f"{path}:{number}: {document!r} stands twice for query {query!r}; keep one line of them"
                )
            rows[query][document] = value
    return rows


def _lines_of(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            yield from lines
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} does not read as text ({error}); give a file in TREC's format") from error
