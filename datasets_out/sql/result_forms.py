"""How each DuckDB type leaves the query's process, decided in SQL, where every value is still exact.

    select_list(names, types, form) -> the columns of `SELECT ... FROM (the query)`

| form | every column becomes |
|---|---|
| `typed` | the Arrow type that holds all its values and that Parquet can store; text where there is none |
| `text` | DuckDB's own text of the value; JSON for lists, structs, maps and unions |
| `json` | the value as a JSON document, or SQL NULL |

Python and Arrow lack dates before year 1 and after 9999, infinite times, 24:00:00, offsets of times, integers of 128
bits and intervals of months; the texts that DuckDB makes have them all.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

Form = Literal["typed", "text", "json"]

_NESTED = {"list", "array", "struct", "tuple", "map", "union", "variant"}
_STORED = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint", "float",
    "double", "decimal", "date", "time", "time_ns", "timestamp", "timestamp_ms", "timestamp_ns", "timestamptz_ns",
    "timestamp with time zone", "varchar", "uuid", "blob", "geometry", "null",
}  # fmt: skip
_CAST_TO = {
    "hugeint": "DECIMAL(38, 0)", "uhugeint": "DECIMAL(38, 0)", "timestamp_s": "TIMESTAMP", "union": "JSON",
    "variant": "JSON",
}  # fmt: skip
_NO_FREE_TEXT = _STORED - {"varchar", "blob", "geometry"} | {"hugeint", "uhugeint", "bignum", "timestamp_s",
    "time with time zone", "interval"}  # fmt: skip


def select_list(names: Sequence[str], types: Sequence[Any], form: Form) -> str:
    """The columns in that form, under their names. They are taken by position, since names may repeat."""
    columns = zip(names, types, strict=True)
    return ", ".join(f"{_expression(f'#{n}', t, form)} AS {_quoted(name)}" for n, (name, t) in enumerate(columns, 1))


def may_be_formula(kind: Any) -> bool:
    """Whether the text of a DuckDB type may be any text; numbers and times are not."""
    return kind.id not in _NO_FREE_TEXT


def _expression(column: str, kind: Any, form: Form) -> str:
    if form == "typed":
        stored = _stored_type(kind)
        return column if stored == str(kind) else f"CAST({column} AS {stored})"
    if form == "json" or kind.id in _NESTED:
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def _stored_type(kind: Any) -> str:
    """The SQL type that holds what a DuckDB type holds, and that Arrow and Parquet have too."""
    if kind.id in _STORED:
        return str(kind)
    children = [(name, _stored_type(child)) for name, child in _children(kind)]
    if kind.id in {"list", "array"}:
        return f"{children[0][1]}[]"
    if kind.id == "map":
        return f"MAP({children[0][1]}, {children[1][1]})"
    if kind.id in {"struct", "tuple"}:
        fields = ", ".join(f"{_quoted(name or f'element{n}')} {stored}" for n, (name, stored) in enumerate(children, 1))
        return f"STRUCT({fields})" if children else "JSON"
    return _CAST_TO.get(kind.id, "VARCHAR")


def _children(kind: Any) -> Iterator[tuple[str, Any]]:
    """The types inside a nested type, with their names."""
    if kind.id in _NESTED - {"union", "variant"}:
        yield from ((name, child) for name, child in kind.children if hasattr(child, "id"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
