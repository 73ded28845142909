"""A marimo notebook over the views of a run: plain Python, so that it is reviewed and kept like code.

It holds no text of the run. Whoever opens it needs the run's folder, and what `foil sql` needs.
"""

from pathlib import Path
from string import Template

from foil.datasets_out.sql.views import VIEWS

NOTEBOOK = "notebook.py"
_TEXT = Template(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
_CELL = """

@app.cell
def {name}(ask, mo):
    mo.vstack([mo.md({title!r}), mo.ui.table(ask({sql!r}))])
    return
"""
_CELLS = {
    "funnel": ("## Topics by status and reason",
               "SELECT status, reason, count(*) AS topics FROM topics GROUP BY ALL ORDER BY topics DESC"),
    "judges": ("## What each validator said",
               "SELECT validator, outcome, reason, count(*) AS verdicts FROM verdicts GROUP BY ALL ORDER BY ALL"),
    "contrasts": ("## Passages by role and label",
                  "SELECT role, relevance, count(*) FROM judgments NATURAL JOIN passages GROUP BY ALL ORDER BY ALL"),
    "cost": ("## Calls by model and template",
             "SELECT model, template, count(*) AS calls, sum(cost_usd) AS usd FROM calls GROUP BY ALL ORDER BY ALL"),
    "triplets": ("## Some triplets",
                 "SELECT instruction, query, positive, negative FROM triplets USING SAMPLE 20"),
    "audits": ("## What careful readers marked",
               "SELECT reader, label, mark, count(*) AS passages FROM audits GROUP BY ALL ORDER BY ALL"),
}  # fmt: skip


def notebook_text(out: Path, snapshot: str | None) -> str:
    """The notebook of a run or of a snapshot of it."""
    cells = "".join(_CELL.format(name=name, title=title, sql=sql) for name, (title, sql) in _CELLS.items())
    return _TEXT.substitute(out=repr(str(out.resolve())), snapshot=repr(snapshot), views=", ".join(VIEWS), cells=cells)
