"""The tables of an ablation: on the terminal, as ablation.md, and their numbers as ablation.jsonl."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foil.cluster.terminal import print_line, show
from foil.engine.atomic_files import put_json_lines, put_text
from foil.trainer.evaluate.ablation.settings import BASELINE
from foil.trainer.evaluate.ablation.table import CellResult, cell_text

MARK = "*"
"""Stands next to the measure by which the cell was chosen."""
LEGEND = (
    f"Points: mean over seeds ± their standard deviation, difference to the {BASELINE} with its 95 % interval, p after "
    "Holm's correction over the cells of a column. Interval and p hold for other queries and other seeds; of one seed, "
    "for other queries alone."
)
COLUMNS = ("in points", "cell", "n", "mean ± seeds", "difference", "95 % interval", "p (Holm)")
Compared = Mapping[str, Sequence[CellResult]]
"""Measure -> cells, the baseline first."""


@dataclass(slots=True)
class Table:
    """The cells on one set. `chosen_by`: the measure that chose among them, "" where none did."""

    stage: str
    name: str
    compared: Compared
    chosen_by: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each measure and cell."""
        return [
            {"stage": self.stage, "on": self.name, "measure": measure, "chosen_by": measure == self.chosen_by,
             **asdict(result)}
            for measure, of_cells in self.compared.items()
            for result in of_cells
        ]  # fmt: skip

    def long_lines(self) -> Iterator[tuple[str, ...]]:
        """A line for each measure and cell, for a terminal."""
        for measure, of_cells in self.compared.items():
            yield from (number_texts(self._head(measure), result) for result in of_cells)

    def _head(self, measure: str) -> str:
        return f"{measure} {MARK}" if measure == self.chosen_by else measure

    def lines(self) -> list[list[str]]:
        """The head and a line for each cell."""
        heads = [self._head(measure) for measure in self.compared]
        cells = zip(*self.compared.values(), strict=True)
        return [["cell", *heads], *([row[0].cell, *(cell_text(each, BASELINE) for each in row)] for row in cells)]


def number_texts(head: str, result: CellResult) -> tuple[str, ...]:
    """The numbers of a cell in columns; the baseline has no difference."""
    spread = "" if result.spread is None else f" ± {result.spread:.1f}"
    mean = (head, result.cell, f"{result.count:,}", f"{result.mean:.1f}{spread}")
    if result.cell == BASELINE:
        return (*mean, "", "", "")
    p = "" if result.p_holm is None else f"{result.p_holm:.3f}"
    return (*mean, f"{result.difference:+.1f}", f"[{result.low:+.1f}, {result.high:+.1f}]", p)


def write_tables(out: Path, tables: Sequence[Table], head: str, chosen: str) -> None:
    """Prints the tables and keeps them."""
    marked = next(
        f"{MARK} {table.chosen_by} on {table.name} chose the cell {chosen}." for table in tables if table.chosen_by
    )
    pages = [f"# Ablation\n\n{head}. {LEGEND}\n\n{marked}\n"]
    for table in tables:
        columns, *lines = table.lines()
        title = f"{table.stage}: {table.name}"
        show(COLUMNS, table.long_lines(), title)
        pages.append(f"## {title}\n\n{_markdown([columns, ['---'] * len(columns), *lines])}")
    print_line(marked)
    put_text(out / "ablation.md", "\n".join(pages))
    put_json_lines(out / "ablation.jsonl", (row for table in tables for row in table.rows()))


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
