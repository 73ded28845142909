"""Writes docs/reasons.md from the table of reasons itself (engine/reasons.yaml).

python scripts/reasons_page.py            # writes it
python scripts/reasons_page.py --print    # shows it
"""

import sys
from pathlib import Path

from foil.engine.reasons import reason_entries

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reasons.md"
HEAD = """# Why a topic was not accepted

Written by `python scripts/reasons_page.py` from `engine/reasons.yaml`; `foil reasons` prints the same. A reason stands
in the column `reason` of the views `topics` and `verdicts`, in `calls.fault`, or in a topic's attribute `marks`.
`foil show OUT --reason REASON` shows topics that met one, `foil why OUT ID` one of them from its seed on, and
`foil try JOB --set KEY=VALUE` what another setting brings. Own recipes and checks, and `foil drop`, may give others.

| reason | means | decided by | what to change | example |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    cells = [(f"`{e.name}`", e.meaning, e.who, e.mend, e.example) for e in reason_entries().values()]
    return HEAD + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in cells)


if __name__ == "__main__":
    if "--print" in sys.argv[1:]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page())
