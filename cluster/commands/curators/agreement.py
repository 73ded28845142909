"""`foil agreement`: how far the judges of a run agree with each other, with its labels, and with people's labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_json, show

_COLUMNS = ("first", "second", "pairs", "agreed", "kappa", "low", "high")


def agreement(
    out: OutArgument,
    labels: Annotated[
        Path | None, typer.Option(help="People's labels (.jsonl or .csv): topic_id, intent_id, passage_id, relevance.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far judges, labels and people agree: Cohen's kappa with its interval."""
    from foil.cluster.desk.measures import agreements

    rows = agreements(out, labels)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    show(_COLUMNS, [[getattr(row, name) for name in _COLUMNS] for row in rows], "kappa, 0.95 interval")
