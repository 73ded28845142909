"""Charts: what is drawn is in the SVG, hostile names do no harm, nothing in it needs a looser policy."""

import re
from xml.etree import ElementTree as ET

from foil.datasets_out.desk.charts import bar_chart, interval_chart

HOSTILE = "<script>\x00\x1b\ufffe\u202e</svg>"


def labels(svg):
    return [node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_bars_have_their_categories_and_series_and_no_style_or_script():
    rows = [{"reason": "leak", "n": 3, "who": "a"}, {"reason": "shape", "n": 1, "who": "b"}]
    svg = bar_chart(rows, "reason", "n", series="who")
    assert {"leak", "shape", "a", "b"} <= set(labels(svg))
    assert "style=" not in svg
    assert "<script" not in svg
    assert "var(--series-1)" in svg


def test_hostile_names_are_shown_as_text():
    svg = bar_chart([{"name": HOSTILE, "n": 2}], "name", "n")
    assert any(label.startswith("<script>") and "…" in label for label in labels(svg))
    assert not re.search("[\x00-\x08\x1b\u202e\ufffe]", svg)


def test_long_names_stay_apart():
    names = [f"judge_relevance by judge and {other} by judge" for other in ("labels of the topics", "judge_scenarios")]
    same = [f"{'x' * 20}{n}{'x' * 20}" for n in range(3)]
    svg = bar_chart([{"name": name, "n": 1} for name in [*names, *same]], "name", "n")
    assert len([label for label in set(labels(svg)) if "…" in label]) == 5


def test_nothing_to_draw_is_no_chart():
    assert bar_chart([], "a", "n") == bar_chart([{"a": "x", "n": 0}], "a", "n") == ""
    assert interval_chart([{"a": "x", "k": None, "low": None, "high": None}], "a", "k", "low", "high") == ""


def test_intervals_are_drawn_for_rows_with_a_value():
    rows = [{"a": "x", "k": 0.5, "low": 0.2, "high": 0.7}, {"a": "y", "k": None, "low": None, "high": None}]
    svg = interval_chart(rows, "a", "k", "low", "high")
    assert "x" in labels(svg)
    assert "y" not in labels(svg)
