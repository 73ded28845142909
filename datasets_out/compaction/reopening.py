"""Takes the partitions with failed rows out of the log, so that the run makes them anew and asks those rows again.

    all entries -> version N (fold) -> snapshot before-retry-1 -> version N+1: without the partitions that hold failures

From then on the run is one that is not complete: whoever runs it makes these partitions, from the replies in the
journal where a row did not fail by them, and commits each once more. Promise: version N+1 is one file, so whoever dies
when, the failed rows are asked again once or not at all; the old rows stay in version N, which the snapshot keeps.
Price: a fold, one look at the rows of each partition that is reopened, and each pack that held one is made anew.
"""

from collections.abc import Iterator
from pathlib import Path

from foil.datasets_out.commits.entries import CommitEntry, entry_name
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import take_snapshot
from foil.datasets_out.commits.versions import Manifest, PartitionRanges, Version, encode_manifest, without
from foil.datasets_out.compaction.folding import fold
from foil.datasets_out.compaction.packing import packs_without
from foil.engine.crash_points import crash_point
from foil.engine.errors import UsageError
from foil.engine.flow.journal_reading import JournalIndex


def reopen_failed(out: Path) -> int:
    """How many partitions are to be made anew now; none are reopened while some of the last time are still to be made.

    Raises UsageError where that cannot be done without paying a reply twice.
    """
    log = CommitLog(out)
    version = fold(log)
    if version is None or _is_pending(version):
        return 0
    entries = [log.folded_entry(version, partition) for partition in version.partitions]
    failed = PartitionRanges.of(entry.partition for entry in entries if entry.counts.seeds["failed"])
    if not len(failed):
        return 0
    _check(out, log, version, failed)
    crash_point("reopen.folded")
    take_snapshot(out, f"before-retry-{len(version.reopened) + 1}")
    crash_point("reopen.kept")
    staying = [entry for entry in entries if entry.partition not in failed]
    manifests = list(_manifests(log, version, failed, staying))
    packs = list(packs_without(log, version, failed))
    crash_point("reopen.placed")
    log.put_version(without(version, failed, staying, manifests, packs))
    crash_point("reopen.entered")
    return len(failed)


def _is_pending(version: Version) -> bool:
    """Whether partitions that were reopened last are not all committed again."""
    return any(partition not in version.partitions for _, last in version.reopened[-1:] for partition in last)


def _manifests(
    log: CommitLog, version: Version, failed: PartitionRanges, staying: list[CommitEntry]
) -> Iterator[Manifest]:
    """The manifests without the failed partitions; those that are new are put."""
    for manifest in version.manifests:
        rest = manifest.partitions.without(failed)
        if len(rest) == len(manifest.partitions):
            yield manifest
        elif len(rest):
            new, files = encode_manifest([entry for entry in staying if entry.partition in rest])
            for name, blob in files.items():
                log.files.put_content(name, blob)
            yield new


def _check(out: Path, log: CommitLog, version: Version, failed: PartitionRanges) -> None:
    """Raises UsageError for partitions whose replies are gone from the journal."""
    if standing := [name for name in map(entry_name, failed) if name in set(log.files.names("commits"))]:
        raise UsageError(f"{standing[0]} of {out} stands though version {version.number} holds it; run again")
    journal = JournalIndex(log.store)
    journal.look()
    for partition in failed:
        topics = log.topics_of(log.folded_entry(version, partition), version)
        request_ids = {call.request_id for topic in topics for call in topic.calls}
        if missing := request_ids - journal.stored(partition).keys():
            raise UsageError(
                f"{len(missing)} replies of partition {partition} of {out} are not in its journal any more "
                "(`foil gc`), and would be paid for again; run the job into another `out`"
            )
