"""Writes a page of tables from the results of `foil evaluate --on`: benchmarks below each other, systems side by side.

python scripts/results_page.py FOLDER [SYSTEM ...] > docs/results.md      reads results.jsonl and prompts.jsonl
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
BESIDE = ("bm25", "base")
HEAD = """# Results on tasks of others

Written by `scripts/results MODEL...` from {rows} rows of results. Points; differences to the base model (packaged
MiniLM) with 95 % paired bootstrap intervals. None of these queries is trained on by these models.
A dagger marks a collection on which step or blend of the model were chosen. What each measure says:
[evaluation](evaluation.md); which models these are: [benchmarks](benchmarks.md).
"""


def page(rows: Sequence[Row], systems: Sequence[str], prompts: Sequence[Row] = ()) -> Iterator[str]:
    """The lines of the page; a system is named by the folder that its model lies in."""
    yield HEAD.format(rows=len(rows))
    yield f"| benchmark | measure | n | {' | '.join(map(shown, systems))} |"
    yield "|---" * (len(systems) + 3) + "|"
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row["benchmark"], row["group"], row["measure"]), {})[row["system"]] = row
    for (benchmark, group, measure), of in lines.items():
        if "base" in of:
            cells = (cell(of[system]) if system in of else "" for system in systems)
            where = f"{benchmark}, {group}" if group else benchmark
            yield f"| {where} | {measure} | {of['base']['count']} | {' | '.join(cells)} |"
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


def spread(rows: Sequence[Row], systems: Sequence[str]) -> Iterator[str]:
    """The lines that say what prompts behind every query do: mean and standard deviation over them."""
    yield f"Mean ± standard deviation over {len(rows[0]['by_prompt'])} prompts, and the value without one (queries that"
    yield "chose no prompt; [evaluation](evaluation.md#prompts)):"
    yield ""
    yield f"| benchmark | measure | n | {' | '.join(map(shown, systems))} |"
    yield "|---" * (len(systems) + 3) + "|"
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if not row["group"]:
            lines.setdefault((row["benchmark"], row["measure"]), {})[row["system"]] = row
    for (benchmark, measure), of in lines.items():
        found = [of.get(system) for system in systems]
        cells = [f"{row['mean']:.1f} ± {row['spread']:.1f} ({row['none']:.1f})" if row else "" for row in found]
        yield f"| {benchmark} | {measure} | {next(iter(of.values()))['count']} | {' | '.join(cells)} |"


def shown(system: str) -> str:
    """A system's name as the page has it: of `joint/without-docs/model` the words `without docs`."""
    parts = [part for part in Path(system).parts if part != "model"]
    return parts[-1].replace("-", " ")


def cell(row: Row) -> str:
    """A value, and its difference to the base; a dagger where the system was chosen on this benchmark."""
    difference = f" ({row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}])"
    dagger = " †" if row.get("chosen_on") else ""
    return f"{row['value']:.1f}{difference if row['system'] != 'base' else ''}{dagger}"


def read_rows(path: Path, systems: Sequence[str]) -> list[Row]:
    """The rows of these systems; none where the file is not there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [row for row in map(json.loads, lines) if row["system"] in systems]


if __name__ == "__main__":
    folder, *given = sys.argv[1:]
    names = list(dict.fromkeys([*BESIDE, *given]))
    results, prompted = (read_rows(Path(folder) / name, names) for name in ("results.jsonl", "prompts.jsonl"))
    print("\n".join(page(results, names, prompted)))
