"""scripts/code_figures.py: every figure has a ceiling, and one that is above it is named."""

import runpy

import pytest

from tests.support.paths import REPO

SCRIPT = runpy.run_path(str(REPO / "scripts" / "code_figures.py"), run_name="figures")
CEILINGS = SCRIPT["CEILINGS"]


def test_each_figure_has_one_ceiling():
    assert SCRIPT["counts"]().keys() == CEILINGS.keys()


@pytest.mark.parametrize("name", CEILINGS)
def test_what_is_above_its_ceiling_is_named(name):
    at_most = {each: ceiling.most for each, ceiling in CEILINGS.items()}
    assert SCRIPT["faults"](at_most) == []
    [fault] = SCRIPT["faults"](at_most | {name: at_most[name] + 1})
    assert fault.startswith(f"{name}: {at_most[name] + 1:,} is above the ceiling of {at_most[name]:,}")


def test_a_source_is_measured_by_its_functions_classes_and_names(tmp_path, monkeypatch):
    monkeypatch.setitem(SCRIPT["modules"].__globals__, "REPO", tmp_path)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "a.py").write_text(
        "class A:\n    def b(self, c, told): ...\n    def _d(self): ...\n\n\n"
        "def run(job=typer.Option(1), x=2):\n    other = x  # noqa: X1\n"
    )
    source = SCRIPT["Source"]("engine")
    assert (source.public_methods, source.parameters) == ([1], [2])
    assert (source.lines, sorted(source.function_lines)) == ([7], [1, 1, 2])
    assert (source.vague_bindings, source.noqa, source.repeated_classes) == (2, 1, [])
