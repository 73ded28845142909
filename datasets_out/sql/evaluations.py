"""Results of `foil evaluate --out OUT` as rows of views, where OUT is a run.

    OUT/results.jsonl -> evaluations
    OUT/prompts.jsonl -> prompt_evaluations (--prompts)

They are no part of what is committed: no fingerprint, snapshot or training run depends on them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from foil.engine.atomic_files import read_regular
from foil.engine.errors import CorruptDataError
from foil.engine.ids import canonical_json
from foil.engine.storage.store import inside

RESULTS, PROMPTS = "results.jsonl", "prompts.jsonl"
_JSON = ("collections", "facts", "versions", "selected_prompts", "by_prompt")
_RENAMED = {"group": "query_group", "none": "no_prompt"}
"""What the files call by words of SQL."""


def _schema(numbers: str, text_columns: str) -> pa.Schema:
    texts = ("benchmark", "query_group", "measure", "system")
    columns = [*((name, pa.string()) for name in texts), ("count", pa.int64())]
    columns += [(name, pa.float64()) for name in numbers.split()]
    return pa.schema([*columns, ("k", pa.int64()), *((name, pa.string()) for name in text_columns.split())])


_LINE = "with_instruction without_instruction gain gain_low gain_high p_mrr"
_COUNTS = ("instructed", "unreachable", "unreachable_relevant")
EVALUATIONS = _schema(
    f"value difference low high p_t_test p_wilcoxon p_holm {_LINE}", "base collections facts versions"
)
EVALUATIONS = pa.schema([*EVALUATIONS, ("chosen_on", pa.bool_()), *((name, pa.int64()) for name in _COUNTS)])
"""A row is one number in points; `chosen_on`: the system's weights were chosen on this benchmark. The rows of a
benchmark's score say what instructions are worth too (`trainer.evaluate.comparison.results.InstructionLine`)."""
PROMPT_EVALUATIONS = _schema(
    "no_prompt selected hindsight mean spread difference low high",
    "base selected_prompts by_prompt collections facts versions",
)
"""A row is what prompts are worth to a system by one measure, in points (`trainer.evaluate.comparison.prompts`)."""


def read_evaluations(out: Path) -> pa.Table:
    """The rows in the order of the file, none where there is none. Raises CorruptDataError where it does not read."""
    return _read(inside(out, out / RESULTS), EVALUATIONS)


def read_prompt_evaluations(out: Path) -> pa.Table:
    """The same of --prompts."""
    return _read(inside(out, out / PROMPTS), PROMPT_EVALUATIONS)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        lines = read_regular(path).splitlines() if path.exists() else []
        return pa.Table.from_pylist([_row(json.loads(line), schema) for line in lines], schema)
    except (OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptDataError(
            f"{path} does not hold rows of `foil evaluate` ({error!r}); remove it and evaluate again"
        ) from error


def _row(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    renamed = {**row, **{column: row[name] for name, column in _RENAMED.items() if column in schema.names}}
    return {**renamed, **{name: canonical_json(row[name]) for name in _JSON if name in schema.names}}
