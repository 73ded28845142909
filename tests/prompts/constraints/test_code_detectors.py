"""Detectors of code: recursion, parameters, languages."""

import pytest

from foil.engine.topic import Passage
from foil.prompts.constraints.constraint import Constraint, surely_broken
from foil.prompts.constraints.families import FAMILIES
from tests.support.topics.sample_seeds import passage


def code(text: str, language: str) -> Passage:
    return passage(text, form="source", language=language)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "def walk(n):\n    return n\n\ndef main():\n    return walk(1)\n", False),
        ("python", "def walk(n):\n    return n and walk(n - 1)\n", True),
        ("python", "def even(n):\n    return odd(n - 1)\n\ndef odd(n):\n    return even(n - 1)\n", True),
        ("python", "class S:\n    def walk(self, n):\n        return self.walk(n - 1)\n", True),
        ("python", "def walk(n):\n    # walk(n - 1)\n    return 'walk(n)'\n", False),
        ("python", "for i in range(3):\n    for j in range(i):\n        print(i, j)\n", False),
        ("python", "def solve(a):\n    go = lambda n: n and go(n - 1)\n    return go(len(a))\n", True),
        ("java", "class S {\n  int walk(int n) {\n    return walk(n - 1);\n  }\n}\n", True),
        ("java", "class S {\n  int f(int n) { return f(n, 1); }\n  int f(int n, int m) { return m; }\n}\n", False),
        ("cpp", "int f(int n) {\n  auto g = [&](int i) { return i ? g(i - 1) : 0; };\n  return g(n);\n}\n", True),
        ("cpp", "int f(vector<int>& a) {\n  for (int x : a) {\n    for (int y : a) {}\n  }\n  return 1;\n}\n", False),
        ("javascript", "function f(n) { return n ? f(n - 1) : 0; }", True),
        ("typescript", "function f(n: number): number { return n ? f(n - 1) : 0; }", True),
        ("go", "package p\nfunc f(n int) int { return f(n - 1) }\n", True),
    ],
)  # fmt: skip
def test_recursion_is_a_cycle_of_calls(language, text, expected):
    recursion = Constraint("approach", "recursion")
    assert recursion.holds(code(text, language)) is expected
    assert recursion.is_clear(code(text, language))


@pytest.mark.parametrize(
    ("value", "language", "text", "expected"),
    [
        ("bit manipulation", "python", "def f(a, b):\n    return (a + b) >> 1\n", False),
        ("bit manipulation", "python", "def f(a):\n    return a & (a - 1)\n", True),
        ("bit manipulation", "cpp", "void f() { cout << 1 << endl; }", False),
        ("bit manipulation", "java", "class S { int f() { return 1; // 2^3\n } }", False),
        ("hash map", "python", "def f(a):\n    return list(map(str, a))\n", False),
        ("hash map", "python", "def f(a):\n    d = {}\n    return d\n", True),
        ("hash map", "java", "class S { Map<String, Integer> m = new HashMap<>(); }", True),
        ("set", "cpp", "struct S { void set(int k) { v = k; } int v; };", False),
        ("set", "python", "def f(a):\n    return len(set(a))\n", True),
        ("heap", "java", "class S { Queue<Integer> q = new PriorityQueue<>(); }", True),
        ("queue", "java", "class S { Queue<Integer> q = new PriorityQueue<>(); }", False),
        ("queue", "python", "def f(q):\n    return q.popleft()\n", True),
        ("sorting", "python", "def f(a):\n    a.sort()\n", True),
        ("sorting", "python", "def f(a):\n    # sorted(a)\n    return a\n", False),
        ("binary search", "python", "def f(n):\n    while n:\n        m = (n + 1) // 2\n        n = m\n", True),
        ("binary search", "java", "class S { int f(int l, int r) { int mid = (l + r) / 2; return mid; } }", False),
        ("stack", "python", "class S:\n    def __init__(self):\n        self.stack = []\n", True),
        ("loop", "python", "def f(a):\n    for x in a:\n        print(x)\n", True),
        ("loop", "python", "def f(a):\n    return 'for x in a'\n", False),
    ],
)  # fmt: skip
def test_an_approach_is_what_the_code_does_and_not_how_a_line_looks(value, language, text, expected):
    assert Constraint("approach", value).holds(code(text, language)) is expected


def test_code_that_no_grammar_reads_is_neither_with_nor_without_anything():
    for unread in (code("def f(:\n  broken", "python"), code("print 1", "ruby")):
        for family, value in (("approach", "recursion"), ("comments", "")):
            assert not Constraint(family, value).is_clear(unread)


def test_a_call_is_a_call_and_not_a_definition_or_a_comment():
    text = "class S:\n    # def __init__(self): heapify(a)\n    def all(self, a):\n        return Counter(gather(a))\n"
    offered = set(FAMILIES["uses"].detector.offer(text, {"language": "python"}))
    assert offered == {"Counter"}  # a helper of the program is nothing to ask for
    page = passage("Collects things, as `gather(a)` does.\n\n>>> x = bisect_left(collect(3))\n", form="documentation")
    assert set(FAMILIES["uses"].detector.offer(page.text, page.attributes)) == {"bisect_left"}


def test_a_title_above_the_code_does_not_hide_it():
    titled = Passage(
        "class S {\n  void f() { f(); }\n}\n", "seed_positive", title="Two Sum", attributes={"language": "java"}
    )
    assert Constraint("approach", "recursion").holds(titled)


def test_a_parameter_is_an_entry_of_what_is_passed_and_not_of_what_is_returned():
    numpy_style = passage(
        "x : int\n    The size of the box.\n\nReturns\n-------\nbox : ndarray\n    A box of that size.\n\n"
        "Other Parameters\n----------------\nkey : str\n    What opens the box.\n"
    )
    google_style = passage("Args:\n    x (int): The size it has.\nReturns:\n    box: The box of that size.\n")
    assert [n for n in ("x", "box", "key") if Constraint("parameter", n).holds(numpy_style)] == ["x", "key"]
    assert [n for n in ("x", "box") if Constraint("parameter", n).holds(google_style)] == ["x"]


def test_a_parameter_that_is_listed_with_its_type_alone_is_neither_explained_nor_absent():
    text = passage("Parameters\n----------\nframe : DataFrame\nlabels : list of str\n    Names of the columns shown.\n")
    assert [n for n in ("frame", "labels") if Constraint("parameter", n).holds(text)] == ["labels"]
    assert not Constraint("parameter", "frame").is_clear(text)


def test_a_section_that_says_none_is_no_section():
    filled, empty = (passage(f"Attributes\n----------\n{body}\n") for body in ("size : int", "None"))
    assert Constraint("section", "attributes").holds(filled)
    assert not Constraint("section", "attributes").holds(empty)


def test_a_language_comes_from_the_attributes_under_any_of_its_names():
    assert Constraint("language", "cpp").holds(passage("int x;", language="C++"))
    assert not Constraint("language", "cpp").holds(passage("int x;", language="java"))
    assert not Constraint("language", "cpp").holds(passage("int x;"))


def test_functions_of_one_name_pragmas_and_single_remarks_decide_nothing():
    one_name = "def rob(nums):\n    def rob(l, r):\n        return max(nums[l:r])\n    return rob(0, 1)\n"
    method = "class C:\n    def count(self):\n        return count(self.x)\n"
    for code in (one_name, method):
        source = passage(code, form="source", language="python")
        assert not Constraint("approach", "recursion").holds(source)
    pragmas = "def f(x):\n    # type: ignore[arg]\n    y = x  # noqa: E501 long line\n    return y\n"
    remarks = "def f(x):\n    # halve the step first\n    y = x / 2\n    # then walk back\n    return -y\n"
    one_remark = "def f(x):\n    # halve the step first\n    return x / 2\n"
    held = [
        Constraint("comments").holds(passage(c, form="source", language="python"))
        for c in (pragmas, remarks, one_remark)
    ]
    assert held == [False, True, False]


def test_a_loop_inside_of_recursion_is_not_what_solves_it():
    walk = "def walk(n):\n    for m in n.kids:\n        walk(m)\n"
    count = "def count(n):\n    s = 0\n    for m in n:\n        s += m\n    return s\n"
    loop = Constraint("approach", "loop")
    assert not loop.holds(passage(walk, form="source", language="python"))
    assert not surely_broken([loop], passage(walk, form="source", language="python"))
    assert loop.holds(passage(count, form="source", language="python"))
