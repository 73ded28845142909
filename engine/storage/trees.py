"""Folders that are written and read as files, such as models and checkpoints: on a bucket they are copied to and fro.

    download -> files in the mirror -> upload, once they are published

Where a run lies on a disk there is nothing to do: the files are where they belong.
Promise: an upload puts a folder's checksums last, so that what a kill cut short is found damaged and passed over.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from engine.storage.mirrors import mirrored_url
from engine.storage.opening import open_store
from engine.storage.store import Store

_LAST = "checksums.json"


def upload(folder: Path) -> None:
    """Makes the bucket hold what a folder of a mirror holds now. Raises OSError."""
    found = _store_of(folder)
    if found is None:
        return
    store, prefix = found
    there = {each.key: each for each in store.list_objects(prefix)}
    here = {f"{prefix}/{name.as_posix()}": folder / name for name in _published(folder)}
    for key, path in sorted(here.items(), key=lambda item: (item[1].name == _LAST, item[0])):
        facts, standing = path.stat(), there.get(key)
        if standing is None or standing.bytes != facts.st_size or standing.modified < facts.st_mtime:
            store.put_file(key, path)
    store.delete(there.keys() - here.keys())


def download(folder: Path) -> None:
    """Brings what the bucket holds of a folder into the mirror; what is there already is left. Raises OSError."""
    found = _store_of(folder)
    if found is None:
        return
    store, prefix = found
    for each in store.list_objects(prefix):
        path = store.folder / each.key
        if not path.is_file() or path.stat().st_size != each.bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            store.get_file(each.key, path)


def remove(folder: Path) -> None:
    """Removes a folder, and in a bucket what it holds of it."""
    shutil.rmtree(folder, ignore_errors=True)
    if found := _store_of(folder):
        store, prefix = found
        store.delete([each.key for each in store.list_objects(prefix)])


def _store_of(folder: Path) -> tuple[Store, str] | None:
    """The bucket whose mirror holds this folder, and the key of the folder there; None for a folder of a disk."""
    for parent in folder.parents:
        if mirrored_url(parent):
            return open_store(parent), folder.relative_to(parent).as_posix()
    return None


def _published(folder: Path) -> Iterator[Path]:
    """The files of a folder, relative to it; drafts, whose names begin with a dot, are not yet of it."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name
