"""Pushes a release to a hub or a bucket, so that an interrupted push goes on where it ended.

    unchanged release, its rights looked at -> what is not there yet, data first -> checksums and signature last

Promise: nothing is sent of a changed folder, nor of one whose texts may not be passed on, unless whoever exported it
and whoever pushes it both said so. A file that is there with the same content is not sent again. While the checksums
are missing at the target, the push has not ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.datasets_out.release.checksums import CHECKSUMS, SIGNATURE, file_sha256, read_checksums
from foil.datasets_out.release.restoring import read_manifest
from foil.datasets_out.release.targets.target import PushTarget, ReleaseFile
from foil.engine.errors import CommitError, UsageError

_LAST = ("README.md", CHECKSUMS, SIGNATURE)


@dataclass(frozen=True, slots=True)
class PushedFiles:
    """How many files were sent, and how many were there."""

    sent: int
    bytes_sent: int
    present: int


def push(folder: Path, open_target: Callable[[], PushTarget], *, allow_nonredistributable: bool = False) -> PushedFiles:
    """Sends what is not there. Raises UsageError where rights forbid it, CommitError where the target does."""
    check_rights(folder, read_manifest(folder), again=allow_nonredistributable)
    return push_files(_files(folder), open_target, last=_LAST)


def push_files(files: Sequence[ReleaseFile], open_target: Callable[[], PushTarget], last: Sequence[str]) -> PushedFiles:
    """Sends the files that are not there, those named in `last` after all others."""
    target = open_target()
    present = target.present(files)
    missing = [file for file in files if file.name not in present]
    target.send([file for file in missing if file.name not in last])
    target.send([file for file in missing if file.name in last])
    if lost := {file.name for file in files} - target.present(files):
        raise CommitError(f"{min(lost)} and {len(lost) - 1} more are not at the target as sent; push again")
    return PushedFiles(len(missing), sum(file.bytes for file in missing), len(present))


def check_rights(folder: Path, manifest: Mapping[str, Any], *, again: bool) -> None:
    """Raises UsageError where the folder holds texts that may not be passed on, unless both sides said so."""
    topics = manifest["nonredistributable_topics"]
    if not topics:
        return
    if manifest.get("restored"):
        raise UsageError(
            f"{folder} holds restored texts of a corpus that may not be passed on; push the release from "
            "before `foil restore`"
        )
    if manifest["allow_nonredistributable"] and not again:
        raise UsageError(
            f"{folder} holds the texts of {topics:,} topics that may not be passed on; export it without "
            "--allow-nonredistributable, or give that option to `foil push` too if you have the right to"
        )


def _files(folder: Path) -> list[ReleaseFile]:
    """All files of a release, those that end a push last."""
    digests = read_checksums(folder)
    own = [name for name in (CHECKSUMS, SIGNATURE) if (folder / name).exists()]
    digests |= {name: file_sha256(folder / name) for name in own}
    names = sorted(digests, key=lambda name: (name in _LAST, name))
    return [ReleaseFile(name, folder / name, (folder / name).stat().st_size, digests[name]) for name in names]
