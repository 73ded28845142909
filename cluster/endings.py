"""How a command ends: each error becomes one line on stderr and an exit code.

| error | exit code |
|---|---|
| FoilError | its own (engine/errors.py) |
| wrong options or arguments; a path that cannot be used | 2 |
| no memory | 1 |
| the storage is full or broken, or no more files may be open | 8 |
| SIGINT outside a run | 130 |
| any other: a fault of Foil | 70, with a traceback where FOIL_TRACEBACK is set |
"""

import errno
import os
import traceback
from collections.abc import Sequence
from pathlib import Path

import typer
from typer.main import get_command

from foil.cluster.terminal import READER_GONE, reader_is_gone, say
from foil.engine.errors import CommitError, FoilError, UsageError

FAULT = 70
_INTERRUPTED = 130
_OPEN_FILES = (errno.EMFILE, errno.ENFILE)
_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EROFS, errno.ENOMEM, *_OPEN_FILES)
_PATH = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
_HOME = Path(__file__).resolve().parent.parent


def run_command(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs the command that the arguments name, to its end; returns the exit code and says what went wrong."""
    command = get_command(app)
    try:
        with command.make_context("foil", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except BrokenPipeError as error:
        return READER_GONE if reader_is_gone() else _tell(error)
    except SystemExit as end:  # rich, which draws the help, ends so where its reader is gone
        if isinstance(end.__context__, BrokenPipeError):
            return READER_GONE
        raise
    except KeyboardInterrupt:
        say("foil: interrupted")
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place where the user can read of one
        return _tell(error)
    return 0


def _tell(error: Exception) -> int:
    if isinstance(error, FoilError):
        say(f"foil: {error}")
        return error.exit_code
    if format_message := getattr(error, "format_message", None):  # typer's own errors
        context, message = getattr(error, "ctx", None), format_message()
        usage = f"{context.get_usage()}\n" if context else ""
        say(message if usage and message.startswith(usage) else f"{usage}foil: {message}")
        return UsageError.exit_code
    if isinstance(error, MemoryError):
        say("foil: this machine has no memory left for that; give it less to do at a time, or more memory")
        return FoilError.exit_code
    if isinstance(error, OSError) and error.errno in _STORAGE:
        files = error.errno in _OPEN_FILES
        advice = "raise the limit of open files (`ulimit -n`)" if files else "see to it (space, quota, mount)"
        say(f"foil: the storage failed: {error}; {advice} and run the same command again")
        return CommitError.exit_code
    if isinstance(error, OSError) and error.errno in _PATH and error.filename:
        say(f"foil: cannot use {error.filename}: {error.strerror}; give another path, or mend its rights")
        return UsageError.exit_code
    return _tell_fault(error)


def _tell_fault(error: Exception) -> int:
    if os.environ.get("FOIL_TRACEBACK"):
        say("".join(traceback.format_exception(error)).rstrip())
    say(
        f"foil: this is a fault of Foil, not of yours: {type(error).__name__}: {error} ({_place(error)}); "
        "run the same command with FOIL_TRACEBACK=1 and report what it prints"
    )
    return FAULT


def _place(error: Exception) -> str:
    """The innermost line of our own code that the error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_HOME) and ".venv" not in frame.filename]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
