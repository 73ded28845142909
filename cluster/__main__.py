"""`foil`: checks that our packages are ours, runs one command, turns every known error into words and an exit code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOMS = ("engine", "prompts", "validators", "trainer", "datasets_out", "cluster")


def misplaced_rooms() -> dict[str, str]:
    """The packages that do not lie beside this one, with where they were found: another distribution shadows them."""
    home = Path(__file__).resolve().parent.parent
    found = {}
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        where = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if where != home / room:
            found[room] = str(where or "nowhere")
    return found


def main() -> None:
    """The console script."""
    if misplaced := misplaced_rooms():
        shown = ", ".join(f"{room} (found at {where})" for room, where in misplaced.items())
        sys.exit(f"foil: another package shadows ours: {shown}; install foil-ir in an environment of its own")
    from cluster.commands.app import app
    from engine.errors import FoilError

    try:
        app()
    except FoilError as error:
        print(f"foil: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
