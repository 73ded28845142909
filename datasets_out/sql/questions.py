"""The questions that a curator asks of a run, ready to be asked: those of docs/sql.md, out of questions.sql."""

from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("questions.sql")


@cache
def questions() -> tuple[tuple[str, str], ...]:
    """Words and SQL of each, in the order of the page."""
    _, *parts = _FILE.read_text(encoding="utf-8").split("\n\n-- ")
    pairs = (part.partition("\n") for part in parts)
    return tuple((words, sql.strip().removesuffix(";")) for words, _, sql in pairs)


def questions_of_one_run() -> tuple[tuple[str, str], ...]:
    """Those that need no second run."""
    return tuple(pair for pair in questions() if "foil sql A B" not in pair[0])
