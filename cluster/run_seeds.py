"""Topics of another run as seeds: what was accepted there is read in order, through its commits, never through a glob.

    out/ --load_snapshot(verified)--> topics --> Seed(d+ first, instruction negatives first, the instruction beside it)

The seed keeps the id of the seed behind the topic, so a held-out seed stays held out (a seed's further topics get `#2`,
`#3`, ...; what they share with a held-out one is protected by its texts). Price: the bytes are checked once; then one
partition is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from datasets_out.commits.snapshot import load_snapshot, read_accepted
from engine.settings import Settings
from engine.topic import Seed
from prompts.recipes.dual_view import seed_of


class RunSettings(Settings):
    """Which run, and which of its intents."""

    kind: Literal["run"] = "run"
    out: Path = Field(description="the `out` folder of the run whose topics are the seeds")
    snapshot: str | None = Field(default=None, description="a snapshot of it; without, what is committed now")

    def identity(self) -> dict[str, Any]:
        """The settings, and the digest of what they name: a run that went on in between is another corpus."""
        return {**self.model_dump(mode="json"), "digest": load_snapshot(self.out, self.snapshot).digest}


class RunReader:
    """An engine.protocols.SeedReader. A topic without an instructed intent is a seed without an instruction.

    A plain row is no seed.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self.skipped = 0

    def __iter__(self) -> Iterator[Seed]:
        snapshot = load_snapshot(self._settings.out, self._settings.snapshot, verify=True)
        seen: Counter[str] = Counter()
        for topic in (one for one in read_accepted(snapshot) if one.intents):
            seed = seed_of(topic)
            seen[seed.id] += 1
            yield replace(seed, id=f"{seed.id}#{seen[seed.id]}") if seen[seed.id] > 1 else seed
