"""The body of a request for a reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foil.engine.answer_forms import Structured, turns_of
from foil.engine.requests import Request

_NOT_STRICT = {"default", "minLength", "maxLength", "minItems", "maxItems"}


def body_of(request: Request, structured: Structured) -> dict[str, Any]:
    """The body of POST /chat/completions."""
    body: dict[str, Any] = {"model": request.model, "messages": turns_of(request, structured), **request.params}
    if request.schema is not None and structured == "json_schema":
        strict = _is_closed(request.schema)
        schema = {"name": "answer", "schema": _strict(request.schema) if strict else request.schema, "strict": strict}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.schema is not None and structured == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body


def _strict(schema: Any) -> Any:
    """The schema without what some providers refuse in strict mode: bounds and defaults, which the parser checks."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    by_name = {"properties", "$defs"}
    return {
        key: {name: _strict(part) for name, part in value.items()} if key in by_name else _strict(value)
        for key, value in schema.items()
        if key not in _NOT_STRICT
    }


def _is_closed(schema: Any) -> bool:
    """Whether every object in the schema forbids other keys and requires all of its own, as `strict` wants it."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        properties = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False or properties != set(schema.get("required", ())):
            return False
    return all(map(_is_closed, schema.values()))
