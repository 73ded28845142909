"""How large the parts of the code are, and what a reader would trip over: as a table, or held against ceilings.

python scripts/code_figures.py            # a Markdown table, with the seconds of two commands
python scripts/code_figures.py --check    # fails where a figure is above its ceiling; in `make check`

A ceiling may only be lowered. Where it is above its target, it is what the code has today.
"""

import ast
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "prompts", "validators", "datasets_out", "trainer", "cluster")
# fmt: off
VAGUE = {
    "found", "one", "known", "made", "said", "told", "shown", "given", "here", "around", "asked", "seen", "wanted",
    "left", "kept", "sent", "done", "what", "who", "where", "mine", "theirs", "others", "other", "another", "thing",
    "things", "stuff", "it", "them", "this", "that", "these", "those", "which", "named", "held", "drawn", "taken",
}
# fmt: on
"""Bindings that are a bare adjective, participle or pronoun: they do not say what the value is."""
FILE_LINES, FUNCTION_LINES, CLASS_METHODS, PARAMETERS, FOLDER_MODULES = 400, 40, 25, 6, 3


class Ceiling(NamedTuple):
    """The most that a figure may be today, and what it should come down to."""

    most: int
    target: int


CEILINGS: Mapping[str, Ceiling] = {
    "lines of source": Ceiling(67_448, 48_000),
    "lines of the longest file": Ceiling(FILE_LINES, FILE_LINES),
    f"files over {FILE_LINES} lines": Ceiling(0, 0),
    "lines of the longest function": Ceiling(FUNCTION_LINES, FUNCTION_LINES),
    f"functions over {FUNCTION_LINES} lines": Ceiling(0, 0),
    "public methods of the largest class": Ceiling(CLASS_METHODS, CLASS_METHODS),
    f"classes over {CLASS_METHODS} public methods": Ceiling(0, 0),
    "parameters of a public function": Ceiling(PARAMETERS, PARAMETERS),
    f"public functions over {PARAMETERS} parameters": Ceiling(0, 0),
    "vague bindings": Ceiling(30, 30),
    "noqa in source": Ceiling(20, 20),
    "class names used twice": Ceiling(0, 0),
    f"folders of fewer than {FOLDER_MODULES} modules": Ceiling(5, 0),
    "`told` in source and pages": Ceiling(13, 13),
    "`beside` in source and pages": Ceiling(0, 0),
}


def modules(*folders: str) -> list[Path]:
    """The Python files below these folders of the repository, empty `__init__.py` aside."""
    return [
        p
        for f in folders
        for p in sorted((REPO / f).rglob("*.py"))
        if p.name != "__init__.py" and "datasets_out/data" not in p.as_posix()
    ]


class Source:
    """The files of some folders, each read and parsed once."""

    def __init__(self, *folders: str) -> None:
        self.texts = {path: path.read_text(encoding="utf-8") for path in modules(*folders)}

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [node for text in self.texts.values() for node in ast.walk(ast.parse(text))]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    @property
    def lines(self) -> list[int]:
        """Of each file."""
        return [len(text.splitlines()) for text in self.texts.values()]

    @property
    def function_lines(self) -> list[int]:
        return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in self.functions]

    @property
    def public_methods(self) -> list[int]:
        """Of each class, properties included."""
        return [
            sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[0] != "_" for each in node.body)
            for node in self.classes
        ]

    @property
    def parameters(self) -> list[int]:
        """Of each public function and method; commands, whose parameters are options of the terminal, aside."""
        return [
            len([*of.posonlyargs, *of.args, *of.kwonlyargs]) - (bool(of.args) and of.args[0].arg in {"self", "cls"})
            for node in self.functions
            if node.name[0] != "_" and not _is_command(node)
            for of in (node.args,)
        ]

    @property
    def vague_bindings(self) -> int:
        """Names assigned or taken as parameters that are in VAGUE."""
        names = [node.id for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        return sum(name in VAGUE for name in [*names, *(node.arg for node in self.nodes if isinstance(node, ast.arg))])

    @property
    def repeated_classes(self) -> list[str]:
        return sorted(name for name, count in Counter(node.name for node in self.classes).items() if count > 1)

    @property
    def noqa(self) -> int:
        return words(r"#\snoqa:", self.texts.values())


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("typer." in ast.unparse(each) for each in ast.walk(node.args) if isinstance(each, ast.Call))


def words(pattern: str, texts: Iterable[str]) -> int:
    """How often a pattern stands in texts, in small letters or large."""
    return sum(len(re.findall(pattern, text, re.IGNORECASE)) for text in texts)


def counts() -> dict[str, int]:
    """The figures that have a ceiling."""
    source = Source(*PACKAGES)
    pages = [path.read_text(encoding="utf-8") for path in (REPO / "README.md", *(REPO / "docs").rglob("*.md"))]
    read = [*source.texts.values(), *pages]
    return {
        "lines of source": sum(source.lines),
        "lines of the longest file": max(source.lines),
        f"files over {FILE_LINES} lines": over(FILE_LINES, source.lines),
        "lines of the longest function": max(source.function_lines),
        f"functions over {FUNCTION_LINES} lines": over(FUNCTION_LINES, source.function_lines),
        "public methods of the largest class": max(source.public_methods),
        f"classes over {CLASS_METHODS} public methods": over(CLASS_METHODS, source.public_methods),
        "parameters of a public function": max(source.parameters),
        f"public functions over {PARAMETERS} parameters": over(PARAMETERS, source.parameters),
        "vague bindings": source.vague_bindings,
        "noqa in source": source.noqa,
        "class names used twice": len(source.repeated_classes),
        f"folders of fewer than {FOLDER_MODULES} modules": sum(
            count < FOLDER_MODULES for count in Counter(path.parent for path in source.texts).values()
        ),
        "`told` in source and pages": words(r"\btold\b", read),
        "`beside` in source and pages": words(r"\bbeside\b", read),
    }


def over(most: int, values: Iterable[int]) -> int:
    """How many values are above this."""
    return sum(value > most for value in values)


def faults(figures: Mapping[str, int]) -> list[str]:
    """What is above its ceiling, in words."""
    return [
        f"{name}: {figures[name]:,} is above the ceiling of {most:,} (target {target:,})"
        for name, (most, target) in CEILINGS.items()
        if figures[name] > most
    ]


def spread(values: list[int]) -> str:
    """Median / 90th percentile / maximum."""
    return f"{statistics.median(values):.0f} / {statistics.quantiles(values, n=10)[-1]:.0f} / {max(values)}"


def seconds_of(*arguments: str) -> float:
    """Wall seconds of one command of `foil`: the best of five."""
    timings = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "foil", *arguments], cwd=REPO, check=True, capture_output=True)
        timings.append(time.perf_counter() - began)
    return min(timings)


def sql_seconds() -> float:
    """Wall seconds of `foil sql` over a small run."""
    with tempfile.TemporaryDirectory() as out:
        job = ("run", "examples/jobs/quickstart.yaml", "--out", out, "--set", "limits.seeds=20")
        subprocess.run([sys.executable, "-m", "foil", *job], cwd=REPO, check=True, capture_output=True)
        return seconds_of("sql", out, "SELECT count(*) FROM topics")


def further() -> dict[str, str]:
    """Figures without a ceiling."""
    source, tests = Source(*PACKAGES), Source("tests")
    everything = Source(*PACKAGES, "tests", "benchmarks", "scripts")
    tested = {(path.parent.relative_to(REPO / "tests"), path.name.removeprefix("test_")) for path in tests.texts}
    untested = [path for path in source.texts if (path.parent.relative_to(REPO), path.name) not in tested]
    folder, longest = Counter(path.parent for path in source.texts).most_common(1)[0]
    return {
        "lines of tests; of all": f"{sum(tests.lines):,}; {sum(everything.lines):,}",
        "modules": f"{len(source.texts)}",
        "lines a module (median / p90 / max)": spread(source.lines),
        "lines a function (median / p90 / max)": spread(source.function_lines),
        "modules without a test of the same name": f"{len(untested)}",
        "noqa in all": f"{everything.noqa}",
        "longest folder": f"{folder.relative_to(REPO)}: {longest} modules",
        "seconds of `foil --help` (target 0.2)": f"{seconds_of('--help'):.2f}",
        "seconds of `foil sql` over a small run (target 0.7)": f"{sql_seconds():.2f}",
    }


def main() -> int:
    """Prints the table, or what is above its ceiling."""
    figures = counts()
    if "--check" in sys.argv[1:]:
        found_faults = faults(figures)
        print("\n".join(found_faults), file=sys.stderr, end="\n" if found_faults else "")
        return 1 if found_faults else 0
    print("| figure | today | ceiling | target |\n|---|---|---|---|")
    for name, ceiling in CEILINGS.items():
        print(f"| {name} | {figures[name]:,} | {ceiling.most:,} | {ceiling.target:,} |")
    for name, value in further().items():
        print(f"| {name} | {value} | | |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
