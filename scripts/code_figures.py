"""Prints the figures of docs/architecture.md: how large the parts are, and what a reader would trip over.

python scripts/code_figures.py            # a Markdown table, timings included
"""

import ast
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

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


def modules(*folders: str) -> list[Path]:
    """The Python files below these folders of the repository, empty `__init__.py` aside."""
    return [
        p
        for f in folders
        for p in sorted((REPO / f).rglob("*.py"))
        if p.name != "__init__.py" and "datasets_out/data" not in p.as_posix()
    ]


def spread(values: list[int]) -> str:
    """Median / 90th percentile / maximum."""
    return f"{statistics.median(values):.0f} / {statistics.quantiles(values, n=10)[-1]:.0f} / {max(values)}"


def definitions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def vague_bindings(tree: ast.AST) -> int:
    """Names assigned or taken as parameters that are in VAGUE."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
    return sum(name in VAGUE for name in names)


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


def figures() -> dict[str, str]:
    """Each figure under its name."""
    sources, tests = modules(*PACKAGES), modules("tests")
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources}
    functions = [node for tree in trees.values() for node in definitions(tree)]
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    tested = {(path.parent.relative_to(REPO / "tests"), path.name.removeprefix("test_")) for path in tests}
    untested = [path for path in sources if (path.parent.relative_to(REPO), path.name) not in tested]
    folder, longest = Counter(path.parent for path in sources).most_common(1)[0]
    test_folder, longest_of_tests = Counter(path.parent for path in tests).most_common(1)[0]
    everything = modules(*PACKAGES, "tests", "benchmarks", "scripts")
    lines = {path: path.read_text(encoding="utf-8") for path in everything}
    return {
        "Python lines: source / tests / all": " / ".join(
            f"{sum(len(lines[path].splitlines()) for path in group):,}" for group in (sources, tests, everything)
        ),
        "source modules": str(len(sources)),
        "lines a module (median / p90 / max)": spread([len(lines[path].splitlines()) for path in sources]),
        "lines a function (median / p90 / max)": spread(
            [f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno]
        ),
        "modules without a test of the same name": str(len(untested)),
        "class names used twice": ", ".join(sorted(name for name, count in classes.items() if count > 1)) or "0",
        "bindings that are a bare adjective or pronoun": str(sum(map(vague_bindings, trees.values()))),
        "noqa: source / all": f"{_count_noqa(sources, lines)} / {_count_noqa(everything, lines)}",
        "longest folder of source": f"{folder.relative_to(REPO)}: {longest} modules",
        "longest folder of tests": f"{test_folder.relative_to(REPO)}: {longest_of_tests} modules",
        "seconds of `foil --help`": f"{seconds_of('--help'):.2f}",
        "seconds of `foil sql` over a small run": f"{sql_seconds():.2f}",
    }


def _count_noqa(paths: list[Path], text_of: dict[Path, str]) -> int:
    return sum(len(re.findall(r"#\snoqa:", text_of[path])) for path in paths)


if __name__ == "__main__":
    print("| figure | value |\n|---|---|")
    for name, value in figures().items():
        print(f"| {name} | {value} |")
