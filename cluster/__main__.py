"""The program `foil`: checks that its own packages are found, and runs one command (cluster/endings.py)."""

import atexit
import importlib.util
import os
import sys
from contextlib import suppress
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


class _Ending:
    """Ends the process once all exit handlers have run, and does not take the interpreter apart.

    Arrow's and DuckDB's threads may be at work still: one that meets an interpreter in parts aborts the process, after
    a command that did all it should.
    """

    def __init__(self) -> None:
        self.code = 1
        atexit.register(self._leave)  # the first to be registered runs last

    def _leave(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it any more
                stream.flush()
        os._exit(self.code)


def run() -> int:
    """Runs the command of `sys.argv`, and gives its exit code; SystemExit with a message where it cannot be run."""
    if misplaced := misplaced_rooms():
        names = ", ".join(f"{room} (found at {folder})" for room, folder in misplaced.items())
        sys.exit(f"foil: another package shadows ours: {names}; install foil-ir in an environment of its own")
    from cluster.commands.app import app
    from cluster.deploy.open_files import raise_limit
    from cluster.endings import run_command
    from cluster.terminal import prepare_streams

    prepare_streams()
    raise_limit()
    return run_command(app, sys.argv[1:])


def main() -> None:
    """The console script: one command, and then the end of the process."""
    ending = _Ending()
    try:
        ending.code = run()
    except SystemExit as end:
        ending.code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    sys.exit(ending.code)


if __name__ == "__main__":
    main()
