"""Checks after every crash drill whether the dataset is what the guarantees say, given what the drill did."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foil.datasets_out.commits.entries import CommitEntry
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions
from foil.datasets_out.commits.verify import verify
from foil.engine.topic import Topic


@dataclass(frozen=True)
class History:
    """What a drill did. `planned`: every seed id of the job. `acked`: partitions whose commit returned.

    `finished`: a run has ended by itself, so that everything planned must be there. `expected`: the topics that an
    entry must hold, where the drill knows them.
    """

    planned: Collection[str]
    acked: Collection[int] = ()
    finished: bool = False
    expected: Callable[[CommitEntry], Sequence[Topic]] | None = None


@dataclass
class Violations:
    """What is wrong; a drill passes if it equals `Violations()`.

    `lost`: planned or acknowledged, and not there. `doubled`: there twice, for a reader of entries or of a plain glob.
    `silent`: there, but not what was committed.
    """

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)


def check(history: History, dataset: Path) -> Violations:
    """Reads the whole dataset as a reader would, through its entries, and holds it against the history."""
    entries = CommitLog(dataset).entries()
    committed = {entry.partition for entry in entries}
    snapshot = load_snapshot(dataset, None) if entries else None
    topics = dict(zip(sorted(committed), read_partitions(snapshot), strict=True)) if snapshot else {}
    seeds = Counter(seed for group in topics.values() for seed in {topic.seed_id for topic in group})
    ids = Counter(topic.id for group in topics.values() for topic in group)
    violations = Violations()
    violations.lost += [f"partition {p} was acknowledged" for p in sorted(set(history.acked) - committed)]
    if history.finished:
        violations.lost += [f"seed {seed} was planned" for seed in sorted(set(history.planned) - set(seeds))]
        violations.doubled += _visible_to_a_glob(dataset, entries)
    violations.doubled += [f"seed {seed} is in {n} partitions" for seed, n in seeds.items() if n > 1]
    violations.doubled += [f"topic {topic} is there {n} times" for topic, n in ids.items() if n > 1]
    violations.silent += [f"seed {seed} was never planned" for seed in sorted(set(seeds) - set(history.planned))]
    violations.silent += [f"{finding.path}: {finding.kind}" for finding in verify(dataset) if not finding.harmless]
    for entry in entries:
        violations.silent += _wrong_content(entry, topics[entry.partition], history)
    return violations


def _wrong_content(entry: CommitEntry, topics: list[Topic], history: History) -> list[str]:
    violations = []
    if len(topics) != entry.files["topics"].rows or len(topics) != sum(entry.counts.topics.values()):
        violations.append(f"partition {entry.partition} counts {entry.counts.topics}, and holds {len(topics)} topics")
    if len({topic.seed_id for topic in topics}) != sum(entry.counts.seeds.values()):
        violations.append(f"partition {entry.partition} counts {entry.counts.seeds} seeds, and holds others")
    if history.expected is not None and topics != list(history.expected(entry)):
        violations.append(f"partition {entry.partition} holds other topics than were committed")
    return violations


def _visible_to_a_glob(dataset: Path, entries: Sequence[CommitEntry]) -> list[str]:
    """A curator's plain glob over a finished run sees the committed files and no other.

    Packs aside: until `foil gc` has freed what they replaced, and what a killed packing left, a glob sees rows twice.
    """
    named = {file.path for entry in entries for file in entry.files.values()}
    there = [name for name in CommitLog(dataset).files.names("data") if "/part-" in name]
    return [f"{name} is there and not committed" for name in there if name not in named]
