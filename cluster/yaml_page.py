"""YAML as a job is written: the core schema of YAML 1.2, within bounds, and nothing else.

    text -> read_yaml(text, place) -> values, and the line of each

Only `true` and `false` are booleans, only `null` and `~` are null; whole numbers are decimal, `0o17` or `0xff`, and all
numbers are finite. `yes`, `1:00:00` and dates are texts. Tags, merge keys, keys that stand twice, numbers like `010`,
and what is nested too deep or has too many values, aliases followed, are refused. A refusal names the line, and
shows no value from below `models`, where any may be a key in the wrong place.
"""

import math
import re
from typing import Any

import yaml

from foil.engine.errors import UsageError

MAX_NODES = 20_000
MAX_DEPTH = 32
MAX_DIGITS = 18
"""Values of a page after aliases, levels of nesting, digits of a whole number (which then fits in 64 bits)."""

KeyPath = tuple[str | int, ...]
_CONSTANTS = {word: value for name, value in (("null", None), ("true", True), ("false", False))
              for word in (name, name.capitalize(), name.upper())} | {"": None, "~": None}  # fmt: skip
_INTEGERS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"[-+]?([0-9]+)"), 10),
    (re.compile(r"0o([0-7]+)"), 8),
    (re.compile(r"0x([0-9a-fA-F]+)"), 16),
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_yaml(text: str, place: str, within: KeyPath = ()) -> tuple[Any, dict[KeyPath, int]]:
    """The one document of a text, and the line of every key and item in it. Raises UsageError that names `place`.

    `within` is where in a job the document stands.
    """
    try:
        text.encode()
        reader = _Reader(place, text, within)
        return reader.document(), reader.lines
    except UnicodeEncodeError:
        raise UsageError(f"{place}: the text is no UTF-8; mend it") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        position = f"{place}:{mark.line + 1}" if mark else place
        raise UsageError(f"{position}: not valid YAML: {problem}; mend the line") from None


def cut(text: str, most: int = 80) -> str:
    """A text as a message shows it: not all of a long one."""
    return text if len(text) <= most else text[: most - 3] + "..."


def shown(value: object) -> str:
    """A value as a message shows it."""
    return cut(repr(value))


def is_hidden(key_path: KeyPath) -> bool:
    """Whether values are never shown here: below `models`, any of them may be a key in the wrong place."""
    return key_path[:1] == ("models",)


class _Reader:
    """Follows the parser's events, which need no recursion; a repeated alias replays the events of its anchor."""

    def __init__(self, place: str, text: str, within: KeyPath) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._place, self._within, self._nodes = place, within, 0
        self._source = yaml.parse(text, Loader=yaml.CSafeLoader)
        self._events: list[Any] = []
        self._at = 0
        self._anchors: dict[str, int] = {}

    def document(self) -> Any:
        """The value of the only document; None for an empty text."""
        self._next()  # the start of the stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        value = self._value(())
        self._next()  # the end of the document
        if not isinstance(after := self._next(), yaml.StreamEndEvent):
            raise self._refused(after, "a second document; keep one")
        return value

    def _next(self) -> Any:
        if self._at == len(self._events):
            self._events.append(next(self._source))
        self._at += 1
        return self._events[self._at - 1]

    def _ends(self, end: type[yaml.Event]) -> bool:
        """Whether the next event is this end, which is then passed."""
        if isinstance(self._next(), end):
            return True
        self._at -= 1
        return False

    def _value(self, key_path: KeyPath) -> Any:
        start, event = self._at, self._next()
        self._check(event, key_path)
        self.lines.setdefault(key_path, event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent):
            return self._replayed(event, key_path)
        value = self._content(event, key_path)
        if event.anchor and self._anchors.setdefault(event.anchor, start) != start:
            raise self._refused(event, f"the anchor '&{cut(event.anchor)}' stands twice; give each a name of its own")
        return value

    def _check(self, event: Any, key_path: KeyPath) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._refused(event, f"over {MAX_NODES:,} values after aliases; write them out without aliases")
        if len(key_path) > MAX_DEPTH:
            raise self._refused(event, f"over {MAX_DEPTH} levels deep; write it flatter")
        if getattr(event, "tag", None):
            tag = cut(event.tag)
            raise self._refused(event, f"the tag {tag!r} is not read; write the plain value, or quote a text")

    def _replayed(self, alias: Any, key_path: KeyPath) -> Any:
        if alias.anchor not in self._anchors:
            raise self._refused(alias, f"'*{cut(alias.anchor)}': no anchor stands before it; write the value out")
        after, self._at = self._at, self._anchors[alias.anchor]
        value = self._value(key_path)
        self._at = after
        return value

    def _content(self, event: Any, key_path: KeyPath) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(key_path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not self._ends(yaml.SequenceEndEvent):
                items.append(self._value((*key_path, len(items))))
            return items
        return self._scalar(event, "this" if is_hidden((*self._within, *key_path)) else cut(event.value))

    def _mapping(self, key_path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not self._ends(yaml.MappingEndEvent):
            event = self._next()
            key = self._key(event)
            if key in values:
                raise self._refused(event, f"the key {shown(key)} stands twice; keep one")
            self.lines.setdefault((*key_path, key), event.start_mark.line + 1)
            values[key] = self._value((*key_path, key))
        return values

    def _key(self, event: Any) -> str:
        """A key is its text, whatever it looks like."""
        if not isinstance(event, yaml.ScalarEvent) or event.tag or event.anchor:
            raise self._refused(event, "a key is a plain text; write one")
        if event.value == "<<" and event.implicit[0]:
            raise self._refused(event, "merge keys (<<) are not read; write the keys out")
        return self._text(event)

    def _scalar(self, event: Any, label: str) -> Any:
        text = self._text(event)
        if not event.implicit[0]:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        for pattern, base in _INTEGERS:
            if match := pattern.fullmatch(text):
                return self._integer(event, match[1], base, label)
        finite = not _NOT_FINITE.fullmatch(text)
        value = float(text) if finite and _FLOAT.fullmatch(text) else None
        if not finite or (value is not None and not math.isfinite(value)):
            raise self._refused(event, f"{label} is no finite number; write a finite one, or quote a text")
        return text if value is None else value

    def _integer(self, event: Any, digits: str, base: int, label: str) -> int:
        if len(digits) > MAX_DIGITS:
            why = f"has {len(digits):,} digits; a whole number has at most {MAX_DIGITS}"
            raise self._refused(event, f"{label} {why}, or is a quoted text")
        if base == 10 and len(digits) > 1 and digits.startswith("0"):
            why = "is decimal to some readers of YAML and octal to others"
            raise self._refused(event, f"{label} {why}; drop the first zero, write 0o for octal, or quote a text")
        sign = -1 if event.value.startswith("-") else 1
        return sign * int(digits, base)

    def _text(self, event: Any) -> str:
        text: str = event.value
        if "\0" in text:
            raise self._refused(event, "a null character, which no setting holds; remove it")
        return text

    def _refused(self, event: Any, why: str) -> UsageError:
        return UsageError(f"{self._place}:{event.start_mark.line + 1}: {why}")
