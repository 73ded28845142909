"""Where a run lies: bytes by key, on a disk or in a bucket, with one promise for both.

    out: runs/a            LocalStore    files, hard links, fsync
    out: s3://bucket/a     ObjectStore   objects, conditional create; gs:// and az:// too

A key is names joined by "/"; see `check_key`. What returned is durable: it survives kill -9 and a power cut. Every verb
raises OSError, with the key in it, where the storage fails; then a put has happened whole or not at all. No verb
renames, and nothing is ever decided by a listing alone: a create is what decides.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foil.engine.errors import CorruptDataError


def inside(folder: Path, path: Path) -> Path:
    """The path. Raises CorruptDataError where a link on the way leads out: nothing is read or written through one."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise CorruptDataError(f"{path} leads out of {folder}, to {path.resolve()}; remove that link")
    return path


DRAFTS = "staging"
"""No key begins with this name: a folder keeps its unfinished files there."""
_NAME = re.compile(r"[^./\x00-\x1f\x7f\\][^/\x00-\x1f\x7f\\]*")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A key, how many bytes lie under it, and when it was last written, in seconds since 1970 by the store's clock."""

    key: str
    bytes: int
    modified: float


class Appender(Protocol):
    """One writer's stream of bytes, for as long as it is open; nobody else writes it, and it is never opened again.

    `write` keeps order and may be called from one thread at a time. After an OSError the stream takes nothing more:
    what was synced before stays readable.
    """

    def write(self, data: bytes) -> None:
        """Adds bytes; they are durable only once a `sync` that began later has returned."""
        ...

    def sync(self) -> None:
        """Makes durable all that was written before this call. May run in another thread than `write`."""
        ...

    def close(self) -> None:
        """Makes readable what was written, as far as the store still can, and ends the stream."""
        ...


class Store(Protocol):
    """The verbs; `tests/engine/storage` holds every implementation to them. Goes to other processes by pickle.

    `url` is where it lies, as a person writes it. `folder` is where it lies on this machine: the folder itself, or for
    a bucket a folder whose files are copies, which may be removed at any time while nobody uses them.
    `sync_interval_s` is the least time between two syncs of a stream that pays; 0 on a disk.
    """

    url: str
    folder: Path
    sync_interval_s: float

    def put_if_absent(self, key: str, data: bytes) -> bytes | None:
        """None where `data` stands under the key afterwards: put by this call, or equal bytes by whomever.

        Otherwise the other bytes that stand there. Of two callers with different bytes one gets None. After an OSError
        the key is absent, or some writer's bytes stand there whole: the same call again settles which.
        """
        ...

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        """Creates or replaces. A reader sees all of the old bytes or all of the new ones.

        What only informs, such as a heartbeat, need not be `durable`: then a power cut may take it.
        """
        ...

    def put_file(self, key: str, path: Path) -> None:
        """`put` of a file of any size, its bytes never whole in memory."""
        ...

    def get(self, key: str) -> bytes | None:
        """The bytes; None where there is no such key. A folder in its place is an error where there are folders."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`. Raises FileNotFoundError where there is no such key."""
        ...

    def get_file(self, key: str, path: Path) -> None:
        """`get` into a file, put over what is there. Raises FileNotFoundError where there is no such key."""
        ...

    def list_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """What lies under the folder `prefix` ("" for all), at any depth, in order of key; with `after`, beyond it.

        What was put before the call is in it, unless it was deleted since.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Removes the keys; one that is absent is no error."""
        ...

    def append(self, key: str) -> Appender:
        """A new stream. Raises FileExistsError where the key, or a stream of that name, is there."""
        ...

    def streams(self, prefix: str) -> list[StoredObject]:
        """The streams under a folder, in order of key, with the bytes that are readable now."""
        ...

    def broken_streams(self, prefix: str, /) -> list[str]:
        """The streams under a folder of which a part is gone that a later part followed, so that it is not read."""
        ...

    def read_stream(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a stream, from the byte `start`; of an open or torn one, what is there."""
        ...

    def fetch(self, key: str, sha256: str, /) -> Path:
        """A file of this machine that holds the object: itself, or a copy kept by its digest and checked by it.

        `sha256` is what the bytes must have; the file of a local store is handed out unread. Raises FileNotFoundError
        where there is no such key, CorruptDataError for a copy with other bytes. The copy stays for an hour at least.
        """
        ...


def check_key(key: str) -> str:
    """The key. Raises ValueError for what is none: an empty or hidden name, "..", a control character, one too long."""
    names = key.split("/")
    if not all(_NAME.fullmatch(name) and len(name.encode()) <= 255 for name in names) or len(key.encode()) > 900:
        raise ValueError(f"{key!r} is no key of a store; use names without a leading dot, joined by single slashes")
    if names[0] == DRAFTS:
        raise ValueError(f"{key!r} is no key of a store; {DRAFTS}/ is for unfinished files")
    return key
