"""Writes a page of tables from the results of `foil evaluate --on`: benchmarks below each other, systems side by side.

python scripts/results_page.py FOLDER [SYSTEM ...] [--chosen NAME=COLLECTION,...] > lab/DATE-results.md

It reads results.jsonl and prompts.jsonl. `--chosen joint=cacm,perspectrum`: systems whose folder's name begins so were
made with these collections before the eyes of whoever chose their settings.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
REFERENCES, GIVEN, SIGNIFICANT = ("bm25", "base"), "given", 0.05
HEAD = """# Results on tasks of others

Written by `scripts/results MODEL...` from {rows} rows of results. Points; differences to the base model (packaged
MiniLM) with 95 % paired bootstrap intervals. None of these queries is trained on by these models.
Bold differences, of which there are few, stand Holm's correction over all that was compared on a benchmark too.
A dagger marks what settings of a model were chosen on, by a program or by hand: there its numbers are no test. What
each measure says: [measures](../docs/measures.md); which models these are: [trainings](2026-11-26-training.md). Of
lists to re-rank, BM25 knows the documents of all lists alone, so its word counts are others than those of the whole
collection.
"""


def page(rows: Sequence[Row], systems: Sequence[str], prompts: Sequence[Row] = ()) -> Iterator[str]:
    """The lines of the page; a system is named by the folder that its model lies in."""
    yield HEAD.format(rows=len(rows))
    yield from findings(rows, systems)
    yield from (
        f"- The order in which the lists of {row['benchmark']} come (`given`): {row['measure']} {row['value']:.1f}."
        for row in rows
        if row["system"] == GIVEN and not row["group"]
    )
    yield ""
    yield from instructions(rows, systems)
    yield f"| benchmark | measure | n | {' | '.join(map(shown, systems))} |"
    yield "|---" * (len(systems) + 3) + "|"
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row["benchmark"], row["group"], row["measure"]), {})[row["system"]] = row
    for (_, _, measure), of in lines.items():
        if "base" in of:
            cells = (cell(of[system]) if system in of else "" for system in systems)
            yield f"| {where(of['base'])} | {measure} | {of['base']['count']} | {' | '.join(cells)} |"
    yield ""
    yield "| system | weights | template | tokens |"
    yield "|---|---|---|---|"
    for system in systems:
        facts = next(row["facts"] for row in rows if row["system"] == system)
        weights = f"`{facts['weights'][:16]}`" if "weights" in facts else ""
        yield f"| {shown(system)} | {weights} | {facts['template']} | {facts.get('max_tokens', '')} |"
    yield ""
    if prompts:
        yield from spread(prompts, systems)
        yield ""
    yield "Libraries: " + ", ".join(f"{name} {version}" for name, version in rows[0]["versions"].items()) + "."


def instructions(rows: Sequence[Row], systems: Sequence[str]) -> Iterator[str]:
    """The table of what instructions bring: a line a benchmark and system; none where no row says it."""
    lines = [row for row in rows if row["system"] in systems and row.get("gain") is not None and not row["group"]]
    if not lines:
        return
    yield "| benchmark | system | n | score | with | without | the instruction brings | p-MRR | unreachable |"
    yield "|---" * 9 + "|"
    for row in lines:
        word = " loses" if row["gain_high"] < 0 else " wins" if row["gain_low"] > 0 else ""
        gained = f"{row['gain']:+.1f} [{row['gain_low']:+.1f}, {row['gain_high']:+.1f}]{word}"
        both = f"{row['with_instruction']:.1f} | {row['without_instruction']:.1f}"
        p_mrr = "" if row["p_mrr"] is None else f"{row['p_mrr']:.1f}"
        name = f"{row['benchmark']} | {shown(row['system'])} | {row['instructed']} | {row['measure']}"
        yield f"| {name} | {both} | {gained}{dagger(row)} | {p_mrr} | {row['unreachable']} |"
    yield ""


def findings(rows: Sequence[Row], systems: Sequence[str]) -> Iterator[str]:
    """A line a model: the differences to the base that lie beyond their intervals, of whole collections and parts."""
    for system in systems[len(REFERENCES) :]:
        own = [row for row in rows if row["system"] == system and row["group"].partition(":")[0] in ("", "part")]
        sides = []
        for side, sign in (("better", 1), ("worse", -1)):
            beyond = [row for row in own if row["low"] * sign > 0 and row["high"] * sign > 0]
            phrases = [f"{where(row).replace(', part: ', '/')} {row['measure']} {gain(row)}" for row in beyond]
            sides.append(f"{side} than the base beyond its interval: {', '.join(phrases) or 'nothing'}")
        yield f"- {shown(system)}: {'; '.join(sides)}."


def spread(rows: Sequence[Row], systems: Sequence[str]) -> Iterator[str]:
    """The lines that say what prompts behind every query do: mean and standard deviation over them."""
    yield f"Mean ± standard deviation over {len(rows[0]['by_prompt'])} prompts, and the value without one (queries that"
    yield "chose no prompt; [evaluation](../docs/evaluation.md#prompts)):"
    yield ""
    yield f"| benchmark | measure | n | {' | '.join(map(shown, systems))} |"
    yield "|---" * (len(systems) + 3) + "|"
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if not row["group"]:
            lines.setdefault((row["benchmark"], row["measure"]), {})[row["system"]] = row
    for (benchmark, measure), of in lines.items():
        of_systems = [of.get(system) for system in systems]
        cells = [f"{row['mean']:.1f} ± {row['spread']:.1f} ({row['none']:.1f})" if row else "" for row in of_systems]
        yield f"| {benchmark} | {measure} | {next(iter(of.values()))['count']} | {' | '.join(cells)} |"


def where(row: Row) -> str:
    """The benchmark of a row, with its group."""
    return f"{row['benchmark']}, {row['group']}" if row["group"] else row["benchmark"]


def shown(system: str) -> str:
    """A system's name as the page has it: of `joint/without-docs/model` the words `without docs`."""
    parts = [part for part in Path(system).parts if part != "model"]
    return parts[-1].replace("-", " ")


def cell(row: Row) -> str:
    """A value, and its difference to the base; a dagger where the system was chosen on this benchmark."""
    difference = f" ({row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}])"
    return f"{row['value']:.1f}{difference if row['system'] != 'base' else ''}{dagger(row)}"


def gain(row: Row) -> str:
    """A difference with its marks; in bold where it stands Holm's correction over the table of its benchmark."""
    bold = "**" if row["p_holm"] is not None and row["p_holm"] < SIGNIFICANT else ""
    return f"{bold}{row['difference']:+.1f}{bold}{dagger(row)}"


def dagger(row: Row) -> str:
    """The mark of what a model was chosen on."""
    return " †" if row.get("chosen_on") else ""


def read_rows(path: Path, systems: Sequence[str]) -> list[Row]:
    """The rows of these systems as each was last measured; none where the file is not there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [row for row in map(json.loads, lines) if row["system"] in systems]
    newest = {row["system"]: row["facts"] for row in rows}
    return [row for row in rows if row["facts"] == newest[row["system"]]]


def mark_chosen(rows: Sequence[Row], chosen: Mapping[str, Sequence[str]]) -> None:
    """Marks the rows of systems on collections that `chosen` names; a row over several parts has the mark of each."""
    parts: dict[str, set[str]] = {}
    for row in rows:
        parts.setdefault(row["benchmark"], {row["benchmark"].rpartition("/")[2]}).update(part_of(row))
    for row in rows:
        names = {name for system, own in chosen.items() if shown(row["system"]).startswith(system) for name in own}
        if names & (part_of(row) or parts[row["benchmark"]]):
            row["chosen_on"] = True


def part_of(row: Row) -> set[str]:
    """The one part of a benchmark that a row is of; nothing for all others."""
    kind, _, name = row["group"].partition(": ")
    return {name} if kind == "part" else set()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("systems", nargs="*")
    parser.add_argument("--chosen", nargs="*", default=[])
    given = parser.parse_args()
    names = list(dict.fromkeys([*REFERENCES, *given.systems]))
    results, prompted = (read_rows(given.folder / name, [*names, GIVEN]) for name in ("results.jsonl", "prompts.jsonl"))
    mark_chosen(results, {name: own.split(",") for name, _, own in (each.partition("=") for each in given.chosen)})
    print("\n".join(page(results, names, prompted)))
