"""YAML as a job is read: YAML 1.2's core schema, and a refusal with its line for all else."""

import time

import pytest

from foil.cluster.yaml_page import MAX_DEPTH, read_yaml
from foil.engine.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("yes", "yes"), ("no", "no"), ("on", "on"), ("y", "y"),
        ("null", None), ("~", None), ("", None), ("nil", "nil"),
        ("0", 0), ("-12", -12), ("+7", 7), ("0o17", 15), ("0xff", 255), ("1_000", "1_000"), ("0b11", "0b11"),
        ("1:00:00", "1:00:00"), ("2026-11-22", "2026-11-22"), ("2026-13-45", "2026-13-45"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("1e6", 1e6), ("1e-5", 1e-5), (".5", 0.5), ("-2.", -2.0), ("3.25", 3.25),
        ("'12'", "12"), ('"true"', "true"), ('"a\\tb"', "a\tb"), ("=", "="),
        ("[a, 1, {b: [~]}]", ["a", 1, {"b": [None]}]),
        ("|\n  two\n  lines\n", "two\nlines\n"), ("{1: x, true: y, ~: z}", {"1": "x", "true": "y", "~": "z"}),
        ("{a: &one [1, 2], b: *one}", {"a": [1, 2], "b": [1, 2]}),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_the_core_schema_says(text, value):
    read, _ = read_yaml(text, "job")
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: .inf", r"job:2: \.inf is no finite number; write a finite one"),
        ("-.INF", r"-\.INF is no finite number"),
        (".nan", r"\.nan is no finite number"),
        ("1e999", "1e999 is no finite number"),
        ("-1.0e+400", "is no finite number"),
        ("010", "010 is decimal to some readers of YAML and octal to others; drop the first zero, write 0o"),
        ("-00", "00 is decimal to some"),
        ("9" * 5_000, r"9999.* has 5,000 digits; a whole number has at most 18"),
        ("0x" + "f" * 40, "has 40 digits"),
        ("!!int abc", "job:1: the tag .*int.* is not read; write the plain value, or quote a text"),
        ("!!python/object:os.system x", "the tag .* is not read"),
        ("!x {a: 1}", "the tag '!x' is not read"),
        ("!!binary aGVsbG8=", "the tag .* is not read"),
        ("a: &a {b: 1}\nc: {<<: *a}", r"job:2: merge keys \(<<\) are not read; write the keys out"),
        ("? [a, b]\n: 1", "a key is a plain text; write one"),
        ("a: 1\nb: 2\na: 3", r"job:3: the key 'a' stands twice; keep one"),
        ("a: &x [*x]", "x.* no anchor stands before it; write the value out"),
        ("a: &x 1\nb: &x 2", r"job:2: the anchor '&x' stands twice; give each a name of its own"),
        ("[" * 100_000, f"over {MAX_DEPTH} levels deep"),
        ("{a: " * 50 + "1" + "}" * 50, f"over {MAX_DEPTH} levels deep"),
        ("- " * 5_000 + "a", f"over {MAX_DEPTH} levels deep"),
        ("[" + "a, " * 30_000 + "a]", "over 20,000 values"),
        ('a: "x\\0y"', "a null character"),
        ('a: "\\ud800"', "not valid YAML"),
        ("a: \ud800", "no UTF-8"),
        ("a: \x00", "not valid YAML"),
        ("a: 1\n--- \nb: 2", "job:2: a second document; keep one"),
        ("a: [1\nb: 2", "not valid YAML"),
        ("%TAG ! tag:x,2000:\n--- !a b", "the tag .* is not read"),
    ],
)  # fmt: skip
def test_what_the_core_schema_does_not_have_is_refused(text, message):
    start = time.monotonic()
    with pytest.raises(UsageError, match=message) as refused:
        read_yaml(text, "job")
    assert len(str(refused.value)) < 400
    assert time.monotonic() - start < 10  # seconds where it is quadratic


def test_aliases_are_bounded_by_what_they_stand_for():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    for upper, lower in zip("bcdefg", "abcdef", strict=True):
        bomb += f"{upper}: &{upper} [{','.join(['*' + lower] * 9)}]\n"
    with pytest.raises(UsageError, match="write them out without aliases"):
        read_yaml(bomb, "job")


def test_every_key_and_item_has_its_line():
    _, lines = read_yaml("a:\n  - x\n  - {b: 1,\n     c: 2}\n", "job")
    assert lines == {(): 1, ("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 1, "b"): 3, ("a", 1, "c"): 4}
