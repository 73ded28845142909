"""Processes of `foil` that start with its libraries loaded: forked from one that did nothing but load them.

    run(["status", "out"], folder, environment) -> code, stdout, stderr

A second and more of every command is imports, the same each time; a suite runs a thousand commands. Each is a process
all the same, with its own signals, open files and exit handlers, and what it starts itself starts as ever.
"""

import atexit
import multiprocessing
import multiprocessing.util
import os
import resource
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from foil.engine.crash_points import arm

_LOADED = ("duckdb", "pyarrow.dataset", "pyarrow.parquet", "openai", "aiohttp", "jinja2", "rich.table", "rich.progress")
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_OF_FOIL = ("cluster.commands.app", "cluster.run_job", "cluster.job", "cluster.terminal", "datasets_out.sql.query")


@dataclass(frozen=True)
class _Place:
    """What a command inherits of those who start it."""

    folder: str
    environment: Mapping[str, str]
    streams: Sequence[Path]
    limits: Mapping[int, tuple[int, int]]


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """One command, waited for: its exit code, negative for a signal, and what it wrote."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *_LOADED, *(f"foil.{name}" for name in _OF_FOIL)])
    limits = {each: resource.getrlimit(each) for each in _LIMITS}
    with TemporaryDirectory() as written:
        streams = [Path(written, name) for name in ("stdout", "stderr")]
        place = _Place(str(folder), dict(environment), streams, limits)
        process = context.Process(target=_command, args=(list(arguments), place))
        process.start()
        process.join()
        texts = [stream.read_text() if stream.exists() else "" for stream in streams]
        code = process.exitcode
        process.close()
    assert code is not None
    return code, texts[0], texts[1]


def _command(arguments: Sequence[str], place: _Place) -> None:
    os.environ.clear()
    os.environ.update(place.environment)
    os.chdir(place.folder)
    arm(place.environment.get("FOIL_CRASH_POINT", ""))
    for number, stream in enumerate(place.streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    for each, bounds in place.limits.items():
        resource.setrlimit(each, bounds)
    sys.argv = ["foil", *arguments]
    try:
        runpy.run_module("foil", run_name="__main__", alter_sys=True)
    finally:
        multiprocessing.util._exit_function()
        atexit._run_exitfuncs()
