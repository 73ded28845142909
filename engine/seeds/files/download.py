"""Downloads public corpora at a pinned revision, checks them, and resumes after a broken connection.

    CORPORA[name] -> fetch(corpus, folder) -> folder/FILE..., folder/fetched.json

Promise: a file under its final name is complete, and its sha256 is the expected one. The catalog gives the sha256, or
the first fetch records it in `fetched.json` and every later fetch must find the same. Foil runs and unpacks nothing.
Foil does not fetch what may not be redistributed; such a corpus says in `by_hand` how to obtain it.
Price: Foil reads each file once more after the download, for its checksum.
"""

import hashlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import Field
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from foil.engine.atomic_files import put_text, replace_file, sync
from foil.engine.errors import CorruptDataError, FoilError, UsageError
from foil.engine.settings import Settings

LOCK = "fetched.json"
CHUNK_BYTES = 1 << 20
WORTH_A_RETRY = {408, 429, 500, 502, 503, 504}

Progress = Callable[[str, int, int | None], None]
"""Called as bytes arrive with the file's name, the bytes received so far, and the total if the server states it."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file: its name in the folder, its address, and its sha256 if the catalog knows it."""

    name: str
    url: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class PublicCorpus:
    """The files of a corpus, its licence, and how to obtain by hand what cannot be fetched.

    `hub` is a data set of the Hugging Face hub. Its files are listed there when it is fetched
    (`cluster.seeds.hub_files`), and those that match `hub_files` are taken.
    """

    name: str
    licence: str
    files: tuple[RemoteFile, ...] = ()
    by_hand: str = ""
    hub: str = ""
    hub_files: str = "*"


class FetchSettings(Settings):
    """Timeouts and retries of a fetch."""

    timeout_s: float = Field(
        60.0, gt=0, le=86_400, description="Seconds without a byte after which a connection counts as broken."
    )
    attempts: int = Field(
        5, ge=1, le=1_000, description="Attempts for each file; each resumes where the last one broke."
    )
    backoff_s: float = Field(
        1.0, ge=0, le=3_600, description="Seconds before the second attempt; each further wait is twice as long."
    )


def _read_corpora() -> Iterator[PublicCorpus]:
    for name, entry in yaml.safe_load(Path(__file__).with_name("corpora.yaml").read_text(encoding="utf-8")).items():
        base = entry.pop("base", "")
        files = entry.pop("files", {}).items()
        remote = (RemoteFile(own, f"{base}/{file.get('at', own)}", file.get("sha256", "")) for own, file in files)
        yield PublicCorpus(name, files=tuple(remote), **entry)


CORPORA = {corpus.name: corpus for corpus in _read_corpora()}


def public_corpus(name: str) -> PublicCorpus:
    """The corpus of that name."""
    if name not in CORPORA:
        raise UsageError(f"no public corpus is called {name!r}; there are {', '.join(sorted(CORPORA))}")
    return CORPORA[name]


def fetch(
    corpus: PublicCorpus, folder: Path, on_progress: Progress, settings: FetchSettings | None = None
) -> list[Path]:
    """Downloads the files of the corpus that the folder lacks, checks those it has, and returns all their paths.

    Raises UsageError if nothing of the corpus may be fetched, FoilError if the network fails, and CorruptDataError if a
    checksum differs.
    """
    if not corpus.files:
        raise UsageError(f"nothing of {corpus.name!r} can be fetched. {corpus.by_hand}")
    folder.mkdir(parents=True, exist_ok=True)
    lock, settings = _read_lock(folder), settings or FetchSettings()
    for remote in corpus.files:
        lock[remote.name] = _fetch_file(remote, folder, lock.get(remote.name, {}), on_progress, settings)
        put_text(folder / LOCK, json.dumps(lock, indent=1, sort_keys=True) + "\n")
    return [folder / remote.name for remote in corpus.files]


def _fetch_file(
    remote: RemoteFile, folder: Path, lock_entry: dict[str, Any], on_progress: Progress, settings: FetchSettings
) -> dict[str, Any]:
    """Downloads one file, or checks the file in the folder; returns its new lock entry."""
    target = folder / remote.name
    same_source = lock_entry.get("url") == remote.url
    expected = remote.sha256 or (lock_entry.get("sha256", "") if same_source else "")
    if target.exists():
        if not expected:
            raise UsageError(
                f"{target} is there, but was not fetched from {remote.url}; move it away, or use it as it is"
            )
        return _check_file(target, remote, expected)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{hashlib.sha256(remote.url.encode()).hexdigest()[:8]}.part")
    _download(remote, part, on_progress, settings)
    try:
        new_entry = _check_file(part, remote, expected)
    except CorruptDataError:
        part.unlink()
        raise
    replace_file(part, target)
    return new_entry


def _check_file(file: Path, remote: RemoteFile, expected: str) -> dict[str, Any]:
    """The lock entry of a file; raises CorruptDataError if its sha256 is not the expected one."""
    with file.open("rb") as data:
        sha256 = hashlib.file_digest(data, "sha256").hexdigest()
    if expected and sha256 != expected:
        raise CorruptDataError(
            f"{file} has sha256 {sha256}, expected {expected} ({remote.url}); delete the file and fetch it again"
        )
    return {"url": remote.url, "bytes": file.stat().st_size, "sha256": sha256}


class _BrokenConnectionError(Exception):
    """The connection failed or ended early; the next attempt resumes there."""


def _download(remote: RemoteFile, part: Path, on_progress: Progress, settings: FetchSettings) -> None:
    if urlsplit(remote.url).scheme not in {"https", "http"}:
        raise UsageError(f"{remote.url} is neither https nor http; only those are fetched")
    retrying = Retrying(
        stop=stop_after_attempt(settings.attempts),
        wait=wait_exponential(multiplier=settings.backoff_s),
        retry=retry_if_exception_type(_BrokenConnectionError),
        reraise=True,
    )
    try:
        retrying(_attempt, remote, part, on_progress, settings.timeout_s)
    except _BrokenConnectionError as error:
        raise FoilError(
            f"{remote.url} could not be fetched in {settings.attempts} attempts ({error}); {_size(part):,} bytes are "
            f"kept. Check the network (HTTPS_PROXY is honoured) and fetch again to go on, or bring the file to "
            f"{part.parent} by hand"
        ) from error


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _attempt(remote: RemoteFile, part: Path, on_progress: Progress, timeout_s: float) -> None:
    """Appends to the part what it lacks, over one connection; raises _BrokenConnectionError if another may help."""
    size = _size(part)
    opener = urllib.request.build_opener()
    if size:
        opener.addheaders.append(("Range", f"bytes={size}-"))
    try:
        with opener.open(remote.url, timeout=timeout_s) as response:
            _append(response, part, size, remote.name, on_progress)
    except urllib.error.HTTPError as error:
        _handle_status(error, remote, part, size)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _BrokenConnectionError(str(getattr(error, "reason", error))) from error


def _append(response: http.client.HTTPResponse, part: Path, size: int, name: str, on_progress: Progress) -> None:
    resumes = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {size}-")
    start = size if resumes else 0
    length = response.headers.get("Content-Length")
    total = start + int(length) if length is not None else None
    with part.open("ab" if resumes else "wb") as file:
        while chunk := response.read(CHUNK_BYTES):
            file.write(chunk)
            on_progress(name, file.tell(), total)
        file.flush()
        sync(part)
        if total is not None and file.tell() != total:
            raise http.client.HTTPException(f"the connection ended after {file.tell():,} of {total:,} bytes")


def _handle_status(error: urllib.error.HTTPError, remote: RemoteFile, part: Path, size: int) -> None:
    """Returns if the part is complete (416), else raises: another attempt may help, or the file is not available."""
    if error.code == 416:
        if error.headers.get("Content-Range") == f"bytes */{size}":
            return
        part.unlink()
        raise _BrokenConnectionError("the part here is longer than the file; starting anew") from error
    if error.code in WORTH_A_RETRY:
        raise _BrokenConnectionError(f"status {error.code}") from error
    raise FoilError(
        f"{remote.url} answers with status {error.code} ({error.reason}); look whether it moved or needs an account, "
        f"and bring the file to {part.parent} by hand"
    ) from error


def _read_lock(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / LOCK
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise CorruptDataError(f"{path} is not JSON ({error}); delete it to take the files anew") from error
