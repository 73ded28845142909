"""Structured replies: the JSON object in a model's reply, checked against the schema that the request carried.

Models put JSON into prose, into code fences, or behind their reasoning. The parser first tries the whole text, then
the fenced blocks, then all objects in the text as one, where no key stands twice, then each, the last one first, since
an answer follows its reasoning. What stands before the mark that ends a model's thoughts is not looked at. Where
nothing fits, objects with the slips that models make are mended; what is missing is never made up.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from foil.engine.errors import UnreadableReplyError
from foil.engine.protocols import PlainAnswer, WordReply

A = TypeVar("A", bound=BaseModel)

MAX_REPLY = 400_000
"""Most characters of a reply; a longer one is refused."""
_MAX_BRACES = 1_000
_MAX_WORK = 8 * MAX_REPLY
"""Characters that may be read in the search for objects, since one text can be read from each of its braces on."""
_DEEP = 5_000
"""Characters at least that are read of an object that is nested too deep."""
_BEGUN = r"<(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)>|\[THINK\]|◁think▷"
_ENDED = r"</(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
_THOUGHTS = re.compile(rf"\A\s*(?:{_BEGUN}).*?(?:{_ENDED})|\A(?:(?!{_BEGUN}).)*?(?:{_ENDED})", re.DOTALL)
"""Thoughts before a text; their opening mark may have stood in the prompt."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


class StructuredReply(BaseModel):
    """Base of the reply types: immutable, and an unknown field is an error. Its JSON schema requires every key, as the
    strict modes of providers want it; where a key has a default, a reply without it is read all the same.

    The JSON schema of a reply type is part of every request id: its name, docstring and field descriptions must stay.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        own = handler.resolve_ref_schema(schema)
        own["required"] = list(own.get("properties", {}))
        return schema


def parse_reply(text: str, answer: type[A]) -> A:
    """The reply as an `answer`; where that is plain text, the reply without the thoughts before it.

    UnreadableReplyError says what is wrong with the likeliest candidate.
    """
    if issubclass(answer, WordReply):
        return answer.read(text)
    if len(text) > MAX_REPLY:
        raise UnreadableReplyError(
            f"the reply has {len(text)} characters, more than {MAX_REPLY}; ask for a shorter one"
        )
    if issubclass(answer, PlainAnswer):
        return answer(text=_THOUGHTS.sub("", text).strip())
    first_error: ValidationError | None = None
    for candidate in _candidates(text, answer):
        try:
            return answer.model_validate_json(candidate)
        except ValidationError as error:
            first_error = first_error or error
    if first_error is None:
        excerpt = text if len(text) <= 120 else text[:117] + "..."
        raise UnreadableReplyError(
            f"the reply holds no JSON object: {excerpt!r}; answer with one object of the given schema"
        )
    problem = first_error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, problem["loc"])) or "the object"
    title = answer.model_config.get("title") or answer.__name__
    raise UnreadableReplyError(
        f"the reply does not fit {title}: {field}: {problem['msg']}; mend that field"
    ) from first_error


def begins_with_thoughts(text: str) -> bool:
    """Whether a text begins with a model's thoughts, whole or cut."""
    return bool(re.match(rf"\s*(?:{_BEGUN})", text) or _THOUGHTS.match(text))


def _candidates(text: str, answer: type[BaseModel]) -> Iterator[str]:
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        yield stripped
    reply = re.split(_ENDED, text)[-1]
    yield from reversed(_FENCE.findall(reply))
    objects = list(_objects(reply))
    yield from _joined([json.loads(each) for each in objects])
    yield from reversed(objects)
    yield from map(json.dumps, reversed([inner for each in objects for inner in _inner_objects(json.loads(each))]))
    mended = lenient_objects(reply)
    yield from map(json.dumps, reversed(mended))
    yield from map(json.dumps, reversed([inner for each in mended for inner in _inner_objects(each)]))
    if getattr(answer, "READS_CUT", False) and not objects:
        yield from _closed(reply)


def _joined(objects: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Several objects as one, where no key stands twice: some models write an object for each list."""
    joined = dict(chain.from_iterable(each.items() for each in objects))
    if len(objects) > 1 and len(joined) == sum(map(len, objects)):
        yield json.dumps(joined)


def _closed(text: str) -> Iterator[str]:
    """An object that was cut within a list of texts, closed behind the last whole text."""
    start, end = text.find("{"), text.rfind('",')
    if 0 <= start < end:
        yield text[start : end + 1] + "]}"


def _inner_objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects within an object: some models write the schema, and their answer inside it."""
    for inner in value.values() if isinstance(value, dict) else ():
        if isinstance(inner, dict):
            yield inner
            yield from _inner_objects(inner)


def _objects(text: str) -> Iterator[str]:
    """The outermost JSON objects of the text, in order, as far as they begin with one of its last braces."""
    decoder, work = json.JSONDecoder(), 0
    start = _last_braces(text)
    while start >= 0 and work < _MAX_WORK:
        try:
            _, end = decoder.raw_decode(text, start)
            yield text[start:end]
        except json.JSONDecodeError as error:
            work += error.pos - start
            end = start + 1
        except RecursionError:
            work += _DEEP
            end = start + 1
        start = text.find("{", end)


def _last_braces(text: str) -> int:
    """Where the last `_MAX_BRACES` opening braces begin, -1 where there is none."""
    places = [match.start() for match in re.finditer("{", text)]
    return places[-_MAX_BRACES:][0] if places else -1


_MOST_TRIES = 32
_MOST_WORK = 1_000_000
"""Characters that may be read, since one text can be read from each of its braces on."""
_BEGIN = re.compile(r"""\{(?=\s*["“”„'])""")
_TOKEN = re.compile(
    r"""(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")|"""
    r"""(?P<other_quotes>[“”„][^“”„\\]*(?:\\.[^“”„\\]*)*[“”]|'[^'\\]*(?:\\.[^'\\]*)*'(?=\s*[,:}\]]))|"""
    r"""(?P<extra_comma>,(?=\s*[}\]]))|(?P<open>[{\[])|(?P<end>[}\]])|(?P<word>\w+)|(?P<blank>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def lenient_objects(text: str) -> list[dict[str, Any]]:
    r"""The outermost objects of a text, in order, those mended that need it.

        {"text": "fine",}              a comma before an end
        {“text”: “fine”}               curly quotes, single quotes
        {"text": "two
        lines"}                        a raw line break
        {'open': None}                 the constants of Python
        "{\"text\": \"fine\"}"       an object within a text

    They are read where one reading is left, and never guessed at. An object that was cut, or a text whose quotes are
    not escaped, stays unreadable: closing it would make up what nobody wrote. Price: each character of a few objects is
    read twice.

    >>> lenient_objects("Here: {'text': 'fine', 'is': [True,],}")
    [{'text': 'fine', 'is': [True]}]
    """
    return list(_mended_objects(_unquoted(text)))


def _unquoted(text: str) -> str:
    """The text within a JSON string, where the whole is one."""
    stripped = text.strip()
    if stripped[:1] == stripped[-1:] == '"':
        try:
            return str(json.loads(stripped, strict=False))
        except ValueError:
            pass
    return text


def _mended_objects(text: str) -> Iterator[dict[str, Any]]:
    end = work = 0
    for start in [match.start() for match in _BEGIN.finditer(text)][-_MOST_TRIES:]:
        if start < end or work > _MOST_WORK:
            continue
        mended, read_to = _mended(text, start)
        work += read_to - start
        try:
            value = json.loads(mended, strict=False)
        except (ValueError, RecursionError):
            continue
        end = read_to
        yield value


def _mended(text: str, start: int) -> tuple[str, int]:
    """The object that begins here, as JSON, and where it ends; nothing where it never does."""
    parts, depth = list[str](), 0
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup
        depth += (kind == "open") - (kind == "end")
        if kind == "word":
            parts.append(_CONSTANTS.get(token.group(), token.group()))
        elif kind != "extra_comma":
            parts.append(_string(token.group()[1:-1]) if kind == "other_quotes" else token.group())
        if not depth:
            return "".join(parts), token.end()
    return "", len(text)


def _string(inner: str) -> str:
    """A text between other quotes as a JSON string; its escapes stay what they are."""
    bare = inner.replace("\\'", "'")
    return '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', bare) + '"'
