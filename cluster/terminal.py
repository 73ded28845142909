"""How `foil` prints, and the only place where it does: notes to stderr, tables and data to stdout.

Promise: no text of a corpus, a model or a provider steers the terminal or is read as markup; what is not a sign of its
own is shown as an escape (`\\x1b`). Data (`--json`, `--csv`) is exact in a file or a pipe, and UTF-8 there; on a
terminal it is shown the same careful way. With `--json` nothing else is on stdout. Whoever stops reading stdout ends
the command quietly; stderr may be closed.
"""

import json
import os
import select
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from foil.engine.visible_text import log_visibly, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

READER_GONE = 141
"""The exit code of a command whose stdout was closed by its reader: 128 + SIGPIPE, as other programs end."""

_COLUMN_WIDTH = 8  # with its borders, at least: rich drops what has no room, and a terminal wraps what has too little
_NOT_FOUND = 127
_PAGE_WIDTH = 20
_NAME_WIDTH = 27

Rows = Iterable[Sequence[Any]]
_DATA_ALONE = ContextVar("data_alone", default=False)


def prepare_streams() -> None:
    """Makes stdout and stderr take any character; one that was closed before the start takes all and keeps nothing."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", lambda **_: None)
        reconfigure(errors="backslashreplace", **({} if stream.isatty() else {"encoding": "utf-8"}))
    log_visibly()


def say(text: str) -> None:
    """One line to the user; data goes to stdout, so words go to stderr."""
    with suppress(OSError):  # no run ends because nobody listens
        print(visible(text), file=sys.stderr, flush=True)


def print_line(text: str, end: str = "\n") -> None:
    """A line for people on stdout."""
    _write_words(visible(text) + end)


def print_paragraph(text: str, indent: str = "") -> None:
    """A text for people on stdout, as wide as the terminal (80 columns where there is none); later lines stand in."""
    from rich.console import Console
    from rich.text import Text

    console = Console(color_system=None)
    width = max(console.width - 1 - len(indent), _PAGE_WIDTH)
    words = Text(" ".join(visible(text).split()))
    first = words.wrap(console, width)[:1]
    rest = Text(words.plain[len(first[0].plain) :].lstrip()) if first else Text("")
    for hang, lines in (("", first), ("  ", rest.wrap(console, width - 2) if rest else [])):
        for line in lines:
            print_line(f"{indent}{hang}{line.plain.rstrip()}")


def print_data(text: str) -> None:
    """Data for programs on stdout, exact unless stdout is a terminal."""
    _write(visible(text) if sys.stdout.isatty() else text)


def print_json(value: Any) -> None:
    """One JSON document as a line of data."""
    print_data(json.dumps(value) + "\n")


def show(columns: Sequence[str], rows: Rows, title: str | None = None, *, numbers: bool = False) -> None:
    """A table on stdout. `numbers`: all columns but the first are aligned to the right."""
    from rich.console import Console

    console = Console(color_system=None)
    console.width = max(console.width, _COLUMN_WIDTH * len(columns) + 1)
    with console.capture() as capture:
        console.print(_table(columns, rows, title, numbers=numbers))
    _write_words(capture.get())


def in_columns(name: str, cells: Sequence[str], widths: Iterable[int]) -> str:
    """A line of a table without borders, its cells to the right; a longer name has a line of its own."""
    line = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    return name.ljust(_NAME_WIDTH) + line if len(name) <= _NAME_WIDTH else f"{name}\n{' ' * _NAME_WIDTH}{line}"


def is_interactive() -> bool:
    """Whether a person may be typing and looking."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def lines_of_user(prompt: str) -> Iterator[str]:
    """What a person types, a line at a time, with the editing and the history of readline; Ctrl-D ends it."""
    with suppress(ImportError):
        import_module("readline")  # gives `input` its editing
    while True:
        try:
            yield input(prompt)
        except EOFError:
            _write("\n")
            return


def print_pages(make: "Callable[[Console], Iterable[RenderableType]]") -> None:
    """What `make` draws for a console, on stdout; through the user's pager where the terminal has not the room.

    A plain text is printed as it is, its lines unbroken. Colours are for terminals alone; `make` sees by
    `console.color_system` whether there are any.
    """
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, emoji=False, color_system=None)
    console.width = max(console.width, _PAGE_WIDTH)
    with console.capture() as capture:
        for part in make(console):
            console.print(visible(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))
    text = "\n".join(line.rstrip() for line in capture.get().split("\n"))
    if not (console.is_terminal and text.count("\n") >= console.height and _through_pager(text)):
        _write_words(text)


def _through_pager(text: str) -> bool:
    """Shows the text in the program that PAGER names (less, if none is named); False where there is no such program."""
    pager = shlex.split(os.environ.get("PAGER", "less"))
    if not pager or not sys.stdin.isatty():
        return False
    try:
        process = subprocess.Popen(pager, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})
    except OSError:
        return False
    with process, suppress(KeyboardInterrupt):
        process.communicate(text.encode(errors="backslashreplace"))
    return process.returncode != _NOT_FOUND


@contextmanager
def data_alone() -> Iterator[None]:
    """Within it, words and tables for people go to stderr, so that a program reads one document on stdout."""
    token = _DATA_ALONE.set(True)
    try:
        yield
    finally:
        _DATA_ALONE.reset(token)


@contextmanager
def live_table() -> Iterator[Callable[[Sequence[str], Rows, str], None] | None]:
    """Shows a table on stderr that renews itself: call what is yielded. None where stderr is no terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda columns, rows, title: live.update(_table(columns, rows, title, numbers=True))


@contextmanager
def byte_bars(names: Iterable[str]) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar on stderr for each name; what is yielded takes a name, its bytes so far, and of how many."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {name: bars.add_task(visible(name), total=None) for name in names}
        yield lambda name, completed, total: bars.update(tasks[name], completed=completed, total=total)


def _table(columns: Sequence[str], rows: Rows, title: str | None, *, numbers: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    def text(cell: Any) -> Text:  # no markup, no emoji names, no highlighting
        return Text("" if cell is None else visible(str(cell)))

    table = Table(title=text(title) if title else None, title_justify="left", show_header=any(columns))
    for place, name in enumerate(columns):
        table.add_column(text(name), overflow="fold", justify="right" if numbers and place else "left")
    for row in rows:
        table.add_row(*map(text, row))
    return table


def _write_words(text: str) -> None:
    if not _DATA_ALONE.get():
        _write(text)
    elif text:
        say(text.removesuffix("\n"))


def _write(text: str) -> None:
    """All of the text, or an error: with PYTHONUNBUFFERED, Python's own write drops what a full pipe or disk left."""
    rest = memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
    try:
        sys.stdout.flush()
        while rest:
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        raise SystemExit(READER_GONE) from None
    except OSError:
        _drop_stdout()
        raise


def reader_is_gone() -> bool:
    """Whether nobody reads stdout any more; what is left to print is then dropped."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    if any(state & select.POLLERR for _, state in poll.poll(0)):
        _drop_stdout()
        return True
    return False


def _drop_stdout() -> None:
    """Lets the interpreter's own flush at its end succeed."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
