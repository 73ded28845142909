"""The documented public objects of installed Python packages, read from their files without running them.

    package --ast--> modules with definitions, imports and docstrings --public names--> objects

Sources are parsed, never imported, so that torch costs nothing but the reading. Docstrings that a package attaches by a
call with literal text (`add_docstr(torch.abs, "...")`, `add_newdoc("name", "...")`) are read at the call. Only what has
no Python source at all is asked of the live module: the compiled modules of the standard library, numpy and pyarrow,
which this program has loaded or ships with anyhow (`COMPILED`).

An object is public if a module without a private part in its path defines it, or a package re-exports it; its name is
then the shortest such path. The members of a private base class, and of a namespace like `pandas.Series.str`, belong to
the public class that has them. Order: by name. Price: about 6 MB of source a second and core.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

STDLIB = "stdlib"

COMPILED: Mapping[str, tuple[str, ...]] = {
    STDLIB: (
        "builtins",
        "math",
        "cmath",
        "itertools",
        "functools",
        "collections",
        "operator",
        "time",
        "array",
        "struct",
        "re",
        "io",
        "os",
        "select",
        "socket",
        "sqlite3",
        "ssl",
        "threading",
        "unicodedata",
        "zlib",
        "gc",
        "sys",
        "signal",
        "weakref",
        "hashlib",
        "mmap",
    ),
    "numpy": ("numpy", "numpy.random", "numpy.strings"),
    "pyarrow": (
        "pyarrow",
        "pyarrow.compute",
        "pyarrow.dataset",
        "pyarrow.fs",
        "pyarrow.csv",
        "pyarrow.json",
        "pyarrow.acero",
    ),
}
"""Per library the modules whose compiled objects have docstrings and no Python source."""

_SKIPPED_FOLDERS = frozenset(
    [
        "tests",
        "test",
        "testing",
        "_testing",
        "site-packages",
        "idlelib",
        "lib2to3",
        "turtledemo",
        "distutils",
        "encodings",
        "ensurepip",
        "pydoc_data",
        "_vendor",
        "_pyinstaller",
        "externals",
        "array_api_compat",
        "array_api_extra",
        "f2py",
        "conftest",
        "__pycache__",
        "lib-dynload",
        "tkinter",
        "msilib",
        "setup",
        "__main__",
        "asyncore",
        "antigravity",
        "this",
        "config",
        "estimator_checks",
    ]
)
_SKIPPED_TORCH = frozenset(
    [
        "_inductor",
        "_dynamo",
        "onnx",
        "_refs",
        "_prims",
        "_prims_common",
        "_decomp",
        "_functorch",
        "_export",
        "fx",
        "ao",
        "_subclasses",
        "_higher_order_ops",
        "benchmark",
        "_meta_registrations",
        "_numpy",
        "_lazy",
        "_logging",
        "_native",
        "_strobelight",
        "_dispatch",
        "_C",
        "_C_flatbuffer",
        "contrib",
        "quantization",
        "cpp_extension",
        "hipify",
        "model_dump",
        "nativert",
        "numa",
        "_internal",
        "flight_recorder",
        "bundled_inputs",
    ]
)


@dataclass(frozen=True, slots=True)
class PythonObject:
    """A documented object under its public name; `source` is its code without the docstring, for functions only."""

    name: str
    library: str
    kind: str
    doc: str
    source: str = ""


@dataclass(slots=True)
class _Module:
    """One parsed file: `found` maps a name within the module to (kind, docstring, source).

    `fragments` and `calls` (with the name assigned to, or "") are those of files that attach docstrings.
    """

    name: str
    is_package: bool
    doc: str = ""
    found: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exported: frozenset[str] | None = None
    fragments: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)


def read_objects(library: str) -> list[PythonObject] | None:
    """All documented public objects of a library by name; None if it is not installed.

    `library` is `stdlib`, or the import name of any package.
    """
    files = list(_files(library))
    if not files:
        return None
    modules = {}
    for name, path in files:
        module = _read_module(name, path)
        if module is not None:
            modules[name] = module
    names = _public_names(modules)
    objects = {
        public: PythonObject(public, library, *modules[home].found[local]) for public, (home, local) in names.items()
    }
    for module in modules.values():
        if module.doc and _is_public(module.name):
            objects.setdefault(module.name, PythonObject(module.name, library, "module", module.doc))
    for attached in _attached(library, modules):
        objects.setdefault(attached.name, attached)
    seen: set[int] = set()
    for name in COMPILED.get(library, ()):
        for compiled in _compiled(importlib.import_module(name), library, seen):
            objects.setdefault(compiled.name, compiled)
    return [objects[name] for name in sorted(objects)]


def _files(library: str) -> Iterator[tuple[str, Path]]:
    """(module name, file) of a library, by name."""
    if library == STDLIB:
        root, prefix = Path(sysconfig.get_path("stdlib")), ""
    else:
        spec = importlib.util.find_spec(library)
        if spec is not None and spec.origin and not spec.submodule_search_locations:
            yield library, Path(spec.origin)
        if spec is None or not spec.submodule_search_locations:
            return
        root, prefix = Path(next(iter(spec.submodule_search_locations))), library + "."
    skipped = _SKIPPED_FOLDERS | (_SKIPPED_TORCH if library == "torch" else frozenset())
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if skipped.isdisjoint(parts):
            name = prefix + ".".join(parts)
            found.append((name.removesuffix(".__init__"), path))
    yield from sorted((name, path) for name, path in found if name != "__init__")


def _read_module(name: str, path: Path) -> _Module | None:
    """Parses one file; None for one that this Python cannot parse (templates, sources of a later Python)."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    module = _Module(name, path.name == "__init__.py", ast.get_docstring(tree, clean=False) or "")
    lines = text.splitlines()
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom):
            _read_import(module, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _read_definition(module, node, "", lines)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            _read_exports(module, node)
    if "add_docstr(" in text or "\nadd_newdoc(" in text:
        _read_calls(module, tree)
    return module


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if`, `try` and `with` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _statements(node.body)
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)
            yield from _statements(getattr(node, "orelse", []))


def _read_import(module: _Module, node: ast.ImportFrom) -> None:
    source = node.module or ""
    if node.level:
        parts = module.name.split(".")
        base = parts[: len(parts) - node.level + module.is_package]
        source = ".".join([*base, source] if source else base)
    for alias in node.names:
        if alias.name == "*":
            module.stars.append(source)
        else:
            module.imports.setdefault(alias.asname or alias.name, (source, alias.name))


def _read_definition(module: _Module, node: ast.stmt, owner: str, lines: list[str]) -> None:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    if node.name.startswith("_"):
        local_public = owner == "" and not node.name.startswith("__")
        if not local_public:
            return
    local = owner + node.name
    doc = ast.get_docstring(node, clean=False) or ""
    if isinstance(node, ast.ClassDef):
        module.found.setdefault(local, ("class", doc, ""))
        module.bases[local] = [base.id for base in node.bases if isinstance(base, ast.Name)]
        for member in node.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                _read_definition(module, member, local + ".", lines)
            elif isinstance(member, ast.Assign):
                _read_namespace(module.namespaces.setdefault(local, {}), member)
    elif not module.found.get(local, ("", "", ""))[1]:
        module.found[local] = ("method" if owner else "function", doc, _source(node, lines) if doc else "")


def _read_namespace(namespaces: dict[str, str], node: ast.Assign) -> None:
    """`str = Accessor("str", StringMethods)` in a class body: the methods of another class under a name of this one."""
    call, target = node.value, node.targets[0]
    if isinstance(call, ast.Call) and isinstance(target, ast.Name) and len(call.args) == 2:
        name, held = call.args
        if isinstance(name, ast.Constant) and name.value == target.id and isinstance(held, ast.Name):
            namespaces[target.id] = held.id


def _source(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> str:
    """The definition without decorators and docstring, at the left margin."""
    docstring = node.body[0]
    kept = lines[node.lineno - 1 : docstring.lineno - 1] + lines[docstring.end_lineno or 0 : node.end_lineno]
    return inspect.cleandoc("\n".join(["", *kept])).rstrip()


def _read_exports(module: _Module, node: ast.Assign | ast.AugAssign) -> None:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if isinstance(target, ast.Name) and target.id == "__all__":
        names = {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
        module.exported = (module.exported or frozenset()) | {name for name in names if isinstance(name, str)}


def _is_public(path: str) -> bool:
    return not any(part.startswith("_") or part == "core" for part in path.split("."))


def _public_names(modules: Mapping[str, _Module]) -> dict[str, tuple[str, str]]:
    """Public qualified name -> (defining module, name within it), one best name for each definition."""
    best: dict[tuple[str, str], tuple[int, bool, int, str]] = {}
    for module in modules.values():
        if not _is_public(module.name):
            continue
        for name in sorted(_names(module, modules, frozenset())):
            home = _resolve(module.name, name, modules, frozenset()) if not name.startswith("_") else None
            if home is None or not _exposes(module, name, home[0]):
                continue
            public = f"{module.name}.{name}"
            rank = (public.count("."), module.name != home[0], len(public), public)
            best[home] = min(best.get(home, rank), rank)
    public_homes = frozenset(best)
    owned: dict[tuple[str, str], str] = {}
    for home, rank in sorted(best.items(), key=lambda item: item[1][3]):
        owned.setdefault(home, rank[3])
        for suffix, member in _members(home, modules, public_homes):
            owned.setdefault(member, f"{rank[3]}.{suffix}")
    return {public: definition for definition, public in owned.items()}


def _members(
    home: tuple[str, str], modules: Mapping[str, _Module], public_homes: frozenset[tuple[str, str]]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """The members of a class with their names in it: its own, those of its namespaces, those of its private bases."""
    where, local = home
    module = modules[where]
    for name in module.found:
        if name.startswith(local + "."):
            yield name[len(local) + 1 :], (where, name)
    for name, held in module.namespaces.get(local, {}).items():
        source = _resolve(where, held, modules, frozenset())
        if source and source not in public_homes:
            yield from ((f"{name}.{suffix}", member) for suffix, member in _members(source, modules, public_homes))
    for base in module.bases.get(local, ()):
        source = _resolve(where, base, modules, frozenset())
        if source and source not in public_homes and source != home:
            yield from _members(source, modules, public_homes)


def _exposes(module: _Module, name: str, home: str) -> bool:
    """Whether this module offers the name, rather than using it."""
    if module.name == home:
        return True
    kin = module.name.split(".")[0] == home.split(".", maxsplit=1)[0] or home.startswith("_")
    return kin and (module.is_package or name in (module.exported or ()) or home in module.stars)


def _names(module: _Module, modules: Mapping[str, _Module], seen: frozenset[str]) -> set[str]:
    names = {name for name in module.found if "." not in name} | set(module.imports)
    for star in module.stars:
        if star in modules and star not in seen:
            source = modules[star]
            below = _names(source, modules, seen | {module.name})
            names |= below & source.exported if source.exported is not None else {n for n in below if n[0] != "_"}
    return names


def _resolve(
    where: str, name: str, modules: Mapping[str, _Module], seen: frozenset[tuple[str, str]]
) -> tuple[str, str] | None:
    """The module that defines what `where` calls `name`, and its name there."""
    module = modules.get(where)
    if module is None or (where, name) in seen:
        return None
    if name in module.found:
        return where, name
    seen |= {(where, name)}
    if name in module.imports:
        return _resolve(*module.imports[name], modules, seen)
    for star in module.stars:
        home = _resolve(star, name, modules, seen)
        if home:
            return home
    return None


def _attached(library: str, modules: Mapping[str, _Module]) -> Iterator[PythonObject]:
    """Objects whose docstring a call attaches: `add_docstr(torch.abs, doc)`, `add_newdoc("name", doc)`."""
    common = {name: text for module in modules.values() for name, text in module.fragments.items()}
    for module in modules.values():
        for assigned, call in module.calls:
            yield from _attachment(module, assigned, call, library, common | module.fragments)


def _read_calls(module: _Module, tree: ast.Module) -> None:
    module.fragments = _shared_fragments(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Expr) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            module.calls.append((target.id if isinstance(target, ast.Name) else "", node.value))


def _attachment(
    module: _Module, assigned: str, call: ast.Call, library: str, shared: Mapping[str, str]
) -> Iterator[PythonObject]:
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    if function not in {"add_docstr", "_add_docstr", "add_docstr_all", "add_newdoc"} or len(call.args) < 2:
        return
    target, doc = call.args[0], _literal(call.args[1], shared)
    if assigned:
        public, kind = f"{module.name}.{assigned}", "function"
    elif isinstance(target, ast.Constant):
        package = module.name if module.is_package else module.name.rpartition(".")[0]
        owner = f"{library}.Tensor" if function == "add_docstr_all" else package
        public, kind = f"{owner}.{target.value!s}", "method" if function == "add_docstr_all" else "function"
    else:
        public, kind = ast.unparse(target), "function"
    if doc and public.startswith(library + ".") and _is_public(public):
        yield PythonObject(public, library, kind, doc)


def _literal(node: ast.expr, shared: Mapping[str, str]) -> str:
    """The text of a constant, a sum of texts, or a `.format(**known fragments)` of one; "" for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _literal(node.left, shared) + _literal(node.right, shared)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        text = _literal(node.func.value, shared)
        for name, fragment in shared.items():
            text = text.replace("{" + name + "}", fragment)
        return text.replace("{{", "{").replace("}}", "}")
    return ""


def _shared_fragments(tree: ast.Module) -> dict[str, str]:
    """The named fragments of a documentation file: `parse_kwargs("name (type): text ...")` and dicts of texts."""
    fragments: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "parse_kwargs":
            for entry in _literal(node.args[0], {}).split("\n    "):
                if entry.strip() and not entry.startswith(" "):
                    fragments.setdefault(entry.split()[0], entry.strip())
                elif entry.strip() and fragments:
                    last = next(reversed(fragments))
                    fragments[last] = f"{fragments[last]}\n    {entry.rstrip()}"
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    fragments.setdefault(key.value, _literal(value, {}).strip())
    return fragments


def _compiled(module: ModuleType, library: str, seen: set[int]) -> Iterator[PythonObject]:
    """The public objects of a live module, its own and not `seen` (by `id`), with the methods of its classes."""
    top = module.__name__.split(".")[0]
    for name in sorted(vars(module)):
        value = vars(module)[name]
        home = getattr(value, "__module__", None) or module.__name__
        if name.startswith("_") or home.split(".")[0].lstrip("_") != top.lstrip("_") or id(value) in seen:
            continue
        seen.add(id(value))
        public = name if top == "builtins" else f"{module.__name__}.{name}"
        if isinstance(value, type):
            yield PythonObject(public, library, "class", value.__doc__ or "")
            for member in sorted(vars(value)):
                doc = getattr(vars(value)[member], "__doc__", None)
                if not member.startswith("_") and isinstance(doc, str) and callable(getattr(value, member, None)):
                    yield PythonObject(f"{public}.{member}", library, "method", doc)
        elif callable(value) and isinstance(value.__doc__, str):
            yield PythonObject(public, library, "function", value.__doc__)
