"""Several corpora as one stream of seeds: `seeds` of a job as a list.

    reader, reader, ... --one seed of each in turn--> seeds, each id after the name of its corpus

A corpus that has ended leaves the turns to the others, so every prefix of the stream is as even as the corpora allow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import SerializeAsAny

from foil.engine.protocols import DivisibleReader, SeedReader, Sketch
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.settings import Settings
from foil.engine.topic import PackedSeed, Seed


class MixedSettings(Settings):
    """The settings of each corpus, in the order of the job file."""

    of: tuple[SerializeAsAny[Settings], ...]

    def asks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(role for settings in self.of for role in settings.asks()))

    def identity(self) -> dict[str, Any]:
        """The identities of all, in their order: another order is another stream."""
        return {"of": [settings.identity() for settings in self.of]}


class MixedReader:
    """A SeedReader over others. Two corpora need two names, or their ids may collide and the run refuses them."""

    def __init__(self, readers: Sequence[SeedReader]) -> None:
        self._readers = readers

    @property
    def ledger(self) -> Ledger:
        ledger = Ledger()
        for reader in self._readers:
            ledger.add(reader.ledger)
        return ledger

    def in_parallel(self, processes: int, sketches: Sequence[Sketch]) -> "MixedReader":
        """The same stream; each corpus that several processes can read has so many of them."""
        return MixedReader(
            [r.in_parallel(processes, sketches) if isinstance(r, DivisibleReader) else r for r in self._readers]
        )

    def __iter__(self) -> Iterator[Seed]:
        streams = [iter(reader) for reader in self._readers]
        while streams:
            for stream in tuple(streams):
                seed = next(stream, None)
                if seed is None:
                    streams.remove(stream)
                else:
                    whole = seed.unpack() if isinstance(seed, PackedSeed) else seed  # its id changes
                    yield replace(whole, id=f"{seed.corpus}/{seed.id}")
