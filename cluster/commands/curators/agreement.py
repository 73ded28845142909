"""`foil agreement`: how far the judges of a run agree with each other, with its labels, and with people's labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands.arguments import JsonOption, OutArgument
from cluster.terminal import print_json, show
from engine.errors import UsageError

if TYPE_CHECKING:
    from validators.judges.agreement import Agreement, Labels

_VOTES = """
SELECT topic_id, validator, evidence FROM verdicts
WHERE validator LIKE 'judge\\_%' ESCAPE '\\' AND NOT starts_with(reason, 'canary')
"""
_LABELS = "SELECT topic_id, intent_id, passage_id, relevance FROM judgments"
_COLUMNS = ("first", "second", "pairs", "agreed", "kappa", "low", "high")


def agreement(
    out: OutArgument,
    labels: Annotated[
        Path | None, typer.Option(help="People's labels (.jsonl or .csv): topic_id, intent_id, passage_id, relevance.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far judges, labels and people agree: Cohen's kappa with its interval."""
    rows = agreements(out, labels)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    show(_COLUMNS, [[getattr(row, name) for name in _COLUMNS] for row in rows], "kappa, 0.95 interval")


def agreements(out: Path, labels: Path | None) -> list[Agreement]:
    """Of every two raters: the judges by role, the topics' own labels, and the people of the label file."""
    from validators.judges.agreement import compare_raters, read_labels, read_votes

    people = read_labels(labels) if labels else {}
    own: dict[str, Labels] = dict(read_votes(_rows(out, _VOTES)))
    own["labels of the topics"] = {(t, i, p): relevance for t, i, p, relevance in _rows(out, _LABELS)}
    if people and set().union(*people.values()).isdisjoint(set().union(*own.values())):
        raise UsageError(
            f"{labels} labels no pair of topic, intent and passage of {out}; is it the file of another run?"
        )
    return compare_raters(own | people)


def _rows(out: Path, query: str) -> list[Any]:
    from datasets_out.sql.query import run_sql

    return list(zip(*(column.to_pylist() for column in run_sql(out, query).columns), strict=True))
