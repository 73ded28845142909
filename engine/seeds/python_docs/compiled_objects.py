"""The documented objects of compiled modules, read in an interpreter of their own.

    modules -> python -I this_file MODULE... -> JSON lines of [name, kind, docstring] -> read_compiled

In a running process they may have been replaced: Ray puts its own function in the place of `print`, a test patches
what it likes. A seed that is there in one process and not in another shifts the ranking of all. So a fresh interpreter
reads them, isolated from the environment and the working folder, before anything else is imported.
Price: a third of a second a library. This file imports the standard library alone, since it is also the program.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

_TIMEOUT_S = 120.0
_LAST_LINES = 3


def read_compiled(modules: Sequence[str]) -> list[tuple[str, str, str]]:
    """(public name, kind, docstring) of every public object in these modules, the first of equal ones.

    Raises RuntimeError with the last words of an interpreter that failed.
    """
    if not modules:
        return []
    command = [sys.executable, "-I", __file__, *modules]
    child = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False)
    if child.returncode:
        last = " | ".join(child.stderr.decode(errors="replace").splitlines()[-_LAST_LINES:])
        raise RuntimeError(f"{' '.join(modules)} cannot be read: exit code {child.returncode}: {last}")
    return [(name, kind, doc) for name, kind, doc in map(json.loads, child.stdout.splitlines())]


def live_objects(module: ModuleType, seen_ids: set[int]) -> Iterator[tuple[str, str, str]]:
    """The public objects that a live module defines and no earlier one (`seen_ids`), with its classes' methods."""
    top_package = module.__name__.split(".")[0]
    for name, value in sorted(vars(module).items(), key=lambda item: item[0]):
        defining_module = getattr(value, "__module__", None) or module.__name__
        foreign = defining_module.split(".")[0].lstrip("_") != top_package.lstrip("_")
        if name.startswith("_") or foreign or id(value) in seen_ids:
            continue
        seen_ids.add(id(value))
        public_name = name if top_package == "builtins" else f"{module.__name__}.{name}"
        if isinstance(value, type):
            yield public_name, "class", value.__doc__ or ""
            yield from _methods(value, public_name)
        elif callable(value) and isinstance(value.__doc__, str):
            yield public_name, "function", value.__doc__


def _methods(owner: type, public_name: str) -> Iterator[tuple[str, str, str]]:
    for name, member in sorted(vars(owner).items(), key=lambda item: item[0]):
        doc = getattr(member, "__doc__", None)
        if not name.startswith("_") and isinstance(doc, str) and callable(getattr(owner, name, None)):
            yield f"{public_name}.{name}", "method", doc


if __name__ == "__main__":
    seen_ids: set[int] = set()
    for argument in sys.argv[1:]:
        for row in live_objects(importlib.import_module(argument), seen_ids):
            sys.stdout.write(json.dumps(row) + "\n")
