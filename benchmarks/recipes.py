"""What a seed and a topic of the recipe `verifiable` cost, which asks no model: CPU ms, the recipe alone.

Seeds are read first and stay out of the figures, and so do validators, journal and commits (`benchmarks/machine.py` has
those). One process, one seed after the other. Another checkout's figures: run this file with its folder as PYTHONPATH.

    .venv/bin/python -m benchmarks.recipes [--seeds 300] [--rows ROWS] [--quick] [--json]

`--rows` are rows of MS MARCO; without them the python_docs seeds alone are measured.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from foil.engine.errors import Rejected
from foil.engine.seeds.msmarco import MsmarcoSettings, msmarco_reader
from foil.engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings
from foil.engine.topic import Seed
from foil.prompts.recipes.verifiable import Verifiable, VerifiableSettings


def measure(seeds: Sequence[Seed]) -> dict[str, Any]:
    """How many topics the seeds made, and at what CPU."""
    recipe: Any = Verifiable(VerifiableSettings())
    topics = 0
    started = time.process_time()
    for seed in seeds:
        try:
            topics += len(asyncio.run(recipe(seed, None)))
        except Rejected:
            continue
    seconds = time.process_time() - started
    return {"topics": topics, "ms_a_seed": 1000 * seconds / len(seeds), "ms_a_topic": 1000 * seconds / max(1, topics)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--rows", type=Path, help="rows of MS MARCO")
    parser.add_argument("--quick", action="store_true", help="40 seeds of the standard library")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    count = 40 if told.quick else told.seeds
    docs = PythonDocsSettings(libraries=("stdlib",)) if told.quick else PythonDocsSettings()
    corpora = {"python_docs": list(islice(PythonDocsReader(docs), count))}
    if told.rows:
        corpora["msmarco"] = list(islice(msmarco_reader(MsmarcoSettings(path=told.rows)), count))
    rows: list[dict[str, Any]] = [{"corpus": c, "seeds": len(s), **measure(s)} for c, s in corpora.items()]
    if told.json:
        print(json.dumps(rows))
        return
    table = Table("corpus", "seeds", "topics", "CPU ms a seed", "CPU ms a topic")
    for row in rows:
        numbers = (f"{row[name]:.2f}" for name in ("ms_a_seed", "ms_a_topic"))
        table.add_row(row["corpus"], str(row["seeds"]), str(row["topics"]), *numbers)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
