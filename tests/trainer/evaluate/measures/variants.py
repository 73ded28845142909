"""Queries in variants with made runs, for tests of measures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A query as a benchmark has it."""

    id: str
    core: str
    mode: str


def variants_of(core, *modes):
    """One query of each mode, with the id `core-mode`."""
    return [Variant(f"{core}-{mode}", core, mode) for mode in modes]


def list_with(places, length):
    """Scores that put each document of `places` at its rank in a list of that length; the other documents fill it."""
    documents = {rank: document for document, rank in places.items()}
    return {documents.get(rank, f"filler{rank}"): float(-rank) for rank in range(1, length + 1)}
