"""What lies between two snapshots of a run: partitions, topics by status and reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foil.datasets_out.commits.entries import CommittedFile, partition_of
from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """Files of the topics that only one has, rows by table (first, second), and topics by status and reason."""

    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    rows: Mapping[str, tuple[int, int]]
    outcomes: Mapping[str, tuple[int, int]]


def diff(first: Snapshot, second: Snapshot) -> SnapshotDiff:
    """Compares two snapshots; only the topic files that they do not share are opened."""
    files = [set(each.contents["topics"]) for each in (first, second)]
    only = [sorted(own - counterpart, key=lambda file: file.path) for own, counterpart in (files, files[::-1])]
    outcomes = [_outcomes(each, own) for each, own in zip((first, second), only, strict=True)]
    names = sorted(outcomes[0].keys() | outcomes[1].keys())
    paths = [tuple(file.path for file in own) for own in only]
    return SnapshotDiff(
        paths[0],
        paths[1],
        {table: (first.rows(table), second.rows(table)) for table in TABLES},
        {name: (outcomes[0][name], outcomes[1][name]) for name in names},
    )


def _outcomes(snapshot: Snapshot, files: Iterable[CommittedFile]) -> Counter[str]:
    parts, counts = dict(zip(snapshot.partitions, snapshot.parts("topics"), strict=True)), Counter[str]()
    for file in files:
        rows = parts[partition_of(file)].read(["status", "reason"]).to_pylist()
        counts.update(" ".join(filter(None, (row["status"], row["reason"]))) for row in rows)
    return counts
