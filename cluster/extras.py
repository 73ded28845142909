"""The libraries that foil-ir needs, by the extra that installs them (`base`: always there)."""

import importlib.util
import re
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, requires, version

from foil.engine.errors import UsageError

PACKAGE = "foil-ir"


def need(module: str, *, extra: str) -> None:
    """Raises UsageError where a library that an extra installs is missing."""
    if importlib.util.find_spec(module) is None:
        raise UsageError(f"this command needs {module}, which is not installed; {install_line(extra)}")


def is_installed(*modules: str) -> bool:
    """Whether all of these libraries are there."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def install_line(extra: str) -> str:
    """The command that installs an extra."""
    return "pip install foil-ir" if extra == "base" else f"pip install 'foil-ir[{extra}]'"


def version_of(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def libraries() -> dict[str, dict[str, str | None]]:
    """Extra -> library -> its installed version, as the metadata of foil-ir names them."""
    versions: dict[str, dict[str, str | None]] = defaultdict(dict)
    for requirement in (requires(PACKAGE) or []) if version_of(PACKAGE) else []:
        name, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == .(\w+)", requirement)
        if name and name[0] != PACKAGE:
            versions[extra[1] if extra else "base"][name[0]] = version_of(name[0])
    return dict(versions)
