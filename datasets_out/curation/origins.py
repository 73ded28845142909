"""Which runs the topics of a run came from: `sources.json`, for whoever follows a topic back to the run that made it.

Each source is a folder with the digest and fingerprint that it had. The document is put once and is no part of the
run's identity: the same change of a run that was moved is the same run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import Snapshot

SOURCES = "sources.json"


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run that topics came from: its folder as it was named, the digest of the snapshot and its fingerprint."""

    out: str
    digest: str
    fingerprint: str


def put_sources(log: CommitLog, sources: Iterable[Snapshot]) -> None:
    """Writes the document unless it is there."""
    told = [RunSource(str(s.out.resolve()), s.digest, CommitLog(s.out).fingerprint()) for s in sources]
    log.put_sealed(SOURCES, {"sources": [asdict(source) for source in told]})


def read_sources(out: Path) -> Sequence[RunSource]:
    """The sources of a run; none where it was made of seeds. Raises CorruptDataError for a changed document."""
    body = CommitLog(out).read_sealed(SOURCES)
    return [RunSource(**source) for source in body["sources"]] if body else []
