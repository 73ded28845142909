"""What a check is, what becomes of it, and how it says that it is skipped or that two results differ."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Figures = dict[str, Any]


class SkippedError(Exception):
    """A check has nothing to run on here; the message says what it needs."""


class UnequalError(Exception):
    """Two ways to compute the same gave different results; the message says how far apart they are."""


def require_close(what: str, difference: float, allowed: float) -> None:
    """Raises UnequalError if a difference is above what is allowed, or no number."""
    if not difference <= allowed:
        raise UnequalError(f"{what} differ by {difference:.2g}; allowed are {allowed:g}")


@dataclass(frozen=True, slots=True)
class Check:
    """`function`, as "module:name", gets the sizes and an empty folder, and yields figures by name.

    Its process imports the module, so what a machine lacks fails this check alone.
    """

    name: str
    function: str
    limit_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a check; `reason` says why it was skipped or failed.

    `seconds` are of wall time, `cpu_s` those of the check's process and of what it waited for.
    """

    name: str
    ok: bool
    skipped: bool = False
    reason: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return not self.ok and not self.skipped

    def plain(self) -> dict[str, Any]:
        """The result as JSON has it, numbers with four digits."""
        plain: dict[str, Any] = _rounded(asdict(self))
        return plain


def _rounded(value: Any) -> Any:
    """The value with four significant digits in every fraction below it.

    >>> _rounded({"a": [1.23456, 12345678, "text"]})
    {'a': [1.235, 12345678, 'text']}
    """
    match value:
        case float():
            return float(f"{value:.4g}")
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case list() | tuple():
            return list(map(_rounded, value))
    return value
