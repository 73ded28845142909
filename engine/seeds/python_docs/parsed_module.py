"""Parses the files of a library into the definitions, imports and calls that its public objects come from.

    library -> find_files -> parse_module(file) -> ParsedModule

No file is imported or run, so that even torch costs nothing but the reading.
"""

import ast
import importlib.util
import inspect
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from foil.engine.seeds.python_docs.attached_docs import doc_fragments
from foil.engine.texts.words import word_set

STDLIB = "stdlib"

_SKIPPED_FOLDERS = word_set(
    """tests test testing _testing site-packages idlelib lib2to3 turtledemo distutils encodings ensurepip pydoc_data
    _vendor _pyinstaller externals array_api_compat array_api_extra f2py conftest __pycache__ lib-dynload tkinter
    msilib setup __main__ asyncore antigravity this config estimator_checks"""
)
_SKIPPED_TORCH_FOLDERS = word_set(
    """_inductor _dynamo onnx _refs _prims _prims_common _decomp _functorch _export fx ao _subclasses _higher_order_ops
    benchmark _meta_registrations _numpy _lazy _logging _native _strobelight _dispatch _C _C_flatbuffer contrib
    quantization cpp_extension hipify model_dump nativert numa _internal flight_recorder bundled_inputs"""
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A class, function or method as its file defines it; `source` is the code without the docstring."""

    kind: str
    doc: str
    source: str = ""


@dataclass(slots=True)
class ParsedModule:
    """One parsed file. Names within the module are keys: `Class.method` for members.

    `namespaces` holds, for each class, the names under which it offers another class's methods. `doc_fragments` (dicts
    of texts, by the dict's name) and `calls` (with the name that the result is assigned to, or "") come from files that
    attach docstrings by calls.
    """

    name: str
    is_package: bool
    doc: str = ""
    definitions: dict[str, Definition] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    star_imports: list[str] = field(default_factory=list)
    exported: frozenset[str] | None = None
    doc_fragments: dict[str, dict[str, str]] = field(default_factory=dict)
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)


def find_files(library: str) -> Iterator[tuple[str, Path]]:
    """The module name and file of each module of a library, by name; nothing if it is not installed."""
    if library == STDLIB:
        root, prefix = Path(sysconfig.get_path("stdlib")), ""
    else:
        spec = importlib.util.find_spec(library)
        if spec is not None and spec.origin and not spec.submodule_search_locations:
            yield library, Path(spec.origin)
        if spec is None or not spec.submodule_search_locations:
            return
        root, prefix = Path(next(iter(spec.submodule_search_locations))), library + "."
    skipped_folders = _SKIPPED_FOLDERS | (_SKIPPED_TORCH_FOLDERS if library == "torch" else frozenset())
    files = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if skipped_folders.isdisjoint(parts):
            files.append(((prefix + ".".join(parts)).removesuffix(".__init__"), path))
    yield from sorted((name, path) for name, path in files if name != "__init__")


def parse_module(name: str, path: Path) -> ParsedModule | None:
    """Parses one file; None for one that this Python cannot parse (templates, sources of a later Python)."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    module = ParsedModule(name, path.name == "__init__.py", ast.get_docstring(tree, clean=False) or "")
    lines = text.splitlines()
    for node in _module_statements(tree.body):
        if isinstance(node, ast.ImportFrom):
            _add_imports(module, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _add_definition(module, node, "", lines)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            _add_exports(module, node)
    if "add_docstr(" in text or "\nadd_newdoc(" in text:
        _add_calls(module, tree)
    return module


def _module_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those under `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _module_statements(node.body)
            for handler in getattr(node, "handlers", []):
                yield from _module_statements(handler.body)
            yield from _module_statements(getattr(node, "orelse", []))


def _add_imports(module: ParsedModule, node: ast.ImportFrom) -> None:
    source = node.module or ""
    if node.level:
        parts = module.name.split(".")
        base = parts[: len(parts) - node.level + module.is_package]
        source = ".".join([*base, source] if source else base)
    for alias in node.names:
        if alias.name == "*":
            module.star_imports.append(source)
        else:
            module.imports.setdefault(alias.asname or alias.name, (source, alias.name))


def _add_definition(
    module: ParsedModule, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, owner: str, lines: list[str]
) -> None:
    if node.name.startswith("_") and (owner or node.name.startswith("__")):
        return
    name, doc = owner + node.name, ast.get_docstring(node, clean=False) or ""
    if isinstance(node, ast.ClassDef):
        module.definitions.setdefault(name, Definition("class", doc))
        module.bases[name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
        for member in node.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                _add_definition(module, member, name + ".", lines)
            elif isinstance(member, ast.Assign):
                _add_namespace(module.namespaces.setdefault(name, {}), member)
    elif name not in module.definitions or not module.definitions[name].doc:
        source = _source_without_docstring(node, lines) if doc else ""
        module.definitions[name] = Definition("method" if owner else "function", doc, source)


def _add_namespace(namespaces: dict[str, str], node: ast.Assign) -> None:
    """`str = Accessor("str", StringMethods)` in a class body: the methods of another class under a name of this one."""
    call, target = node.value, node.targets[0]
    if isinstance(call, ast.Call) and isinstance(target, ast.Name) and len(call.args) == 2:
        name, accessor_class = call.args
        if isinstance(name, ast.Constant) and name.value == target.id and isinstance(accessor_class, ast.Name):
            namespaces[target.id] = accessor_class.id


def _source_without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> str:
    """The definition without decorators and docstring, at the left margin."""
    docstring = node.body[0]
    code_lines = lines[node.lineno - 1 : docstring.lineno - 1] + lines[docstring.end_lineno or 0 : node.end_lineno]
    return inspect.cleandoc("\n".join(["", *code_lines])).rstrip()


def _add_exports(module: ParsedModule, node: ast.Assign | ast.AugAssign) -> None:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if isinstance(target, ast.Name) and target.id == "__all__":
        names = {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
        module.exported = (module.exported or frozenset()) | {name for name in names if isinstance(name, str)}


def _add_calls(module: ParsedModule, tree: ast.Module) -> None:
    for statement in _module_statements(tree.body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value):
                module.doc_fragments[name] = doc_fragments(value, module.doc_fragments)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                module.doc_fragments[name] = doc_fragments(value, module.doc_fragments)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Expr) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            module.calls.append((target.id if isinstance(target, ast.Name) else "", node.value))
