"""Writes a page of tables from the results of `foil evaluate --on`: benchmarks below each other, systems side by side.

python scripts/results_page.py RESULTS.jsonl [SYSTEM ...] > docs/results.md
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
MiniLM) with 95 % paired bootstrap intervals. None of these collections is trained on by the jobs in `examples/jobs/`.
A dagger marks a collection on which step or blend of the model were chosen. What each measure says:
[evaluation](evaluation.md); which models these are: [benchmarks](benchmarks.md).
"""


def page(rows: Sequence[Row], systems: Sequence[str]) -> Iterator[str]:
    """The lines of the page; a system is named by the last two folders of its path."""
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
    yield "Libraries: " + ", ".join(f"{name} {version}" for name, version in rows[0]["versions"].items()) + "."


def shown(system: str) -> str:
    """A system's name as the page has it."""
    return "/".join(Path(system).parts[-2:])


def cell(row: Row) -> str:
    """A value, and its difference to the base; a dagger where the system was chosen on this benchmark."""
    difference = f" ({row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}])"
    dagger = " †" if row.get("chosen_on") else ""
    return f"{row['value']:.1f}{difference if row['system'] != 'base' else ''}{dagger}"


if __name__ == "__main__":
    path, *given = sys.argv[1:]
    found = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    names = list(dict.fromkeys([*BESIDE, *given]))
    print("\n".join(page([row for row in found if row["system"] in names], names)))
