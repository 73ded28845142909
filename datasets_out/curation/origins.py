"""Which runs the topics of a run came from: `sources.json`, for whoever follows a topic back to the run that made it.

Each source is a folder with the digest and fingerprint that it had. The document is put once and is no part of the
run's identity: the same change of a run that was moved is the same run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import Snapshot, take_snapshot
from foil.engine.ids import canonical_json, sha256_hex

SOURCES = "sources.json"


@dataclass(frozen=True, slots=True)
class RunSource:
    """A run that topics came from: its folder as it was named, the digest of the snapshot and its fingerprint."""

    out: str
    digest: str
    fingerprint: str


def open_derived(into: Path, job: Mapping[str, Any], sources: Sequence[Snapshot]) -> CommitLog:
    """The log of a run that is made of others: opened, and it says where its topics came from."""
    log = CommitLog(into)
    log.open(sha256_hex(canonical_json(job))[:32], job)
    put_sources(log, sources)
    return log


def end_derived(log: CommitLog, name: str) -> Snapshot:
    """The snapshot of such a run, once all of its partitions are committed."""
    sums = log.sums()
    log.put_plan({"seeds": sums.counts.seeds.total(), "partitions": sums.partitions})
    return take_snapshot(log.out, name)


def put_sources(log: CommitLog, sources: Iterable[Snapshot]) -> None:
    """Writes the document unless it is there."""
    runs = [RunSource(str(s.out.resolve()), s.digest, CommitLog(s.out).fingerprint()) for s in sources]
    log.files.put_sealed(SOURCES, {"sources": [asdict(source) for source in runs]})


def read_sources(out: Path) -> Sequence[RunSource]:
    """The sources of a run; none where it was made of seeds. Raises CorruptDataError for a changed document."""
    body = CommitLog(out).files.read_sealed(SOURCES)
    return [RunSource(**source) for source in body["sources"]] if body else []
