"""Topics of another run as seeds: its accepted topics in order, through its commits.

    out/ --load_snapshot(verified)--> topics --> Seed(d+ first, instruction negatives first, the instruction with it)

A seed keeps the id of the seed behind the topic, so a held-out seed stays held out. The further topics of one seed get
`#2`, `#3`, ...; the trainer compares texts, so they cannot leak either. All bytes are checked once; then one partition
is in memory.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted
from foil.engine.seeds.corpus import no_seeds_error
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.settings import Settings
from foil.engine.topic import Seed
from foil.prompts.recipes.dual_view import seed_of


class RunSettings(Settings):
    """Which run, and which of its intents."""

    kind: Literal["run"] = "run"
    out: Path = Field(description="the `out` folder of the run whose topics are the seeds")
    snapshot: str | None = Field(default=None, description="a snapshot of it; without, what is committed now")

    def identity(self) -> dict[str, Any]:
        """The settings and the digest of the rows they name: a run that grew is another corpus."""
        return {**self.model_dump(mode="json"), "digest": load_snapshot(self.out, self.snapshot).digest}


class RunReader:
    """A SeedReader. A topic without an instructed intent gives a seed without an instruction, a plain row no seed."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self.ledger = Ledger()

    def __iter__(self) -> Iterator[Seed]:
        snapshot = load_snapshot(self._settings.out, self._settings.snapshot, verify=True)
        topics_of: Counter[str] = Counter()
        for topic in read_accepted(snapshot):
            if not topic.intents:
                continue
            seed = seed_of(topic)
            topics_of[seed.id] += 1
            yield replace(seed, id=f"{seed.id}#{topics_of[seed.id]}") if topics_of[seed.id] > 1 else seed
        if not topics_of:
            raise no_seeds_error(self._settings, Ledger())
