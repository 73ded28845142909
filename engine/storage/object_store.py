"""A run in a bucket of S3, Google Cloud Storage or Azure, or of whatever speaks as they do; the extra `cloud`.

A create that fails in any way reads the key back and compares bytes: then it was won, lost, or is tried again. What a
client says cannot be relied on: an answer that was lost after the object landed looks like somebody else's object, and
S3's 409, after which nothing stands, looks the same.

    KEY/00000000           whose stream KEY is: who created this object may write the others
    KEY/00000001 ...       its bytes in groups of at most GROUP_BYTES, an object for each sync
"""

import errno
import importlib.util
import os
import random
import re
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foil.engine.errors import UsageError
from foil.engine.keys import scrub
from foil.engine.storage.bucket_client import connect, read_object, refusals, size_of
from foil.engine.storage.copies import Copies
from foil.engine.storage.mirrors import cache_folder, check_url, mirror_of
from foil.engine.storage.store import Appender, StoredObject, check_key

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

PATIENCE_S = 180.0
"""Seconds after which a verb that the store keeps failing raises OSError."""
GROUP_BYTES = 4 << 20
_KEY_S = 15.0
"""Seconds after which a process that never had a key gives up asking its machine for one."""
_PART_BYTES = 8 << 20
_REQUESTS = 16
"""Requests at once of one call that needs many."""
_PAUSES_S = (0.05, 5.0)
_GROUP = re.compile(r"(?P<stream>.+)/(?P<number>[0-9]{8})")
_OPENER = "00000000"
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
_ASKS_MACHINE = re.compile(r"/latest/(?:api/token|meta-data)|metadata\.google\.internal|/metadata/identity")
"""In an error of the client that found no key, and asked the machine's own service for one."""
_MESSAGE = re.compile("<.*<Message>(.*)</Message>.*")

T = TypeVar("T")


class ObjectStore:
    """Implements engine.storage.store.Store over obstore. Connects at the first verb.

    Raises UsageError where obstore is not installed, the URL is none, or this process was forked from one that had used
    a bucket. `patience_s`: see PATIENCE_S.
    """

    _connected_process = 0
    """The one that used the client first; a process forked from it has this too, and cannot use its threads."""
    sync_interval_s = 0.1
    """Ten puts a second for a stream that is written all the time."""

    def __init__(self, url: str, folder: Path | None = None, *, patience_s: float = PATIENCE_S) -> None:
        self.url = check_url(url)
        if importlib.util.find_spec("obstore") is None:
            raise UsageError(f"{self.url} needs obstore, which is not installed; pip install 'foil-ir[cloud]'")
        self.folder = folder or mirror_of(self.url)
        self._patience_s = patience_s
        self._connection: Client | None = None
        self._answered = False

    def __reduce__(self) -> tuple[Callable[[str, float], "ObjectStore"], tuple[str, float]]:
        return _reopen, (self.url, self._patience_s)  # the folder is another one on another machine

    def put_if_absent(self, key: str, data: bytes) -> bytes | None:
        import obstore

        def create(client: "Client") -> bytes | None:
            try:
                obstore.put(client, key, data, mode="create", use_multipart=False)
            except refusals():
                raise
            except obstore.exceptions.BaseError:
                standing = read_object(client, key)
                if standing is None:
                    raise
                return None if standing == data else standing
            return None

        return self._repeat(check_key(key), create)

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002 - a bucket knows no other
        import obstore

        self._repeat(check_key(key), lambda client: obstore.put(client, key, data, use_multipart=False))

    def put_file(self, key: str, path: Path) -> None:
        import obstore

        size = path.stat().st_size
        parts = max(_PART_BYTES, -(-size // 9_000))  # a store takes 10,000 parts
        options: Any = {"chunk_size": parts, "max_concurrency": 4} if size > parts else {"use_multipart": False}

        def send(client: "Client") -> None:
            try:
                obstore.put(client, key, path, **options)
            except FileNotFoundError as error:
                if any(code in str(error) for code in _NO_BUCKET):
                    raise
                raise OSError(errno.EAGAIN, str(error)) from error  # an end of the upload whose answer was lost

        self._repeat(check_key(key), send)

    def get(self, key: str) -> bytes | None:
        return self._repeat(check_key(key), lambda client: read_object(client, key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        import obstore

        def read(client: "Client") -> bytes | None:
            try:
                if length > 0:
                    return bytes(obstore.get_range(client, key, start=start, length=length))
            except FileNotFoundError:
                return None
            except obstore.exceptions.BaseError:
                size = size_of(client, key)
                if size is None or start < size:
                    raise
            return None if size_of(client, key) is None else b""  # nothing was asked for, or what lies behind the end

        data = self._repeat(check_key(key), read)
        if data is None:
            raise self._absent(key)
        return data

    def get_file(self, key: str, path: Path) -> None:
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with draft.open("wb") as file:
                file.writelines(self._chunks(key))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def list_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        if prefix:
            check_key(prefix)
        return self._list(prefix, after)

    def _list(self, prefix: str, after: str) -> Iterator[StoredObject]:
        """Pages; one that fails is asked for again from the last key on."""
        import obstore

        pages: Iterator[Any] | None = None
        last = ""

        def open_pages(client: "Client") -> Iterator[Any]:
            return iter(obstore.list(client, prefix or None, offset=last or after or None))

        def next_page(client: "Client") -> Sequence[Any] | None:
            nonlocal pages
            try:
                return next(pages := pages or open_pages(client), None)
            except obstore.exceptions.BaseError:
                pages = None
                raise

        while (page := self._repeat(prefix, next_page)) is not None:
            for entry in page:
                last = entry["path"]
                if last > after:
                    yield StoredObject(last, entry["size"], entry["last_modified"].timestamp())

    def delete(self, keys: Iterable[str]) -> None:
        import obstore

        def remove(key: str) -> None:
            def once(client: "Client") -> None:
                with suppress(FileNotFoundError):
                    obstore.delete(client, key)

            self._repeat(key, once)

        def remove_all(key: str) -> None:
            """The object, or the groups of a stream, the opener last: while that stands, nobody takes the name."""
            below = () if _GROUP.fullmatch(key) else self._list(key, "")
            groups = [group.key for group in below if _GROUP.fullmatch(group.key)]
            for name in (*reversed(groups), key):
                remove(name)

        self._at_once(remove_all, map(check_key, keys))

    def append(self, key: str) -> Appender:
        if self.get(check_key(key)) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._place(key))
        if self.put_if_absent(f"{key}/{_OPENER}", uuid.uuid4().hex.encode()) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._place(key))
        return ObjectAppender(self, key)

    def streams(self, prefix: str) -> list[StoredObject]:
        groups = self._groups(prefix)
        return [
            StoredObject(stream, sum(each.bytes for each in parts), max(each.modified for each in parts))
            for stream, parts in sorted((name, _readable(parts)) for name, parts in groups.items())
            if parts
        ]

    def broken_streams(self, prefix: str) -> list[str]:
        return sorted(key for key, groups in self._groups(prefix).items() if len(_readable(groups)) < len(groups))

    def read_stream(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        groups = self._groups(check_key(key)).get(key)
        if groups is None:
            raise self._absent(key)
        end = float("inf") if length is None else start + max(0, length)
        ranges, place = [], 0
        for group in _readable(groups)[1:]:
            begin, stop = max(0, start - place), min(group.bytes, end - place)
            if begin < stop:
                ranges.append((group.key, begin, int(stop - begin), group.bytes))
            place += group.bytes
        return b"".join(self._at_once(self._part, ranges))

    def _part(self, part: tuple[str, int, int, int]) -> bytes:
        key, start, length, size = part
        if length < size:
            return self.get_range(key, start, length)
        data = self.get(key)
        if data is None or len(data) != size:
            raise OSError(errno.EIO, "was removed or changed while it was read", self._place(key))
        return data

    def fetch(self, key: str, sha256: str) -> Path:
        return Copies(cache_folder()).fetch(sha256, self._place(key), lambda: self._chunks(key))

    def _chunks(self, key: str) -> Iterator[bytes]:
        """The object's bytes, in pieces. Raises FileNotFoundError where there is no such key."""
        start = 0
        size = self._repeat(check_key(key), lambda client: size_of(client, key))
        if size is None:
            raise self._absent(key)
        while start < size:
            data = self.get_range(key, start, _PART_BYTES)
            if not data:
                raise OSError(errno.EIO, "became shorter while it was read", self._place(key))
            start += len(data)
            yield data

    def _groups(self, prefix: str) -> Mapping[str, Mapping[int, StoredObject]]:
        groups: dict[str, dict[int, StoredObject]] = defaultdict(dict)
        for stored in self.list_objects(prefix):
            if match := _GROUP.fullmatch(stored.key):
                groups[match["stream"]][int(match["number"])] = stored
        return groups

    def _repeat(self, key: str, action: Callable[["Client"], T]) -> T:
        """Repeats what may be repeated until it does not fail. Raises OSError that says what to do."""
        import obstore

        began, pause = time.monotonic(), _PAUSES_S[0]
        while True:
            try:
                result = action(self._client())
            except refusals() as error:
                raise self._failure(key, error) from error
            except (obstore.exceptions.BaseError, OSError) as error:
                keyless = not self._answered and _ASKS_MACHINE.search(str(error))
                patience = min(self._patience_s, _KEY_S) if keyless else self._patience_s
                if time.monotonic() + pause > began + patience:
                    raise self._failure(key, error) from error
            else:
                self._answered = True
                return result
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _PAUSES_S[1])

    def _client(self) -> "Client":
        if ObjectStore._connected_process not in {0, os.getpid()}:
            raise UsageError(
                f"this process was forked from one that had used a bucket ({self.url}), without the client's threads; "
                "start it by spawn or as a program of its own, or use the bucket only after the fork"
            )
        if self._connection is None:
            self._connection = connect(self.url, self._patience_s)
            ObjectStore._connected_process = os.getpid()
        return self._connection

    def _at_once(self, action: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """The results in order, by a few threads; nothing is left running when one fails."""
        waiting = list(items)
        if len(waiting) < 2:
            return list(map(action, waiting))
        with ThreadPoolExecutor(min(_REQUESTS, len(waiting))) as threads:
            return list(threads.map(action, waiting))

    def _place(self, key: str) -> str:
        return f"{self.url}/{key}"

    def _absent(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._place(key))

    def _failure(self, key: str, error: Exception) -> OSError:
        import obstore

        why = _MESSAGE.sub(r"\1", str(error).partition("\n\nDebug source")[0].strip().replace("\n", " "))
        denied = (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError)
        code, advice = errno.EIO, f"the store did not do it within {self._patience_s:g} s; look at it, and run again"
        if isinstance(error, denied):
            code, advice = errno.EACCES, "let the key, profile or role of this process read, write and list there"
        elif isinstance(error, FileNotFoundError):
            advice = "make the bucket, or mend its name in the URL"
        elif isinstance(error, refusals()):
            advice = "the store lacks what a run needs; `foil doctor --out URL` says what"
        elif not self._answered and _ASKS_MACHINE.search(why):
            advice = "no key is set and this machine has no role: set the variables or the profile of docs/storage.md"
        return OSError(code, f"{scrub(why)[:400]}; {advice}", self._place(key) if key else self.url)


class ObjectAppender:
    """Implements engine.storage.store.Appender by one new object for each sync, or for each GROUP_BYTES of one."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store, self._key, self._number = store, key, 0
        self._waiting: list[bytes] = []
        self._adding, self._syncing = threading.Lock(), threading.Lock()
        self._broken = ""  # why nothing more may be written

    def write(self, data: bytes) -> None:
        with self._adding:
            self._check()
            self._waiting.append(bytes(data))

    def sync(self) -> None:
        with self._syncing:
            with self._adding:
                self._check()
                waiting, self._waiting = b"".join(self._waiting), []
            for start in range(0, len(waiting), GROUP_BYTES):
                try:
                    self._put_group(waiting[start : start + GROUP_BYTES])
                except OSError as error:
                    self._broken = str(error)
                    raise

    def close(self) -> None:
        if not self._broken:
            with suppress(OSError):
                self.sync()
        self._broken = self._broken or "it is closed"

    def _put_group(self, data: bytes) -> None:
        key = f"{self._key}/{self._number + 1:08d}"
        if self._store.put_if_absent(key, data) is not None:
            raise OSError(errno.EEXIST, "another process wrote to this stream", f"{self._store.url}/{key}")
        self._number += 1

    def _check(self) -> None:
        if self._broken:
            place = f"{self._store.url}/{self._key}"
            raise OSError(errno.EIO, f"nothing more is written to this stream: {self._broken}", place)


def _reopen(url: str, patience_s: float) -> ObjectStore:
    return ObjectStore(url, patience_s=patience_s)


def _readable(groups: Mapping[int, StoredObject]) -> list[StoredObject]:
    """The opener, with no bytes of the stream in it, and the groups up to the first that is missing."""
    opener = groups.get(0)
    readable = [StoredObject(opener.key, 0, opener.modified)] if opener else []
    while readable and len(readable) in groups:
        readable.append(groups[len(readable)])
    return readable
