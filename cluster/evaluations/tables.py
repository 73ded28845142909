"""How `foil evaluate --on` shows what it measured: a line a system, then tables of all measures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from foil.cluster.terminal import say, show
from foil.trainer.evaluate.comparison.results import InstructionLine, LineKey, Result

LONGEST_NAME = 22
"""Of a system in a table that fits a terminal of 80 columns."""


def show_lines(title: str, lines: Mapping[LineKey, InstructionLine]) -> None:
    """A line a system: its score with the instructions, without them, what they bring, and p-MRR."""
    own = {key: line for key, line in lines.items() if not key[0]}
    if not any(line.instructed or line.p_mrr is not None or line.unreachable for line in own.values()):
        return
    measure, first = next((key[1], line) for key, line in own.items())
    names = shortened([system for _, _, system in own])
    rows = [(names[system], *cells(line)) for (_, _, system), line in own.items()]
    lost = f"; unreachable judgments: {first.unreachable:,}, relevant {first.unreachable_relevant:,}"
    head = (
        f"{title}: {measure} of {first.instructed:,} queries with their instructions{lost if first.unreachable else ''}"
    )
    show(("system", "with", "without", "the instruction brings", "p-MRR"), rows, head)


def cells(line: InstructionLine) -> tuple[str, str, str, str]:
    """The numbers of a line; in words whether instructions help the system beyond the interval."""
    with_it, without, p_mrr = (
        "" if value is None else f"{value:.1f}"
        for value in (line.with_instruction, line.without_instruction, line.p_mrr)
    )
    if line.gain is None or line.gain_low is None or line.gain_high is None:
        return with_it, without, "", p_mrr
    word = " loses" if line.gain_high < 0 else " wins" if line.gain_low > 0 else ""
    return with_it, without, f"{line.gain:+.1f} [{line.gain_low:+.1f}, {line.gain_high:+.1f}]{word}", p_mrr


def shortened(systems: Sequence[str]) -> dict[str, str]:
    """The ends of names that are too long, where these differ.

    >>> shortened(["base", "datasets_out/data/demo/model"])
    {'base': 'base', 'datasets_out/data/demo/model': '…s_out/data/demo/model'}
    """
    short = {name: name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}" for name in systems}
    times = Counter(short.values())
    return {name: each if times[each] == 1 else name for name, each in short.items()}


def say_bills(bills: Mapping[str, Mapping[str, Any]]) -> None:
    """What each LLM of a system cost, and how many of its replies were of no use."""
    for name, bill in bills.items():
        faults = ", ".join(f"{count:,} {fault}" for fault, count in bill["faults"].items())
        say(
            f"{name}: {bill['requests']:,} replies, {bill['sent']:,} of them new, {bill['prompt_tokens']:,} + "
            f"{bill['completion_tokens']:,} tokens, ${bill['cost_usd']:.4f}"
            + (f"; replies of no use, whose queries stayed as they were: {faults}" if faults else "")
        )


def show_results(title: str, outcomes: Sequence[Result], base: str) -> None:
    """A table of the whole, and one a kind of group: systems below each other, measures next to each other."""
    for kind, rows in groupby(outcomes, key=lambda result: result.group.partition(":")[0]):
        own = list(rows)
        measures = list(dict.fromkeys(result.measure for result in own))
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for result in own:
            cells.setdefault((result.group, result.system), {})[result.measure] = _cell(result, base)
        columns = [*([kind] if kind else []), "in points", *measures]
        lines = [
            (*([group.partition(": ")[2]] if kind else []), system, *(by_measure.get(name, "") for name in measures))
            for (group, system), by_measure in cells.items()
        ]
        show(columns, lines, "" if kind else f"{title}, difference to {base} with its 95 % interval")


def _cell(result: Result, base: str) -> str:
    if result.system == base:
        return f"{result.value:.1f} (n {result.count:,})"
    return f"{result.value:.1f}  {result.difference:+.1f} [{result.low:+.1f}, {result.high:+.1f}]"
