"""Prompts from templates: files rendered in a sandbox in which a value is always text, never a template.

    load("verifiable/topic").render(query=..., ...) -> Prompt

A template is a Jinja2 file with a line `=== system ===` or `=== user ===` before each message. Only a small part of the
language is allowed (`_NODES`, `_FILTERS`, `_TESTS`): variables, their fields, `if`, `for`; no call, no arithmetic, no
macro, no import. An inner loop runs over a field of the outer loop's variable. Loops, filters and comparisons count
their steps before they are done, so that rendering ends within seconds, in a few times the memory of its inputs. A
missing input is an error, and so is one that the template does not use. About 50 microseconds.

A text of strangers is put out by the filter `fenced`, as data between tags of the call's code (prompts.untrusted_text).
With `fence_all` every text is. The code is the caller's, one a seed, so that prompts of a seed begin alike; where a
text holds it, another is made.

A line `{% include "parts/NAME" %}` stands for the text of parts/NAME.txt next to the templates. It is put in before
anything is parsed, so a part is held to the same rules and belongs to the digest.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import jinja2
from jinja2 import nodes
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from foil.engine.errors import MissingValueError, UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.protocols import Prompt
from foil.engine.requests import Message
from foil.engine.seeds.files.text_files import read_text
from foil.engine.settings import Settings
from foil.prompts.untrusted_text import fenced, nonce

TEMPLATES = Path(__file__).parent / "templates"
MAX_SOURCE = 64_000
MAX_NODES = 600
MAX_DEPTH = 16
MAX_RENDERED = 512_000
MAX_STEPS = 5_000_000
"""Limits of a template: characters of source, nodes and depth of its syntax tree, characters of all its messages, and
steps of rendering: characters that filters and comparisons read, and nodes of a loop's body at each turn."""

_NODES: tuple[type[nodes.Node], ...] = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.For,
    nodes.If, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Filter, nodes.Test, nodes.CondExpr,
)  # fmt: skip
_FILTERS = {"join": 1, "length": 0, "lower": 0, "upper": 0, "trim": 1, "first": 0, "last": 0, "fenced": 0}
"""The filters, and how many arguments each may have."""
_STEPS = " steps"
"""Where the steps of a rendering are counted: a name that no template can write."""
_CODE = " code"
"""Where the code of a call's fences is."""
_LOOP, _READ = " loop", " read"
"""The filters that count, put around what a loop runs over and what is compared."""
_TESTS = frozenset({"defined", "none", "string", "number", "mapping"})
_NAME = re.compile(r"[a-z0-9_]+(?:/[a-z0-9_]+)*")
_PART = re.compile(r'^\{% include "(parts/[a-z0-9_]+)" %\}\n', re.MULTILINE)
_MARKER = re.compile(r"^=== (system|user|assistant) ===\n", re.MULTILINE)
_PARTS_DEEP = 3
Role = Literal["system", "user", "assistant"]


class _Steps:
    """Counts what one rendering does."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Raises TemplateRuntimeError if these are too many."""
        self._left -= steps
        if self._left < 0:
            raise jinja2.TemplateRuntimeError(f"it takes more than {MAX_STEPS:,} steps")


def _size(value: Any) -> int:
    """How many characters and items a value has, with all within."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return len(value) + sum(map(_size, value.values()))
    return len(value) + sum(map(_size, value)) if isinstance(value, list | tuple) else 1


@jinja2.pass_context
def _count_turns(context: Context, value: Any, weight: int) -> Any:
    """What a loop runs over, with the steps of all its turns counted."""
    items = value if isinstance(value, str | list | tuple | Mapping | jinja2.Undefined) else list(value)
    context[_STEPS].spend(0 if isinstance(items, jinja2.Undefined) else weight * len(items))
    return items


@jinja2.pass_context
def _count_read(context: Context, value: Any) -> Any:
    context[_STEPS].spend(_size(value))
    return value


@jinja2.pass_context
def _join(context: Context, value: Any, separator: Any = "") -> str:
    """Joins after the length of the outcome is known, since it may be the product of two lengths."""
    context[_STEPS].spend(_size(value) + _size(separator))
    pieces, between = [str(item) for item in value], str(separator)
    length = sum(map(len, pieces)) + len(between) * max(0, len(pieces) - 1)
    if length > MAX_RENDERED:
        raise jinja2.TemplateRuntimeError(f"`join` gives {length:,} characters, more than {MAX_RENDERED:,}")
    context[_STEPS].spend(length)
    return between.join(pieces)


@jinja2.pass_context
def _fenced(context: Context, value: Any) -> Any:
    """A text between tags of the call's code; numbers stay as they are."""
    if isinstance(value, int | float) or value in ("", None):
        return value
    if not context[_CODE]:
        raise jinja2.TemplateRuntimeError("`fenced` has no code; render it with the code of its seed")
    context[_STEPS].spend(_size(value))
    return fenced(str(value), context[_CODE])


def _texts(value: Any) -> Iterator[str]:
    """All texts within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | SimpleNamespace):
        yield from _texts(list((value if isinstance(value, Mapping) else vars(value)).values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _counted(function: Callable[..., str]) -> Callable[..., str]:
    """A filter of text that counts what it reads."""

    @jinja2.pass_context
    def counted(context: Context, value: Any, *arguments: Any) -> str:
        context[_STEPS].spend(_size(value))
        return function(value, *arguments)

    return counted


class _Missing(jinja2.StrictUndefined):
    """A value that is not there. What is said of it names it, not the class that lacks it."""

    @property
    def _undefined_message(self) -> str:
        return f"there is no value {self._undefined_name!r}"


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=_Missing, autoescape=False, trim_blocks=True, lstrip_blocks=True, cache_size=0
    )
    environment.globals.clear()
    plain = {name: environment.filters[name] for name in _FILTERS if name in environment.filters}
    texts = {name: _counted(plain[name]) for name in ("lower", "upper", "trim")}
    environment.filters = {**plain, **texts, "join": _join, "fenced": _fenced, _LOOP: _count_turns, _READ: _count_read}
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    return environment


_ENVIRONMENT = _environment()


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A checked template. `name` is its path without ending, `digest` the hash of its source, parts and all."""

    name: str
    source: str
    digest: str
    variables: frozenset[str]
    parts: tuple[tuple[Role, jinja2.Template], ...]

    def render(self, code: str = "", /, **inputs: Any) -> Prompt:
        """The prompt with these inputs, exactly the template's variables; `code` is that of its fences."""
        if inputs.keys() != self.variables:
            missing, unused = self.variables - inputs.keys(), inputs.keys() - self.variables
            raise UsageError(
                f"template {self.name}: missing inputs {sorted(missing)}, unused inputs {sorted(unused)}; "
                "give every variable that the template names, and no other"
            )
        if code and any(code in text for text in _texts(inputs)):
            code = nonce(list(_texts(inputs)), code)
        room, inputs = MAX_RENDERED, {**inputs, _CODE: code, _STEPS: _Steps()}
        messages = []
        for role, part in self.parts:
            text = self._text(part, inputs, room)
            room -= len(text)
            messages.append(Message(role, text))
        return Prompt(self.name.replace("/", "."), f"{self.name}@{self.digest}", tuple(messages))

    def _text(self, part: jinja2.Template, inputs: dict[str, Any], room: int) -> str:
        pieces = []
        try:
            for piece in part.generate(inputs):
                room -= len(piece)
                if room < 0:
                    raise UsageError(
                        f"template {self.name} renders more than {MAX_RENDERED} characters; give it shorter inputs"
                    )
                pieces.append(piece)
        except jinja2.UndefinedError as error:
            raise MissingValueError(
                f"template {self.name}: {error}; complete the data, or ask before (`{{% if ... is defined %}}`)"
            ) from error
        except (jinja2.TemplateError, TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"template {self.name}: {error}; mend the template or its inputs") from error
        return "".join(pieces)


@lru_cache(maxsize=64)
def load(name: str, folder: Path = TEMPLATES) -> PromptTemplate:
    """The template `name` (such as `verifiable/topic`) of a folder, checked; UsageError where it may not be used."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"template name {name!r} is not like `recipe/task` in lower case; no dots, no leading slash")
    path = folder / f"{name}.j2"
    if not path.is_file():
        raise UsageError(f"there is no template {path}; the name is its path under {folder} without `.j2`")
    return compile_template(name, _with_parts(read_text(path, "a template"), folder))


def _with_parts(source: str, folder: Path, depth: int = 0) -> str:
    """The source with the text of each part, and of the parts that it names, in the place of the line that names it."""

    def part(line: re.Match[str]) -> str:
        path = folder / f"{line[1]}.txt"
        if not path.is_file() or depth == _PARTS_DEEP:
            raise UsageError(f"{path} is no part that can be included; `parts` next to the templates has the parts")
        return _with_parts(read_text(path, "a part of a template"), folder, depth + 1)

    return _PART.sub(part, source)


def compile_template(name: str, source: str, *, fence_all: bool = False) -> PromptTemplate:
    """A template from its source, which must be trusted to be a template: text of a corpus never belongs here.

    `fence_all`: all texts that it puts out are fenced, whether it says so or not.
    """
    if len(source) > MAX_SOURCE:
        raise _refused(name, f"it has {len(source)} characters, more than {MAX_SOURCE}")
    preamble, *sections = _MARKER.split(source)
    if preamble.strip() or not sections:
        raise _refused(name, "it must open with a line `=== system ===` or `=== user ===`")
    variables: set[str] = set()
    parts = []
    for role, padded in zip(sections[::2], sections[1::2], strict=True):
        text = padded.strip("\n")
        try:
            tree = _ENVIRONMENT.parse(text)
            _check(name, tree)
            variables |= find_undeclared_variables(tree)
            _count_steps(tree)
            if fence_all:
                _fence_texts(tree)
            parts.append((cast("Role", role), _ENVIRONMENT.from_string(tree)))
        except jinja2.TemplateSyntaxError as error:
            raise _refused(name, f"line {error.lineno} of its {role} message: {error.message}") from error
        except (RecursionError, ValueError, OverflowError) as error:
            raise _refused(name, f"its {role} message cannot be parsed: {str(error)[:80]}") from error
    return PromptTemplate(name, source, sha256_hex(source)[:12], frozenset(variables), tuple(parts))


def recipe_fingerprint(
    version: str, digests: Sequence[str], settings: Settings, *, exclude: set[str] | None = None
) -> str:
    """The hash of all that decides a recipe's topics: its version, the digests of its templates, its settings."""
    return sha256_hex(canonical_json([version, digests, settings.model_dump(mode="json", exclude=exclude)]))


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"template {name} is refused: {why}; use variables, their fields, `if` and `for` alone")


def _check(name: str, tree: nodes.Template) -> None:
    for count, (node, depth, loops) in enumerate(_walk(tree, 0, ()), start=1):
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise _refused(name, f"it has more than {MAX_NODES} parts or is nested deeper than {MAX_DEPTH}")
        why = _forbidden(node, loops)
        if why:
            raise _refused(name, f"line {node.lineno} has {why}")


def _walk(
    node: nodes.Node, depth: int, loops: tuple[nodes.For, ...]
) -> Iterator[tuple[nodes.Node, int, tuple[nodes.For, ...]]]:
    yield node, depth, loops
    if depth > MAX_DEPTH:
        return
    inner_loops = (*loops, node) if isinstance(node, nodes.For) else loops
    for child in node.iter_child_nodes():
        yield from _walk(child, depth + 1, inner_loops)


def _forbidden(node: nodes.Node, loops: tuple[nodes.For, ...]) -> str:
    """What is wrong with a node, or ""."""
    why = ""
    if type(node) not in _NODES:
        why = f"a {type(node).__name__}, which is not allowed"
    elif isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
        why = f"the private field {node.attr!r}"
    elif isinstance(node, nodes.Getitem) and not _is_plain_key(node.arg):
        why = "an index that is not a plain constant"
    elif isinstance(node, nodes.Filter) and (node.name not in _FILTERS or node.node is None):
        why = f"the filter {node.name!r}; allowed are {', '.join(sorted(_FILTERS))}"
    elif isinstance(node, nodes.Filter) and not _has_plain_arguments(node):
        why = f"arguments that the filter {node.name!r} does not take"
    elif isinstance(node, nodes.Test) and node.name not in _TESTS:
        why = f"the test {node.name!r}; allowed are {', '.join(sorted(_TESTS))}"
    elif isinstance(node, nodes.For):
        why = _forbidden_loop(node, loops)
    return why


def _is_plain_key(key: nodes.Node) -> bool:
    return isinstance(key, nodes.Const) and not str(key.value).startswith("_")


def _has_plain_arguments(node: nodes.Filter) -> bool:
    has_keywords = node.kwargs or node.dyn_args or node.dyn_kwargs
    plain = node.name == "join" or all(isinstance(argument, nodes.Const) for argument in node.args)
    return not has_keywords and plain and len(node.args) <= _FILTERS[node.name]


def _count_steps(tree: nodes.Template) -> None:
    """Puts the filters that count around what loops run over and what is compared."""
    for loop in list(tree.find_all(nodes.For)):
        weight = sum(1 for _ in loop.find_all(nodes.Node))
        loop.iter = _filtered(cast("nodes.Expr", loop.iter), _LOOP, nodes.Const(weight, lineno=loop.lineno))
    for comparison in list(tree.find_all(nodes.Compare)):
        comparison.expr = _filtered(comparison.expr, _READ)
        for operand in comparison.ops:
            operand.expr = _filtered(operand.expr, _READ)


def _fence_texts(tree: nodes.Template) -> None:
    """Puts the filter `fenced` around all that is put out and is no text of the template."""
    for output in tree.find_all(nodes.Output):
        output.nodes = [node if _is_harmless(node) else _filtered(node, "fenced") for node in output.nodes]


def _is_harmless(node: nodes.Expr) -> bool:
    is_fenced = isinstance(node, nodes.Filter) and node.name == "fenced"
    return is_fenced or isinstance(node, nodes.TemplateData | nodes.Const)


def _filtered(node: nodes.Expr, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno, environment=_ENVIRONMENT)


def _forbidden_loop(loop: nodes.For, loops: tuple[nodes.For, ...]) -> str:
    if loop.recursive or not isinstance(loop.target, nodes.Name):
        return "a recursive loop or one over several variables"
    if loops:
        outer = loops[-1].target
        source = loop.iter
        if not (
            isinstance(source, nodes.Getattr)
            and isinstance(source.node, nodes.Name)
            and isinstance(outer, nodes.Name)
            and source.node.name == outer.name
        ):
            return "an inner loop that does not run over a field of the outer loop's variable"
    return ""
