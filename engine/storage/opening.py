"""From a folder to the store of its run. Everywhere else a run is a `Path`, whatever it lies on."""

from pathlib import Path

from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.mirrors import mirror_of, mirrored_url
from foil.engine.storage.store import Store

__all__ = ["mirror_of", "open_store"]


def open_store(folder: Path) -> Store:
    """The store of the run in this folder. Raises CorruptDataError for a mirror that does not say of what it is one."""
    url = mirrored_url(folder)
    if not url:
        return LocalStore(folder)
    from foil.engine.storage.object_store import ObjectStore

    return ObjectStore(url, folder)
