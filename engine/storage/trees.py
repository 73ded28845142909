"""Folders that are written and read as files, such as models and checkpoints: on a bucket they are copied to and fro.

    download -> files in the mirror -> upload, once they are published

Where a run lies on a disk there is nothing to do: the files are where they belong.
Promise: a folder that is uploaded as a whole comes down as a whole or not at all. An upload puts a mark next to its
files first and removes it last, and so does a removal: where a kill cut one short, no other machine sees the folder. A
file that is in step with the bucket has the time of the bucket's object: two models have one size, so sizes alone would
tell nothing, and no two clocks are compared.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from foil.engine.storage.mirrors import mirrored_url
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import Store, StoredObject

_PARTIAL = "partial.mark"
"""The mark in a folder of the bucket that is not whole: its upload or its removal goes on, or was cut short."""
_SAME_S = 0.001


def upload(folder: Path, *, whole: bool = False) -> None:
    """Makes the bucket hold what a folder of a mirror holds now; `whole`: seen all at once. Raises OSError."""
    place = _store_of(folder)
    if place is None:
        return
    store, prefix = place
    there = {each.key: each for each in store.list_objects(prefix)}
    files = {f"{prefix}/{name.as_posix()}": folder / name for name in _published(folder)}
    changed = [key for key, path in sorted(files.items()) if key not in there or not _in_step(path, there[key])]
    if whole and changed:
        store.put(f"{prefix}/{_PARTIAL}", b"an upload or a removal goes on")
    for key in changed:
        store.put_file(key, files[key])
    _delete(store, [*(there.keys() - files.keys()), *([f"{prefix}/{_PARTIAL}"] if whole else [])])
    for each in store.list_objects(prefix):
        if each.key in files and files[each.key].stat().st_size == each.bytes:
            _put_in_step(files[each.key], each)


def download(folder: Path) -> None:
    """Brings what the bucket holds of a folder into the mirror, over what is there. Raises OSError.

    A file that the bucket has not is left: it may be published, and not uploaded yet. A folder that is not whole there
    is passed over.
    """
    place = _store_of(folder)
    if place is None:
        return
    store, prefix = place
    there = list(store.list_objects(prefix))
    partial = tuple(each.key.removesuffix(_PARTIAL) for each in there if _is_mark(each.key))
    for each in there:
        path = store.folder / each.key
        if each.key.startswith(partial):
            continue
        if not path.is_file() or not _in_step(path, each):
            path.parent.mkdir(parents=True, exist_ok=True)
            store.get_file(each.key, path)
            _put_in_step(path, each)


def remove(folder: Path) -> None:
    """Removes a folder, and in a bucket what it holds of it."""
    shutil.rmtree(folder, ignore_errors=True)
    if place := _store_of(folder):
        store, prefix = place
        store.put(f"{prefix}/{_PARTIAL}", b"an upload or a removal goes on")
        _delete(store, [each.key for each in store.list_objects(prefix)])


def _delete(store: Store, keys: Iterable[str]) -> None:
    """Deletes objects, the marks last: no folder is seen with a part of its files."""
    keys = list(keys)
    store.delete(key for key in keys if not _is_mark(key))
    store.delete(filter(_is_mark, keys))


def _is_mark(key: str) -> bool:
    return key.endswith(f"/{_PARTIAL}")


def _store_of(folder: Path) -> tuple[Store, str] | None:
    """The bucket whose mirror holds this folder, and the key of the folder there; None for a folder of a disk."""
    for parent in folder.parents:
        if mirrored_url(parent):
            return open_store(parent), folder.relative_to(parent).as_posix()
    return None


def _in_step(path: Path, stored: StoredObject) -> bool:
    facts = path.stat()
    return facts.st_size == stored.bytes and abs(facts.st_mtime - stored.modified) < _SAME_S


def _put_in_step(path: Path, stored: StoredObject) -> None:
    os.utime(path, (stored.modified, stored.modified))


def _published(folder: Path) -> Iterator[Path]:
    """The files of a folder, relative to it; drafts, whose names begin with a dot, are not yet of it."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name
