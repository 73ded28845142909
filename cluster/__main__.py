"""The program `foil`: runs one command (cluster/endings.py)."""

import atexit
import os
import sys
from contextlib import suppress


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
    """Runs the command of `sys.argv`, and gives its exit code."""
    if sys.argv[1:2] == ["sql"] and "--help" not in sys.argv:
        from foil.datasets_out.sql.query import start_ahead

        start_ahead()
    from foil.cluster.commands.app import app
    from foil.cluster.deploy.open_files import raise_limit
    from foil.cluster.endings import run_command
    from foil.cluster.terminal import prepare_streams

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
