"""Where a release is pushed to: what of it is there, and sending the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release: its name, where it lies, its bytes and its sha256."""

    name: str
    path: Path
    bytes: int
    sha256: str


class PushTarget(Protocol):
    """A repository or a prefix of a bucket."""

    def present(self, files: Sequence[ReleaseFile]) -> set[str]:
        """The names of those that are there with this very content."""
        ...

    def send(self, files: Sequence[ReleaseFile]) -> None:
        """Sends these files; those before an error are there."""
        ...
