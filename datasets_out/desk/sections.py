"""The tables of a report that are one query each: what is counted, its SQL, and how it is drawn.

    SECTIONS -> ask(sql) -> ReportTable: title, words, columns, rows, chart, and the SQL that anyone may run again

Promise: each number of such a table is what `foil sql OUT "SQL"` answers; nothing is computed afterwards.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Row = Mapping[str, Any]
Ask = Callable[[str], list[dict[str, Any]]]
"""SQL to its rows."""


@dataclass(frozen=True, slots=True)
class Charts:
    """What draws: passed in, so that a page without charts loads no library for them."""

    bars: Callable[..., str]
    intervals: Callable[..., str]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A question to a run. `empty`: what is said where there is no row; `draw`: rows to SVG text, or ""."""

    id: str
    title: str
    words: str
    sql: str
    draw: Callable[[Charts, Sequence[Row]], str] | None = None
    empty: str = "Nothing of this kind is in the run."


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a page. `sql` is "" where no query answers it; `other_rows` are the same columns of the other run."""

    id: str
    title: str
    words: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    sql: str = ""
    chart: str = ""
    empty: str = ""
    other_rows: Sequence[Row] | None = None


def read_section(section: ReportSection, ask: Ask, ask_other: Ask | None, charts: Charts) -> ReportTable:
    """The answer for a run, and for another run that it is compared with."""
    rows = ask(section.sql)
    chart = section.draw(charts, rows) if section.draw and rows else ""
    other_rows = ask_other(section.sql) if ask_other else None
    columns = tuple(rows[0]) if rows else tuple(other_rows[0]) if other_rows else ()
    return ReportTable(
        section.id, section.title, section.words, columns, rows, section.sql.strip(), chart, section.empty, other_rows
    )


_SHARED = {
    "CALLS": "SELECT DISTINCT ON (partition, request_id) * FROM calls ORDER BY partition, request_id, topic_id",
    "WORDS": r"len(string_split_regex(trim(i.instruction), '\s+'))",
    "INSTRUCTED": "FROM intents i JOIN topics t USING (partition, topic_id) "
    "WHERE t.status = 'accepted' AND i.instruction <> ''",
}
_ENTRIES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
for _entry in _ENTRIES.values():
    of_words = re.sub(
        r"WORDS_OF\((.+?)\)", r"list_distinct(regexp_extract_all(lower(\1), '[\\pL\\pN]{3,}'))", _entry["sql"]
    )
    _entry["sql"] = re.sub("|".join(_SHARED), lambda name: _SHARED[name[0]], of_words)
RUN, FUNNEL, REASONS, SHORTCUTS = (_ENTRIES[_id]["sql"] for _id in ("run", "funnel", "reasons", "shortcuts"))


def _draw_funnel(charts: Charts, rows: Sequence[Row]) -> str:
    data = [
        {"source": f"{row['corpus']} {row['recipe']}", "topics": row[status], "status": status}
        for row in rows
        for status in ("accepted", "rejected", "failed")
    ]
    return charts.bars(data, "source", "topics", series="status")


def _draw_reasons(charts: Charts, rows: Sequence[Row]) -> str:
    data = [{**row, "source": f"{row['corpus']} {row['recipe']}"} for row in rows]
    several = len({row["source"] for row in data}) > 1
    return charts.bars(data, "reason", "topics", series="source" if several else "")


def _draw_cost(charts: Charts, rows: Sequence[Row]) -> str:
    if any(row["cost_usd"] for row in rows):
        return charts.bars(rows, "task", "cost_usd", series="model", title="US dollars")
    data = [
        {"task": row["task"], "tokens": row[f"{kind}_tokens"], "kind": kind}
        for row in rows
        for kind in ("prompt", "completion")
    ]
    return charts.bars(data, "task", "tokens", series="kind")


def _draw_published(charts: Charts, rows: Sequence[Row]) -> str:
    data = [
        {"cell": f"{row['category']}: {row['name']}", "words": row[column], "who": origin}
        for row in rows
        for origin, column in (("this run", "mean_words"), ("Promptriever", "published_mean"))
    ]
    return charts.bars(data, "cell", "words", series="who", stacked=False, title="mean words")


def _draw_labels(charts: Charts, rows: Sequence[Row]) -> str:
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        for label in ("relevant", "not_relevant"):
            sums[row["intent"], label] = sums.get((row["intent"], label), 0) + row[label]
    data = [{"intent": intent, "label": label.replace("_", " "), "judgments": n} for (intent, label), n in sums.items()]
    return charts.bars(data, "intent", "judgments", series="label")


def _draw_shortcuts(charts: Charts, rows: Sequence[Row]) -> str:
    several = len({row["recipe"] for row in rows}) > 1
    data = [{**row, "of": f"{row['recipe']}: {row['clue']}" if several else row["clue"]} for row in rows]
    return charts.intervals(data, "of", "share", "low_share", "high_share", title="is the relevant one")


_DRAW: Mapping[str, Callable[[Charts, Sequence[Row]], str]] = {
    "funnel": _draw_funnel,
    "reasons": _draw_reasons,
    "cost": _draw_cost,
    "published": _draw_published,
    "constraints": lambda charts, rows: charts.bars(rows, "family", "instructions"),
    "dimensions": lambda charts, rows: charts.bars(rows, "dimension", "instructions", series="role"),
    "labels": _draw_labels,
    "shortcuts": _draw_shortcuts,
}
SECTIONS = tuple(
    ReportSection(section_id, draw=_DRAW.get(section_id), **entry)
    for section_id, entry in _ENTRIES.items()
    if section_id != "run"
)
"""The questions of a report, in the order of its page."""
