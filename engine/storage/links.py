"""Links that lead out of a run's folder: nothing is read, written or removed through one."""

from pathlib import Path

from foil.engine.errors import CorruptDataError


def inside(folder: Path, path: Path) -> Path:
    """The path. Raises CorruptDataError where a link on the way to it leads out of the folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise CorruptDataError(f"{path} leads out of {folder}, to {path.resolve()}; remove that link")
    return path
