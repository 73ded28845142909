"""`foil reasons`: why topics are rejected, marked or failed, in plain words."""

from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import print_json, print_line, print_paragraph
from foil.engine.errors import UsageError


def reasons(
    reason: Annotated[
        str,
        typer.Argument(
            metavar="[REASON]", help="One reason, or the recipe, validator or judge that decides. Default: all."
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """What each reason of a topic means, who decides it, what mends it, and an example."""
    from foil.engine.reasons import reason_entries

    entries = reason_entries()
    by_part = [entry for entry in entries.values() if reason in entry.who.replace(",", " ").replace(";", " ").split()]
    chosen = [entries[reason]] if reason in entries else by_part if reason else list(entries.values())
    if not chosen:
        near = get_close_matches(reason, entries, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`foil reasons` lists them."
        raise UsageError(f"no part of Foil gives the reason {reason!r}; {hint} Curators and own parts may use others")
    if as_json:
        print_json({"reasons": [asdict(entry) for entry in chosen]})
    elif len(chosen) > 1:
        for entry in chosen:
            print_paragraph(f"{entry.name}: {entry.meaning}")
    else:
        [entry] = chosen
        print_line(entry.name)
        for name, text in (("means", entry.meaning), ("decided by", entry.who), ("change", entry.mend),
                           ("example", entry.example)):  # fmt: skip
            print_paragraph(f"{name}: {text}", "  ")
