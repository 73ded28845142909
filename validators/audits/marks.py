"""What a reader marked on a sheet: its jsonl form filled in, or the lines `marks N:` of its text form.

    marks 3: A+ B-u C0 natural=y gives=n # C is a menu
    {"item": 3, "marks": {"A": "+", "B": "-u", "C": "0", "natural": "y", "gives": "n", "remark": "C is a menu"}}

Promise: a mark that cannot be read, is missing among others, or names what the sheet has not, is an error naming the
item; an item without any mark is left out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.engine.errors import UsageError
from foil.engine.seeds.files.text_files import read_text
from foil.validators.audits.sheet import Key

_MARK = re.compile(r"([+\-0])(u?)")
_LINE = re.compile(r"marks (\d+):([^#]*)#?(.*)")
_YES_NO = {"y": True, "n": False}


@dataclass(frozen=True, slots=True)
class PassageMark:
    """`relevant` under query and instruction; `answers` the query alone; `usable` as a text."""

    relevant: bool
    answers: bool
    usable: bool


@dataclass(frozen=True, slots=True)
class ItemMarks:
    """The marks of one item, passages by their ids."""

    number: int
    passages: Mapping[str, PassageMark]
    natural: bool
    gives_away: bool
    remark: str


def read_marks(path: Path, key: Key) -> list[ItemMarks]:
    """The marked items of a filled sheet. Raises UsageError that names the item, or that none is marked."""
    text = read_text(path, "the filled .jsonl or .txt form of the sheet")
    items = dict[int, ItemMarks]()
    for number, marks in _json_marks(path, text) if path.suffix == ".jsonl" else _text_marks(text):
        if number in items:
            raise _error(path, number, "it stands twice")
        if any(value for name, value in marks.items() if name != "remark"):
            items[number] = _item_marks(path, number, marks, key)
    if not items:
        raise UsageError(f"the sheet {path} has no marks yet; its first lines, or docs/curators.md, say how to mark")
    return list(items.values())


def marks_of(values: Mapping[str, str], number: int, key: Key) -> ItemMarks:
    """The marks of one item out of a form's values: `A`: `+u`, `natural`: `y`. UsageError for what is missing."""
    return _item_marks(Path("your marks"), number, values, key)


def split_marks(line: str) -> dict[str, str]:
    """`A+ B-u natural=y gives=n # remark` -> the values that `marks_of` takes. Raises UsageError."""
    marks, _, remark = line.partition("#")
    return {**dict(map(_split_mark, marks.split())), "remark": remark.strip()}


def _text_marks(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            words = [word for word in match[2].split() if not word.endswith("?")]
            yield int(match[1]), {**dict(map(_split_mark, words)), "remark": match[3].strip()}


def _split_mark(word: str) -> tuple[str, str]:
    """`A+u` -> A, +u; `natural=y` -> natural, y."""
    name, equals, value = word.partition("=")
    letter = word.rstrip("+-0u")
    return (name, value) if equals else (letter, word[len(letter) :])


def _json_marks(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for place, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            yield int(row["item"]), {str(name): str(value).strip() for name, value in row["marks"].items()}
        except (ValueError, LookupError, TypeError, AttributeError):
            raise UsageError(f"{path}:{place}: not a line of a sheet, with `item` and `marks`; mend it") from None


def _item_marks(path: Path, number: int, marks: Mapping[str, str], key: Key) -> ItemMarks:
    item = key.get(str(number))
    if item is None:
        raise _error(path, number, f"the audit has {len(key)} items; is it the sheet of another audit?")
    passages: Mapping[str, Any] = item["passages"]
    if unknown := marks.keys() - passages.keys() - {"natural", "gives", "remark"}:
        raise _error(path, number, f"there is no passage {min(unknown)!r}")
    return ItemMarks(
        number,
        {passages[letter]["id"]: _passage_mark(path, number, letter, marks.get(letter, "")) for letter in passages},
        "plain" in item or _yes_no(path, number, "natural", marks),
        "plain" not in item and _yes_no(path, number, "gives", marks),
        marks.get("remark", ""),
    )


def _passage_mark(path: Path, number: int, letter: str, mark: str) -> PassageMark:
    match = _MARK.fullmatch(mark)
    if match is None:
        raise _error(path, number, f"passage {letter} is marked {mark!r}; expected +, - or 0, and u if it is unusable")
    return PassageMark(match[1] == "+", match[1] != "0", not match[2])


def _yes_no(path: Path, number: int, name: str, marks: Mapping[str, str]) -> bool:
    answer = _YES_NO.get(marks.get(name, ""))
    if answer is None:
        raise _error(path, number, f"`{name}` is {marks.get(name, '')!r}; expected y or n")
    return answer


def _error(path: Path, number: int, problem: str) -> UsageError:
    return UsageError(f"{path}: item {number}: {problem}; mend its marks, such as A+ B- C0u natural=y gives=n")
