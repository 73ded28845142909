"""Pages as text: templates filled such that no text of a corpus, a model or a person can be anything but text.

    values -> visible characters -> escaped -> HTML under a Content-Security-Policy that allows nothing from elsewhere

Promise: whatever a text holds, it is shown and not obeyed: markup is escaped, and control characters, marks of
direction and signs without width are written as `\\x1b` or `\\u202e`. A page that stands alone has no script at all,
and its one style sheet is allowed by its hash.
"""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from foil.datasets_out.lineage.evidence_words import evidence_words
from foil.engine.visible_text import visible

_FOLDER = Path(__file__).parent
STATIC = _FOLDER / "static"
MOST_CELL_CHARACTERS = 400
_LONG_CELL = 40
_SHARE, _FINE = ".1%", ",.4f"
NUMBER_FORMATS: dict[str, str] = {
    **dict.fromkeys(("share", "share_of_lost", "share_of_item", "accepted_share", "relevant_share"), _SHARE),
    **dict.fromkeys(("edited_share", "low_share", "high_share", "expected_share", "repeated_share"), _SHARE),
    **dict.fromkeys(("allowed_share", "agreed", "distinct", "distinct_trigrams"), _SHARE),
    **dict.fromkeys(("kappa", "low", "high", "APS_by_words", "APS_by_meaning"), _FINE),
}
"""How the fractions of a column are written, by its whole name; of any other column with two digits."""
_DOLLARS = ("cost_usd", "usd_per_accepted")


@cache
def environment() -> Environment:
    """The templates, with escaping always on; an unknown name in a template is an error."""
    templates = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (cell, column_words, number_columns, is_long, drawn, dots, evidence_words):
        templates.filters[each.__name__] = each
    return templates


def render(template: str, **values: Any) -> str:
    """A page of a template. It never holds a character that UTF-8 cannot."""
    return environment().get_template(template).render(values)


def lone_page(template: str, **values: Any) -> str:
    """A page that stands alone in a file: its style inside, no script, nothing loaded from anywhere."""
    style = (STATIC / "desk.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return render(template, style=drawn(style), policy=policy, **values)


def drawn(text: str) -> Markup:
    """A style of ours, or an SVG that `charts` drew, as markup: what stands outside of it stays escaped."""
    return Markup(text)  # noqa: S704 - vl-convert escapes the labels in it


def dots(points: pa.Table, numbers: Sequence[int], number: int, width: int = 1000, height: int = 620) -> str:
    """The points of one group as the data of an SVG path: a dot is a line of no length with round ends."""
    rows = zip(numbers, points["x"].to_pylist(), points["y"].to_pylist(), strict=True)
    return "".join(f"M{x * width:.0f} {(1 - y) * height:.0f}h0" for each, x, y in rows if each == number)


def column_words(name: str) -> str:
    """A column's name as words."""
    return name.replace("_", " ").replace("usd", "US$")


def number_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> set[str]:
    """The columns that are aligned to the right: some row has a number there."""
    return {name for name in columns if any(type(row[name]) in {int, float} for row in rows)}


def is_long(value: Any) -> bool:
    """Whether a cell's text is broken into lines."""
    return isinstance(value, str) and len(value) > _LONG_CELL


def cell(value: Any, column: str = "") -> str:
    """A value as a table shows it; a fraction as NUMBER_FORMATS has its column."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) and column in _DOLLARS:
        return _dollars(value)
    if isinstance(value, float):
        return format(value, NUMBER_FORMATS.get(column, ",.2f"))
    text = str(value)
    return text if len(text) <= MOST_CELL_CHARACTERS else f"{text[:MOST_CELL_CHARACTERS]}… ({len(text):,} characters)"


def _dollars(value: float) -> str:
    """US dollars with two digits or more: as many as show three digits of a small amount."""
    digits = 2 if abs(value) >= 1 or not value else 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(digits, 12)}f}"


def _finalize(value: Any) -> Any:
    """What each expression of a template becomes before it is escaped."""
    if value is None:
        return ""
    return visible(value) if type(value) is str else value
