"""Foil: makes, checks and commits training data for instruction-following retrieval, and trains on it.

The public names are those below (cluster/library.py says what each does); all else may change.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if not Path(__path__[0], "engine").exists():  # an uploaded checkout: its links would be second copies of each folder
    __path__.append(str(Path(__path__[0]).parent))

if TYPE_CHECKING:
    from foil.cluster.library import OpenRun, evaluate, load_job, open_run, run, train

__all__ = ["OpenRun", "evaluate", "load_job", "open_run", "run", "train"]


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first asked for: `import foil` alone costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'foil' has no attribute {name!r}; its public names are {', '.join(__all__)}")
    from foil.cluster import library

    return getattr(library, name)
