"""The reason codes that the source can give, read from the source itself.

A code may stand where it is given, or come from a name, a table or a function nearby; those are followed.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import REPO

PACKAGES = ("engine", "prompts", "validators", "datasets_out", "cluster")
GIVEN = {
    "Rejected": 0, "FaultyReply": 0, "Problem": 0, "Finding": 0, "SeedOutcome": 1, "reject_verdict": 2, "Verdict": 3,
    "verdict": 3, "taken_out": 2, "add": 0, "Topic": 99,
}  # fmt: skip
"""What gives a reason -> the place of the reason among its arguments; `add` is that of a topic's marks."""
PASSED_ON = {
    "validators/checks/pii.py",
    "validators/verdicts.py", "validators/judges/panel.py", "prompts/writing/checks.py",
    "datasets_out/curation/derived_run.py", "datasets_out/curation/choosing.py", "engine/flow/seed_outcome.py",
    "datasets_out/commits/schema.py",
}  # fmt: skip
"""Files in which a reason may be one that was given elsewhere."""

TABLES = {
    "validators/checks/pii.py": "_PATTERNS",
    "prompts/writing/small_talk.py": "_AT_THE_START",
    "datasets_out/curation/choosing.py": "evidence",
}
"""Files with a table whose keys are reasons -> its name."""

FUNCTIONS: dict[str, list[tuple[Path, ast.AST]]] = defaultdict(list)
TREES: dict[Path, ast.Module] = {}
for _path in (path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))):
    TREES[_path] = ast.parse(_path.read_text())
    for _node in ast.walk(TREES[_path]):
        if isinstance(_node, ast.FunctionDef | ast.AsyncFunctionDef):
            FUNCTIONS[_node.name].append((_path, _node))


def given_reasons() -> tuple[set[str], list[str]]:
    """All codes, and the places whose codes cannot be read."""
    codes, unclear = set[str](), []
    for place, table in TABLES.items():
        codes |= _Values(REPO / place).table(ast.Name(table), 0)
    for path, tree in TREES.items():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in GIVEN):
            if _name(call.func) == "add" and "marks" not in ast.unparse(call.func):
                continue
            for argument in _reason_of(call):
                values = _Values(path).of(argument, _starred_place(call, argument))
                codes |= values
                if not values and path.relative_to(REPO).as_posix() not in PASSED_ON:
                    unclear.append(f"{path.relative_to(REPO)}:{call.lineno}: {ast.unparse(argument)}")
    return codes - {""}, unclear


def _reason_of(call: ast.Call) -> Iterator[ast.expr]:
    place = GIVEN[_name(call.func)]
    for each in call.args[: place + 1]:
        if isinstance(each, ast.Starred):
            yield each.value
            break
    else:
        yield from call.args[place : place + 1]
    yield from (each.value for each in call.keywords if each.arg == "reason")


def _starred_place(call: ast.Call, argument: ast.expr) -> int | None:
    """Which element of `*argument` is the reason."""
    for number, each in enumerate(call.args):
        if isinstance(each, ast.Starred) and each.value is argument:
            return GIVEN[_name(call.func)] - number
    return None


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class _Values:
    """The texts that an expression of a file can be. `element` is the place in a tuple that is meant."""

    def __init__(self, path: Path, seen: set[tuple[int, int | None]] | None = None) -> None:
        self.path, self.seen = path, set() if seen is None else seen

    def of(self, node: ast.expr, element: int | None = None) -> set[str]:
        if (id(node), element) in self.seen:
            return set()
        self.seen.add((id(node), element))
        match node:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Attribute(attr="kind")), ast.Constant(value=rest)]):
                return {f"{kind}{rest}" for kind in ("recipe", "validator")}
            case ast.Subscript(value=table):
                return self.table(table, 1)
            case ast.Call():
                return self._called(node, element)
        return set().union(*(self.of(part, place) for part, place in self._parts(node, element)))

    def _parts(self, node: ast.expr, element: int | None) -> Iterator[tuple[ast.expr, int | None]]:
        """The expressions of which one is the value."""
        match node:
            case ast.Tuple(elts=[ast.Starred(), *_] as parts):  # several tuples in one
                yield from ((_unstarred(part), element) for part in parts)
            case ast.Tuple(elts=parts) if element is not None and element < len(parts):
                yield parts[element], None
            case ast.IfExp(body=first, orelse=second):
                yield from ((first, element), (second, element))
            case ast.BoolOp(values=parts):
                yield from ((part, element) for part in parts)
            case ast.Name(id=name):
                yield from self._bound(name, element)
            case ast.GeneratorExp(elt=each):
                yield each, element

    def _called(self, node: ast.Call, element: int | None) -> set[str]:
        """What a call gives: an entry of a table, or what functions of that name return or yield."""
        match node:
            case ast.Call(func=ast.Name(id="next" | "tuple"), args=arguments):
                return set().union(*(self.of(each, element) for each in arguments))
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[_, *defaults]):
                return self.table(table, 1).union(*map(self.of, defaults))
            case ast.Call(func=ast.Attribute(value=table, attr="items")) if element is not None:
                return self.table(table, element)
        return self._results(_name(node.func), element)

    def _bound(self, name: str, element: int | None) -> Iterator[tuple[ast.expr, int | None]]:
        """What the name is bound to in its file, or in the one that it is imported from: assigned, or gone through."""
        for node in ast.walk(TREES[self.path]):
            match node:
                case (
                    ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value)
                ):
                    if _name(target) == name != "kind":  # the kind of a setting
                        yield value, element
                    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        pairs = zip(target.elts, value.elts, strict=False)
                        yield from ((part, element) for each, part in pairs if _name(each) == name)
                case ast.ImportFrom(module=str(module), names=names) if name in {each.name for each in names}:
                    source = REPO / f"{module.removeprefix('foil.').replace('.', '/')}.py"
                    yield from _Values(source)._bound(name, element) if source in TREES else ()
                case ast.For(target=target, iter=gone) | ast.comprehension(target=target, iter=gone):
                    yield from ((each, place) for place in _places(target, name, element) for each in _each(gone))

    def table(self, node: ast.expr, place: int) -> set[str]:
        """The keys (0) or values (1) of a dict that stands there or is assigned in the file."""
        tables = [node, *(value for value, _ in self._bound(_name(node), None))]
        dicts = [table for table in tables if isinstance(table, ast.Dict)]
        parts = [part for table in dicts for part in (table.keys, table.values)[place] if part is not None]
        return set().union(*map(self.of, parts))

    def _results(self, name: str, element: int | None) -> set[str]:
        """What functions of that name return or yield."""
        results = set[str]()
        for path, function in FUNCTIONS[name]:
            for node in ast.walk(function):
                if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
                    results |= _Values(path, self.seen).of(node.value, element)
        return results


def _unstarred(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def _places(target: ast.expr, name: str, element: int | None) -> Iterator[int | None]:
    if _name(target) == name:
        yield element
    elif isinstance(target, ast.Tuple):
        yield from (n for n, part in enumerate(target.elts) if _name(part) == name)


def _each(gone: ast.expr) -> Iterator[ast.expr]:
    """The parts of what is gone through: of a tuple each, else itself (a function's results, a name)."""
    yield from gone.elts if isinstance(gone, ast.Tuple | ast.List) else [gone]
