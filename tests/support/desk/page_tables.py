"""A page's tables and links as data, read as a browser would: with the standard library's parser."""

import math
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class PageSection:
    """A section with an id: the SQL that it shows, and the texts of its first table's cells."""

    sql: str = ""
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


class PageReader(HTMLParser):
    """`sections` by id, all attributes that could load something as `loads`, and every tag as `tags`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sections: dict[str, PageSection] = {}
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self._section: PageSection | None = None
        self._tables = 0
        self._into = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.add(tag)
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in {"src", "href", "action", "data"}]
        self.loads += [f"{tag} {name}" for name in named if name == "style" or name.startswith("on")]
        if tag == "section" and named.get("id"):
            self._section, self._tables = self.sections.setdefault(str(named["id"]), PageSection()), 0
        self._tables += tag == "table"
        if self._section is None:
            return
        if tag == "pre" and named.get("class") == "sql":
            self._into = "sql"
        if self._tables == 1 and tag == "tr":
            self._section.rows.append([])
        if self._tables == 1 and tag in {"td", "th"}:
            self._into = tag
            cells = self._section.head if tag == "th" else self._section.rows[-1]
            cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"pre", "td", "th"}:
            self._into = ""
        if tag == "section":
            self._section = None

    def handle_data(self, data: str) -> None:
        if self._section is None or not self._into:
            return
        if self._into == "sql":
            self._section.sql += data
        elif self._into == "th":
            self._section.head[-1] += data
        else:
            self._section.rows[-1][-1] += data


def is_value(text: str, value: Any) -> bool:
    """Whether a cell's text shows this value, to the digits that it has."""
    if value is None or value == "":
        return text == "–"
    if isinstance(value, bool):
        return text == ("yes" if value else "no")
    if isinstance(value, int | float):
        shown = float(text.rstrip("%").replace(",", "")) / (100 if text.endswith("%") else 1)
        digits = len(text.rstrip("%").partition(".")[2]) + (2 if text.endswith("%") else 0)
        return math.isclose(shown, value, abs_tol=0.5000001 * 10**-digits)
    return text == str(value)
