"""How a reply's JSON is asked for, and which way serves a model best.

    words          the prompt says it, and a line names the keys           nothing slows the engine down
    prompt         the whole JSON schema stands in the prompt
    json_object    the provider promises JSON of some kind; the schema stands in the prompt
    json_schema    the provider's grammar holds the reply to the schema

With `auto` an engine of our own machine or network begins with `words`, since a grammar there costs half the rate and
lets a small model fill its tokens with blanks. Where too few replies can be read it goes on with `json_schema`. A
hosted provider begins with `json_schema`, and goes on with `prompt` where that is refused.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from foil.engine.requests import Request

Structured = Literal["json_schema", "json_object", "prompt", "words"]
"""A way in which a reply's JSON is asked for."""

LEAST_READABLE = 0.8
"""Share of the last replies that must be readable, or `words` gives way to a grammar."""
LOOKED_AT = 40
WRITE_AGAIN = "Mend this, and write it once more as a whole."
"""How each correction ends; a small model hands the words back."""
LOG = logging.getLogger(__name__)
_FITS = "Write one JSON object and nothing before or after it. It must fit this JSON schema: "


class AnswerForm:
    """The way that serves one model, as far as its replies have shown."""

    def __init__(self, choice: Literal["auto"] | Structured, *, local: bool) -> None:
        self._is_free = choice == "auto"
        self.structured: Structured = ("words" if local else "json_schema") if choice == "auto" else choice
        self._readable: deque[bool] = deque(maxlen=LOOKED_AT)

    def refused(self, tried: Structured, name: str) -> bool:
        """Whether there is another way, now that this one was refused; from now on it is that."""
        if not self._is_free or tried in ("prompt", "words"):
            return False
        if self.structured == tried:
            LOG.warning("%s takes no %s; the schema goes into the prompt from now on", name, tried)
            self.structured = "prompt"
        return True

    def heard(self, name: str, *, readable: bool) -> None:
        """Notes whether a reply in `words` could be read."""
        if not self._is_free or self.structured != "words":
            return
        self._readable.append(readable)
        share = sum(self._readable) / LOOKED_AT
        if len(self._readable) == LOOKED_AT and share < LEAST_READABLE:
            LOG.warning("%s: %.0f %% of %d replies can be read; a grammar from now on", name, 100 * share, LOOKED_AT)
            self.structured = "json_schema"


def is_local(url: str) -> bool:
    """Whether a URL names this machine or its network, by its address: no name is looked up."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host


def turns_of(request: Request, structured: Structured) -> list[dict[str, str]]:
    """The turns of a request. Where no grammar does, the first says what JSON is wanted: a correction changes nothing
    before its own turn, and a prefix cache serves it."""
    turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
    if request.schema is None or structured == "json_schema":
        return turns
    schema_words = keys_line(request.schema) if structured == "words" else _FITS + json.dumps(request.schema)
    turns[0] = {**turns[0], "content": f"{turns[0]['content']}\n\n{schema_words}"}
    return turns


def keys_line(schema: Mapping[str, Any]) -> str:
    """The keys of an answer in one line, for a prompt whose model gets no schema."""
    keys = [f'"{name}" ({_words(field, schema)})' for name, field in schema.get("properties", {}).items()]
    return f"The answer is one JSON object with the keys {', '.join(keys)}."


def _words(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What a field holds, as a person would say it."""
    if "$ref" in field:
        field = schema["$defs"][field["$ref"].rpartition("/")[2]]
    options = field.get("enum") or [choice.get("const", choice.get("type")) for choice in field.get("anyOf", ())]
    if options:
        return " or ".join(map(str, options))
    kinds = {"string": "a text", "boolean": "true or false", "array": "a list", "object": "an object"}
    kind = kinds.get(field.get("type", ""), field.get("type", "any value"))
    items = field.get("items", {})
    return f"a list: {_words(items, schema)} each" if kind == "a list" and items else str(kind)


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
