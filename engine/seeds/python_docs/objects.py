"""The documented public objects of installed Python packages, read from their files without running them.

    package --ast--> parsed modules --public_names--> objects

Docstrings that a package attaches by a call with literal text (`add_docstr(torch.abs, "...")`, `add_newdoc("name",
"...")`) are read at the call. Only what has no Python source comes from live modules: the compiled modules of the
standard library, numpy and pyarrow (`COMPILED_MODULES`), in an interpreter of their own (`compiled_objects`).
Order: by name. Price: about 6 MB of source a second and core.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from foil.engine.errors import UsageError
from foil.engine.seeds.python_docs.attached_docs import literal_text
from foil.engine.seeds.python_docs.compiled_objects import read_compiled
from foil.engine.seeds.python_docs.parsed_module import STDLIB, ParsedModule, find_files, parse_module
from foil.engine.seeds.python_docs.public_names import is_public, public_names

COMPILED_MODULES: Mapping[str, str] = {
    STDLIB: "builtins math cmath itertools functools collections operator time array struct re io os select socket "
    "sqlite3 ssl threading unicodedata zlib gc sys signal weakref hashlib mmap",
    "numpy": "numpy numpy.random numpy.strings",
    "pyarrow": "pyarrow pyarrow.compute pyarrow.dataset pyarrow.fs pyarrow.csv pyarrow.json pyarrow.acero",
}
"""For each library the modules whose compiled objects have docstrings and no Python source."""


@dataclass(frozen=True, slots=True)
class PythonObject:
    """A documented object under its public name; `source` is its code without the docstring, for functions only."""

    name: str
    library: str
    kind: str
    doc: str
    source: str = ""


def read_objects(library: str) -> list[PythonObject] | None:
    """All documented public objects of a library by name; None if it is not installed.

    `library` is `stdlib`, or the import name of any package.
    """
    files = list(find_files(library))
    if not files:
        return None
    parsed_modules = (parse_module(name, path) for name, path in files)
    modules = {module.name: module for module in parsed_modules if module is not None}
    objects: dict[str, PythonObject] = {}
    for reader in (_defined_objects, _module_objects, _attached_objects):
        for python_object in reader(library, modules):
            objects.setdefault(python_object.name, python_object)
    for compiled_object in _compiled_objects(library):
        objects.setdefault(compiled_object.name, compiled_object)
    return [objects[name] for name in sorted(objects)]


def _defined_objects(library: str, modules: Mapping[str, ParsedModule]) -> Iterator[PythonObject]:
    for public_name, (module_name, local_name) in public_names(modules).items():
        definition = modules[module_name].definitions[local_name]
        yield PythonObject(public_name, library, definition.kind, definition.doc, definition.source)


def _module_objects(library: str, modules: Mapping[str, ParsedModule]) -> Iterator[PythonObject]:
    for module in modules.values():
        if module.doc and is_public(module.name):
            yield PythonObject(module.name, library, "module", module.doc)


def _attached_objects(library: str, modules: Mapping[str, ParsedModule]) -> Iterator[PythonObject]:
    """Objects whose docstring a call attaches: `add_docstr(torch.abs, doc)`, `add_newdoc("name", doc)`."""
    fragments = {name: text for module in modules.values() for name, text in module.doc_fragments.items()}
    for module in modules.values():
        for assigned_name, call in module.calls:
            function = call.func.id if isinstance(call.func, ast.Name) else ""
            if function in {"add_docstr", "_add_docstr", "add_docstr_all", "add_newdoc"} and len(call.args) >= 2:
                name, kind = _attachment_target(library, module, assigned_name, function, call.args[0])
                doc = literal_text(call.args[1], fragments | module.doc_fragments)
                if doc and name.startswith(library + ".") and is_public(name):
                    yield PythonObject(name, library, kind, doc)


def _attachment_target(
    library: str, module: ParsedModule, assigned_name: str, function: str, target: ast.expr
) -> tuple[str, str]:
    """The public name and the kind of the object to which a call attaches a docstring."""
    if assigned_name:
        return f"{module.name}.{assigned_name}", "function"
    if not isinstance(target, ast.Constant):
        return ast.unparse(target), "function"
    if function == "add_docstr_all":
        return f"{library}.Tensor.{target.value!s}", "method"
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    return f"{package}.{target.value!s}", "function"


def _compiled_objects(library: str) -> Iterator[PythonObject]:
    try:
        compiled = read_compiled(COMPILED_MODULES.get(library, "").split())
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"python_docs: {library}: {error}; see that {sys.executable} can import it, or leave it out of `libraries`"
        ) from None
    return (PythonObject(name, library, kind, doc) for name, kind, doc in compiled)
