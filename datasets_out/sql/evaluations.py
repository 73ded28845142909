"""Results of `foil evaluate --out OUT` as rows of the view `evaluations`, where OUT is a run: OUT/results.jsonl.

They are no part of what is committed: no fingerprint, snapshot or training run depends on them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.atomic_files import read_regular
from engine.errors import CorruptDataError
from engine.ids import canonical_json

RESULTS = "results.jsonl"
_JSON = ("collections", "facts", "versions")
EVALUATIONS = pa.schema(
    [
        *((name, pa.string()) for name in ("benchmark", "query_group", "measure", "system")),
        ("count", pa.int64()),
        *((name, pa.float64()) for name in ("value", "difference", "low", "high", "p_t_test", "p_wilcoxon", "p_holm")),
        ("k", pa.int64()),
        *((name, pa.string()) for name in ("base", *_JSON)),
        ("chosen_on", pa.bool_()),
    ]
)
"""A row is one number in points; `query_group` is what results.jsonl calls `group`, a word of SQL; `chosen_on`: the
system's weights were chosen on this benchmark."""


def read_evaluations(out: Path) -> pa.Table:
    """The rows in the order of the file, none where there is none. Raises CorruptDataError where it does not read."""
    path = out / RESULTS
    try:
        lines = read_regular(path).splitlines() if path.exists() else []
        return pa.Table.from_pylist([_row(json.loads(line)) for line in lines], EVALUATIONS)
    except (OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptDataError(
            f"{path} does not hold rows of `foil evaluate` ({error!r}); remove it and evaluate again"
        ) from error


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "query_group": row["group"], **{name: canonical_json(row[name]) for name in _JSON}}
