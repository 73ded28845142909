"""The tree of errors at the head of engine/errors.py is the one that the code has."""

import inspect
import pickle
import re
import signal

from foil.engine import errors
from tests.support.paths import PACKAGES, REPO

_LINE = re.compile(r"^( {4,})(\w+) +(\d+\+?|-)(?: {3}|$)", re.MULTILINE)


def defined_here():
    return [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]


def test_the_tree_names_each_error_under_its_parent_with_its_exit_code():
    told, above = {}, {2: "Exception"}
    for indent, name, code in _LINE.findall(errors.__doc__):
        above[len(indent)] = name
        told[name] = (above[len(indent) - 2], code)
    assert {name: parent for name, (parent, _) in told.items()} == {
        each.__name__: each.__base__.__name__ for each in defined_here()
    }
    codes = {each.__name__: str(each.exit_code) for each in defined_here() if hasattr(each, "exit_code")}
    plain = {name: code for name, (_, code) in told.items() if code not in {"-", "128+"}}
    assert plain == {name: code for name, code in codes.items() if name != "InterruptedRunError"}


def test_errors_that_live_elsewhere_are_the_ones_that_the_page_names():
    sources = (path for package in PACKAGES for path in (REPO / package).rglob("*.py") if path.name != "errors.py")
    known = {each.__name__ for each in defined_here()}
    found = set()
    for path in sources:
        for name, parent in re.findall(r"^class (\w+)\((\w+)\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            if parent in known and not parent.startswith("Rejected"):
                found.add((name, "/".join(path.relative_to(REPO).parts[:2])))
    assert found == set(re.findall(r"`(\w+)` +\((engine/\w+)\)", errors.__doc__.replace("\n", " ")))


def test_an_interrupted_run_says_its_signal_in_another_process_too():
    error = pickle.loads(pickle.dumps(errors.InterruptedRunError(signal.SIGTERM)))
    assert error.exit_code == 143
    assert "SIGTERM" in str(error)
