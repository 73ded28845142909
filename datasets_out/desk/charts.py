"""Charts as static SVG in a page: no script, no style attribute, so that the strictest policy of a browser shows them.

    rows -> Vega-Lite specification -> vl-convert -> SVG text, coloured by the variables of desk.css

The colours are `var(--...)`, so one drawing serves light and dark pages. Each chart stands above the table that it is
drawn from; a screen reader speaks its description, and reads the table.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from foil.engine.visible_text import visible

Rows = Sequence[Mapping[str, Any]]
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
_MOST_BARS = 24
_MOST_CHARS = 30
_WIDTH = 720
_CONFIG = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def bar_chart(rows: Rows, category: str, value: str, *, series: str = "", stacked: bool = True, title: str = "") -> str:
    """Horizontal bars of the first 24 categories, in the order of the rows; "" where nothing is above zero."""
    first_rows = _first_categories(rows, category)
    if not any(row[value] for row in first_rows):
        return ""
    encoding: dict[str, Any] = {
        "y": {"field": "label", "type": "nominal", "sort": None, "title": None},
        "x": {"field": "value", "type": "quantitative", "title": title or value, "axis": _axis(first_rows, value)},
        "color": {"value": SERIES[0]},
    }
    if series:
        names = list(dict.fromkeys(str(row[series]) for row in first_rows))
        scale = {
            "domain": [_short(name) for name in names],
            "range": [SERIES[n % len(SERIES)] for n in range(len(names))],
        }
        encoding["color"] = {"field": "series", "type": "nominal", "scale": scale, "sort": None}
        if not stacked:
            encoding["yOffset"] = {"field": "series", "sort": None}
    labels = _labels(first_rows, category)
    data = [
        {"label": labels[str(row[category])], "value": row[value] or 0, "series": _short(row[series]) if series else ""}
        for row in first_rows
    ]
    step = {"step": 13 if series and not stacked else 22}
    return _draw({"mark": {"type": "bar"}, "height": step, "encoding": encoding}, data)


def interval_chart(rows: Rows, category: str, value: str, low: str, high: str, *, title: str = "") -> str:
    """A point with its interval for each of the first 24 categories; rows without a value are left out."""
    first_rows = [row for row in _first_categories(rows, category) if row[value] is not None]
    if not first_rows:
        return ""
    labels = _labels(first_rows, category)
    data = [
        {"label": labels[str(row[category])], "value": row[value], "low": row[low], "high": row[high]}
        for row in first_rows
    ]
    y = {"field": "label", "type": "nominal", "sort": None, "title": None}
    x = {"type": "quantitative", "title": title or value, "axis": {"tickCount": 5}}
    layers = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": {"value": SERIES[0]}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {"y": y, "x": {"field": "value", **x}, "color": {"value": SERIES[0]}},
        },
    ]
    return _draw({"height": {"step": 22}, "layer": layers}, data)


def _draw(spec: Mapping[str, Any], data: Sequence[Mapping[str, Any]]) -> str:
    whole = {"width": _WIDTH, "data": {"values": list(data)}, "config": _CONFIG, **spec}
    svg: str = vl_convert.vegalite_to_svg(whole, vl_version=vl_convert.get_vegalite_versions()[-1])
    return svg


def _axis(rows: Rows, value: str) -> dict[str, Any]:
    """Few ticks, and between whole numbers none."""
    whole = all(isinstance(row[value], int) for row in rows if row[value] is not None)
    return {"tickCount": 5, **({"tickMinStep": 1} if whole else {})}


def _first_categories(rows: Rows, category: str) -> list[Mapping[str, Any]]:
    names = list(dict.fromkeys(str(row[category]) for row in rows))[:_MOST_BARS]
    return [row for row in rows if str(row[category]) in names]


def _short(name: Any) -> str:
    """A name of at most 30 characters. Of a longer one its middle goes, since names begin and end differently."""
    text = visible(" ".join(str(name).split())) or "(none)"  # a control character would end the process
    half = _MOST_CHARS // 2
    return text if len(text) <= _MOST_CHARS else f"{text[: half - 1]}…{text[-half:]}"


def _labels(rows: Rows, category: str) -> dict[str, str]:
    """Category to its label; those whose short names are equal get a number."""
    labels: dict[str, str] = {}
    for name in dict.fromkeys(str(row[category]) for row in rows):
        short, used = _short(name), set(labels.values())
        places = (f"{short} ({number})" for number in range(2, len(used) + 3))
        labels[name] = short if short not in used else next(label for label in places if label not in used)
    return labels
