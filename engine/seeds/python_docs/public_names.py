"""Gives each definition of a library its public name, by following imports and `__all__`.

    modules of a library -> public_names -> public name: (defining module, name within it)

An object is public if a module without a private part in its path defines it, or if a package re-exports it. Its name
is then the shortest such path. The members of a private base class, and of a namespace such as `pandas.Series.str`,
belong to the public class that has them.
"""

from collections.abc import Iterator, Mapping, Set

from foil.engine.seeds.python_docs.parsed_module import ParsedModule

Home = tuple[str, str]
"""Where an object is defined: the module, and the name within it."""
Modules = Mapping[str, ParsedModule]


def is_public(path: str) -> bool:
    """Whether no part of the dotted path is private."""
    return not any(part.startswith("_") or part == "core" for part in path.split("."))


def public_names(modules: Modules) -> dict[str, Home]:
    """Public qualified name -> home, one name for each definition."""
    names: dict[Home, str] = {}
    best_names = _best_names(modules)
    for home, public_name in sorted(best_names.items(), key=lambda item: item[1]):
        names.setdefault(home, public_name)
        for suffix, member in _members(home, modules, best_names.keys()):
            names.setdefault(member, f"{public_name}.{suffix}")
    return {public_name: home for home, public_name in names.items()}


def _best_names(modules: Modules) -> dict[Home, str]:
    """The best public path to each definition: few parts, in the defining module, short, first by name."""
    best_ranks: dict[Home, tuple[int, bool, int, str]] = {}
    for module in modules.values():
        if not is_public(module.name):
            continue
        for name in sorted(_visible_names(module, modules, frozenset())):
            home = _resolve((module.name, name), modules, frozenset()) if not name.startswith("_") else None
            if home is not None and _exposes(module, name, home[0]):
                path = f"{module.name}.{name}"
                rank = (path.count("."), module.name != home[0], len(path), path)
                best_ranks[home] = min(best_ranks.get(home, rank), rank)
    return {home: rank[3] for home, rank in best_ranks.items()}


def _members(home: Home, modules: Modules, public_homes: Set[Home]) -> Iterator[tuple[str, Home]]:
    """The members of a class with their names in it: its own, those of its namespaces, those of its private bases."""
    module_name, class_name = home
    module = modules[module_name]
    for name in module.definitions:
        if name.startswith(class_name + "."):
            yield name[len(class_name) + 1 :], (module_name, name)
    for name, accessor_class in module.namespaces.get(class_name, {}).items():
        source = _resolve((module_name, accessor_class), modules, frozenset())
        if source and source not in public_homes:
            yield from ((f"{name}.{suffix}", member) for suffix, member in _members(source, modules, public_homes))
    for base in module.bases.get(class_name, ()):
        source = _resolve((module_name, base), modules, frozenset())
        if source and source not in public_homes and source != home:
            yield from _members(source, modules, public_homes)


def _exposes(module: ParsedModule, name: str, defining_module: str) -> bool:
    """Whether this module offers the name to others, and does not only use it."""
    if module.name == defining_module:
        return True
    same_package = module.name.split(".")[0] == defining_module.split(".", maxsplit=1)[0]
    if not same_package and not defining_module.startswith("_"):
        return False
    return module.is_package or name in (module.exported or ()) or defining_module in module.star_imports


def _visible_names(module: ParsedModule, modules: Modules, visited: frozenset[str]) -> set[str]:
    names = {name for name in module.definitions if "." not in name} | set(module.imports)
    for star_import in module.star_imports:
        if star_import in modules and star_import not in visited:
            source = modules[star_import]
            imported = _visible_names(source, modules, visited | {module.name})
            public = {name for name in imported if name[0] != "_"}
            names |= public if source.exported is None else imported & source.exported
    return names


def _resolve(name_in_module: Home, modules: Modules, visited: frozenset[Home]) -> Home | None:
    """Where an object is defined that a module knows by a name."""
    module_name, name = name_in_module
    module = modules.get(module_name)
    if module is None or name_in_module in visited:
        return None
    if name in module.definitions:
        return name_in_module
    visited |= {name_in_module}
    if name in module.imports:
        return _resolve(module.imports[name], modules, visited)
    homes = (_resolve((star_import, name), modules, visited) for star_import in module.star_imports)
    return next((home for home in homes if home), None)
