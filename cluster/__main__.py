"""The program `foil`: checks that its own packages are found, and runs one command (cluster/endings.py)."""

import importlib.util
import sys
from pathlib import Path

ROOMS = ("engine", "prompts", "validators", "trainer", "datasets_out", "cluster")


def misplaced_rooms() -> dict[str, str]:
    """Our packages that are imported from elsewhere, because another distribution shadows them -> their folder."""
    home = Path(__file__).resolve().parent.parent
    misplaced = {}
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        folder = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if folder != home / room:
            misplaced[room] = str(folder or "nowhere")
    return misplaced


def main() -> None:
    """The console script."""
    if misplaced := misplaced_rooms():
        names = ", ".join(f"{room} (found at {folder})" for room, folder in misplaced.items())
        sys.exit(f"foil: another package shadows ours: {names}; install foil-ir in an environment of its own")
    from cluster.commands.app import app
    from cluster.endings import run_command
    from cluster.terminal import prepare_streams

    prepare_streams()
    sys.exit(run_command(app, sys.argv[1:]))


if __name__ == "__main__":
    main()
