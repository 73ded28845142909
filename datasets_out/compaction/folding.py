"""Takes entries of many partitions together into a new version of the log, and removes the files that they had.

    commits/*.json beyond the newest version -> manifest-SHA, facts-SHA -> versions/N+1 -> those commits/*.json go

Promise: whoever dies when, and however many fold at once, the committed set and its entries stay what they are. An
entry goes only once a version that holds it is durable, and its files are there. Whoever comes second with a version
goes on from the first one's. Price: an entry is read once and written once or twice.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from foil.datasets_out.commits.entries import ENTRY_NAME, CommitEntry
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.versions import FOLDER, Manifest, Version, added, encode_manifest, first_version
from foil.engine.crash_points import crash_point
from foil.engine.errors import CorruptDataError

MANIFEST_PARTITIONS = 4096
_STEP = 2 * MANIFEST_PARTITIONS
"""Entries that one version takes in, so that they fit in memory."""
_DELETED_AT_ONCE = 1000


def fold(log: CommitLog, at_least: int = 1) -> Version | None:
    """Takes in all entries that no version holds yet, where there are so many; returns the newest version.

    Raises CommitError where the storage fails, CorruptDataError for an entry or a version that is damaged.
    """
    version, tail = log.extent()
    if len(tail) >= max(1, at_least):
        while tail:
            _fold_some(log, version or first_version(log.fingerprint()), tail[:_STEP])
            version, tail = log.extent()
    remove_folded(log)  # those of a fold that was cut short too
    return version


def _fold_some(log: CommitLog, base: Version, tail: Sequence[int]) -> None:
    """Puts a version with the entries of `tail`, unless another took its number."""
    entries = log.read_files(tail)  # should others fold them meanwhile, they take this version's number
    manifests, blobs = _manifests(log, base, entries)
    crash_point("fold.read")
    for name, blob in blobs.items():
        log.files.put_content(name, blob)
    crash_point("fold.placed")
    log.put_version(added(base, entries, manifests))
    crash_point("fold.entered")


def _manifests(
    log: CommitLog, base: Version, entries: Sequence[CommitEntry]
) -> tuple[list[Manifest], dict[str, bytes]]:
    """All manifests of the next version, and the bytes of those that are new: small ones are merged."""
    manifests = [manifest for manifest in base.manifests if len(manifest.partitions) >= MANIFEST_PARTITIONS]
    small = (manifest for manifest in base.manifests if len(manifest.partitions) < MANIFEST_PARTITIONS)
    before = [log.folded_entry(base, partition) for manifest in small for partition in manifest.partitions]
    rest = iter(sorted([*before, *entries], key=lambda entry: entry.partition))
    blobs: dict[str, bytes] = {}
    while part := list(islice(rest, MANIFEST_PARTITIONS)):
        manifest, files = encode_manifest(part)
        manifests.append(manifest)
        blobs |= files
    return manifests, blobs


def remove_folded(log: CommitLog) -> None:
    """Removes the files of entries that the newest version holds, once it is sure that it holds them."""
    names = [name for name in log.files.names("commits") if ENTRY_NAME.fullmatch(name)]
    version = log.version()
    folded = [name for name in names if version and int(name[-13:-5]) in version.partitions]
    if version is None or not folded:
        return
    log.put_version(version)  # seen is not durable yet
    there = set(log.files.names(FOLDER))
    for file in (file for manifest in version.manifests for file in (manifest.entries, manifest.facts)):
        if file.path not in there:
            raise CorruptDataError(
                f"{log.out / file.path} is missing, and version {version.number} of the log names it; no entry was "
                "removed; restore the file from a copy"
            )
    for part in _parts(iter(folded)):
        log.files.delete(part)
        crash_point("fold.removed")


def _parts(names: Iterator[str]) -> Iterator[list[str]]:
    while part := list(islice(names, _DELETED_AT_ONCE)):
        yield part
