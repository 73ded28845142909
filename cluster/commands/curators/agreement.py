"""`foil agreement`: how far the judges of a run agree with each other, with its labels, and with a file of people's."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cluster.terminal import show
from datasets_out.sql.query import run_sql
from engine.errors import UsageError
from validators.judges.agreement import Agreement, Labels, compare, read_labels, votes_of

_VOTES = """
SELECT topic_id, validator, evidence FROM verdicts
WHERE validator LIKE 'judge\\_%' ESCAPE '\\' AND NOT starts_with(reason, 'canary')
"""
_LABELS = "SELECT topic_id, intent_id, passage_id, relevance FROM judgments"
_COLUMNS = ("first", "second", "pairs", "agreed", "kappa", "low", "high")


def show_agreement(out: Path, labels: Path | None, *, as_json: bool) -> None:
    """Prints kappa for every two raters of the run."""
    found = agreements(out, labels)
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    show(_COLUMNS, [[getattr(one, name) for name in _COLUMNS] for one in found], "kappa, 0.95 interval")


def agreements(out: Path, labels: Path | None) -> list[Agreement]:
    """Of all raters: the judges by role, the topics' own labels, and the people of the label file."""
    people = read_labels(labels) if labels else {}
    raters: dict[str, Labels] = {**votes_of(_rows(out, _VOTES)), **people}
    raters["labels of the topics"] = {(t, i, p): relevance for t, i, p, relevance in _rows(out, _LABELS)}
    known = {pair for rater, said in raters.items() if rater not in people for pair in said}
    if people and not any(pair in known for said in people.values() for pair in said):
        raise UsageError(
            f"{labels} labels no pair of topic, intent and passage of {out}; is it the file of another run?"
        )
    return compare(raters)


def _rows(out: Path, sql: str) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in run_sql(out, sql).columns), strict=True))
