"""Copies on this machine of what lies in buckets, by digest: shared by all runs and processes, bounded in bytes.

$FOIL_CACHE/objects/3f/3f29...    a copy, whose bytes had this sha256 when it was made
$FOIL_CACHE_BYTES                 how many bytes are kept, 32 GiB if unset; what was used within the hour always stays
"""

import errno
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from foil.engine.atomic_files import locked, replace_file, sync
from foil.engine.errors import CorruptDataError, UsageError

LIMIT_BYTES = 32 << 30
KEPT_S = 3600.0
_ABANDONED_S = 86_400.0
_LOOK_S = 30.0


class Copies:
    """The copies under one folder. A copy's time of modification is when it was last asked for."""

    _looked: float = 0.0  # when this process last looked for copies to remove

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "objects"
        self._locks = self._folder / ".locks"

    def fetch(self, sha256: str, name: str, read: Callable[[], Iterable[bytes]]) -> Path:
        """The copy with this digest, made from `read` if it is not there. One process makes it, the others wait.

        Raises CorruptDataError where the bytes have another digest; `name` is what it calls them.
        """
        path = self._folder / sha256[:2] / sha256
        if self._use(path):
            return path
        with locked(self._locks / sha256[:2]):
            if not self._use(path):
                self._make(path, sha256, name, read)
        self._look()
        return path

    def _use(self, path: Path) -> bool:
        """Whether the copy is there; then nobody removes it for an hour."""
        self._locks.mkdir(parents=True, exist_ok=True)
        with locked(self._locks / "use"):
            try:
                os.utime(path)
            except FileNotFoundError:
                return False
            return True

    def _make(self, path: Path, sha256: str, name: str, read: Callable[[], Iterable[bytes]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{sha256}.{uuid.uuid4().hex}")
        digest = hashlib.sha256()
        try:
            with draft.open("xb") as file:
                for data in read():
                    digest.update(data)
                    file.write(data)
            if digest.hexdigest() != sha256:
                raise CorruptDataError(
                    f"{name} has the sha256 {digest.hexdigest()}, and not {sha256} as when it was committed; "
                    "`foil verify` says what else is damaged"
                )
            sync(draft)
            replace_file(draft, path)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise OSError(error.errno, f"{error.strerror}; make room, or set FOIL_CACHE", str(path)) from error
            raise
        finally:
            draft.unlink(missing_ok=True)

    def _look(self) -> None:
        if time.monotonic() - Copies._looked > _LOOK_S or not Copies._looked:
            Copies._looked = time.monotonic()
            self.remove_unused(limit_bytes())

    def remove_unused(self, limit: int) -> int:
        """Removes copies, the longest unused first, until `limit` bytes are left; how many bytes that freed."""
        now, total, freed = time.time(), 0, 0
        copies: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(FileNotFoundError):
                facts = path.stat()
                total += facts.st_size
                copies.append((facts.st_mtime, facts.st_size, path))
        for _, size, path in sorted(copies):
            draft = path.name.startswith(".")
            if (draft or total - freed > limit) and self._remove(path, now - (_ABANDONED_S if draft else KEPT_S)):
                freed += size
        return freed

    def _remove(self, path: Path, before: float) -> bool:
        """Whether the copy was last used before this time, and is gone now."""
        with locked(self._locks / "use"), suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()
                return True
        return False


def limit_bytes() -> int:
    """$FOIL_CACHE_BYTES. Raises UsageError where it is no number."""
    text = os.environ.get("FOIL_CACHE_BYTES", "").replace("_", "")
    if text and not text.isdecimal():
        raise UsageError(f"FOIL_CACHE_BYTES is {text!r}; give a number of bytes, as {LIMIT_BYTES}")
    return int(text) if text else LIMIT_BYTES
