"""Two records of one id, in every corpus and benchmark: equal ones are one, and counted; others are refused."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.files.ledger import Ledger

Content = TypeVar("Content", bound=Hashable)


class _First(NamedTuple, Generic[Content]):
    content: Content
    path: str
    line: int


class UniqueRecords(Generic[Content]):
    """The ids of records, each with its content and the place of its first record; `what` they are, "document"."""

    def __init__(self, kind: str, ledger: Ledger) -> None:
        self._what, self._ledger = kind, ledger
        self._first: dict[str, _First[Content]] = {}

    def take(self, record_id: str, content: Content, path: str, line: int) -> bool:
        """True for a new id, False for an equal record once more. Raises SeedFormatError that names both places."""
        record = _First(content, path, line)
        first = self._first.setdefault(record_id, record)
        if first is record:
            return True
        if first.content != content:
            expected = f"one {self._what} of the id {record_id!r}, as at {first.path}:{first.line}"
            raise SeedFormatError(path, line, expected, f"another {self._what} of this id")
        self._ledger.note("duplicates", f"{path}:{line}, as {first.path}:{first.line}")
        return False
