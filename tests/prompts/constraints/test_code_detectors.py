"""Detectors of code: recursion, parameters, languages."""

from prompts.constraints.constraint import Constraint
from tests.support.topics.sample_seeds import passage


def test_recursion_is_a_call_within_the_function_itself():
    once = "def walk(n):\n    return n\n\ndef main():\n    return walk(1)\n"
    twice = "def walk(n):\n    return n and walk(n - 1)\n"
    java = "class S {\n  int walk(int n) {\n    return walk(n - 1);\n  }\n}\n"
    assert not Constraint("approach", "recursion").holds(passage(once))
    assert Constraint("approach", "recursion").holds(passage(twice))
    assert Constraint("approach", "recursion").holds(passage(java))


def test_a_parameter_is_an_entry_of_what_is_passed_and_not_of_what_is_returned():
    numpy_style = passage(
        "x : int\n\nReturns\n-------\nbox : ndarray\n\nOther Parameters\n----------------\nkey : str\n"
    )
    google_style = passage("Args:\n    x (int): A size.\nReturns:\n    box: The box.\n")
    assert [n for n in ("x", "box", "key") if Constraint("parameter", n).holds(numpy_style)] == ["x", "key"]
    assert [n for n in ("x", "box") if Constraint("parameter", n).holds(google_style)] == ["x"]


def test_a_language_comes_from_the_attributes_under_any_of_its_names():
    assert Constraint("language", "cpp").holds(passage("int x;", language="C++"))
    assert not Constraint("language", "cpp").holds(passage("int x;", language="java"))
    assert not Constraint("language", "cpp").holds(passage("int x;"))
