"""What two runs do not share, on a terminal: counts, how outcomes changed, and a few examples of each kind."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from foil.cluster.pages.topic_page import spans_text
from foil.datasets_out.diff.run_diff import CHANGES, KINDS, RunDiff
from foil.datasets_out.diff.word_diff import plain, shorten, word_diff
from foil.engine.visible_text import visible

_HEADS = {"only_in_a": "only in A", "only_in_b": "only in B", "changed": "changed"}
_EXCERPT = 300
_REASONS = 12
_DIGITS = 8
_IDS = (("topic", "topic_id"), ("intent", "intent_id"), ("passage", "passage_id"))


def diff_page(diff: RunDiff, names: tuple[str, str], examples: int, console: Console) -> Iterator[RenderableType]:
    """The whole comparison, with so many examples of each kind and change."""
    for letter, name in zip("AB", names, strict=True):
        yield Text(visible(f"{letter} is {name}, {diff.topics[letter.lower()]:,} topics"))
    yield Text(f"{diff.topics['both']:,} topics are in both, and {diff.topics['alike']:,} of them are the same\n")
    yield _counts(diff.counts)
    if reasons := diff.reasons():
        yield Text("\nOutcomes", style="bold")
        yield _reasons(reasons)
    for kind in KINDS:
        for change in CHANGES:
            rows = diff.examples(kind, change, examples)
            if rows:
                yield Text(f"\n{kind.capitalize()}s, {_HEADS[change]}: {diff.counts[kind][change]:,}", style="bold")
            for row in rows:
                yield from _example(row, console)


def _counts(counts: Mapping[str, Mapping[str, int]]) -> Table:
    table = Table(header_style="")
    table.add_column("")
    for change in CHANGES:
        table.add_column(_HEADS[change], justify="right")
    for kind in KINDS:
        table.add_row(f"{kind}s", *(f"{counts[kind][change]:,}" for change in CHANGES))
    return table


def _reasons(reasons: list[tuple[str, str, int]]) -> Table:
    table = Table(header_style="")
    for name in ("in A", "in B"):
        table.add_column(name, overflow="fold")
    table.add_column("topics", justify="right")
    for before, after, count in reasons[:_REASONS]:
        table.add_row(Text(visible(before)), Text(visible(after)), f"{count:,}")
    if more := reasons[_REASONS:]:
        table.add_row("others", "", f"{sum(count for *_, count in more):,}")
    return table


def _example(row: Mapping[str, Any], console: Console) -> Iterator[RenderableType]:
    seed = f"{row['corpus']}/{row['seed_id']}" if row["seed_id"] else ""
    parts = [f"{name} {row[key][:_DIGITS]}" for name, key in _IDS if row[key]]
    yield Text(visible(", ".join([*parts, *filter(None, (row["role"], seed))])), style="dim")
    if row["kind"] == "seed":
        return
    before, after = row["before"], row["after"]
    if row["kind"] == "instruction" and before and after:
        spans = word_diff(before, after)
    else:
        spans = plain(f"{before} -> {after}" if before and after else before or after)
    yield Padding(spans_text(shorten(spans, _EXCERPT), console), (0, 0, 0, 2))
