"""What a reader did not take as it stands: of each kind how often, and where first.

reader, benchmark -> Ledger -> out/sessions, `foil status --json`, results.jsonl, and a line for each kind at the end
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

KINDS: Mapping[str, str] = {
    "skipped": "bad records were skipped",
    "unread_files": "files are of kinds that are not read, and were passed over",
    "duplicates": "records repeat one of the same id and content, and count once",
    "regraded": "judgments give a pair another grade than before, of which the higher counts",
    "missing_documents": "judged documents are in no file",
    "missing_queries": "judged queries are in no file",
    "views_alike": "queries ask the same under two instructions that want other documents: no system can follow both",
    "blank_documents": "judged documents have no text",
    "missing_values": "attributes have no value in their row",
    "files": "files were read",
    "other_files": "files are no text, Markdown, HTML or PDF, and were left out",
    "unreadable_files": "files could not be read, and were left out",
    "blank_files": "files have no passage, and were left out",
    "reencoded_files": "files are not in UTF-8, and were read as Windows-1252",
    "short_passages": "passages have too few words, and were left out",
    "near_duplicates": "passages nearly repeat an earlier one, and were left out",
    "held_out": "seeds are held out of training by their attribute `split: heldout`",
}
"""Each kind in words, behind its number."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How often something was met, and where first."""

    count: int
    first: str


class Ledger:
    """What was noted so far, by kind."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __getitem__(self, kind: str) -> int:
        """How often that kind was met."""
        return self._entries[kind].count if kind in self._entries else 0

    def note(self, kind: str, first: str, count: int = 1) -> None:
        """Counts something; `first` says where the first of it was."""
        if kind not in KINDS:
            raise KeyError(kind)
        if count:
            before = self._entries.get(kind, Entry(0, first))
            self._entries[kind] = Entry(before.count + count, before.first)

    def add(self, ledger: "Ledger") -> None:
        """Takes in what another reader noted."""
        for kind, entry in ledger.entries().items():
            self.note(kind, entry.first, entry.count)

    def entries(self) -> dict[str, Entry]:
        """What was noted, by kind."""
        return self._entries.copy()

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {kind: asdict(entry) for kind, entry in self.entries().items()}


def ledger_lines(plain: Mapping[str, Any]) -> Iterator[str]:
    """A line for each kind that was met, in the order of KINDS."""
    for kind, words in KINDS.items():
        if kind in plain:
            yield f"{plain[kind]['count']:,} {words} (first: {plain[kind]['first']})"
