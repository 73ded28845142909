"""Programming problems: solutions by language and approach, joined by id, negatives from other problems."""

import json
from pathlib import Path
from typing import Any

import pytest

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.leetcode import LeetcodeReader, LeetcodeSettings


def problem(number: int, statement: str, *languages: str) -> dict[str, Any]:
    return {
        "id": number,
        "slug": f"p{number}",
        "title": f"Problem {number}",
        "difficulty": "Easy",
        "tags": ["Array", "Two Pointers"],
        "statement": statement,
        "explanation": [{"name": "Solution 1: Hash Table", "text": "Use one."}],
        "solutions": [{"language": language, "code": f"{language} {number}"} for language in languages],
    }


def write(folder: Path, name: str, *rows: object) -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def reader(path: Path, **settings: Any) -> LeetcodeReader:
    return LeetcodeReader(LeetcodeSettings(path=path, **{"negatives": 0, **settings}))


def test_each_solution_is_a_positive_that_names_its_language_and_approach(tmp_path: Path) -> None:
    (seed,) = reader(write(tmp_path, "p.jsonl", problem(1, "Sum two numbers.", "python", "cpp")))
    assert (seed.id, seed.query) == ("1", "Sum two numbers.")
    assert dict(seed.attributes) == {"title": "Problem 1", "difficulty": "Easy", "tags": "Array, Two Pointers"}
    assert [(p.text, p.title, dict(p.attributes)) for p in seed.positives] == [
        (
            f"{language} 1",
            "Problem 1",
            {"language": language, "difficulty": "Easy", "tags": "Array, Two Pointers", "approach": "Hash Table"},
        )
        for language in ("python", "cpp")
    ]


def test_solutions_without_a_statement_join_their_problem_from_another_file(tmp_path: Path) -> None:
    solution_row = {
        "id": 1,
        "title": "Problem One",
        "solutions": [{"language": "Java", "variant": "2", "code": "java 1"}],
        "neetcode": {"pattern": "Arrays"},
    }
    write(tmp_path, "a_more.jsonl", solution_row)
    write(tmp_path, "problems.jsonl", problem(1, "Sum.", "python"), problem(2, "Sort.", "python"))
    first, second = reader(tmp_path)
    assert [p.text for p in first.positives] == ["python 1", "java 1"]
    assert dict(first.positives[1].attributes) == {"language": "java", "variant": "2", "pattern": "Arrays"}
    assert first.attributes["pattern"] == "Arrays"
    assert [p.text for p in second.positives] == ["python 2"]


def test_solutions_of_no_problem_are_refused_or_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", {"id": 9, "title": "Nine", "solutions": []})
    write(tmp_path, "b.jsonl", problem(1, "Sum.", "python"))
    with pytest.raises(SeedFormatError, match=r"a\.jsonl:1: expected a problem of this id with a statement, found '9'"):
        list(reader(tmp_path))
    skipping_reader = reader(tmp_path, on_error="skip")
    assert [seed.id for seed in skipping_reader] == ["1"]
    assert skipping_reader.ledger["skipped"] == 1


def test_negatives_are_solutions_of_the_nearest_other_statements(tmp_path: Path) -> None:
    statements = [
        "Find two numbers that sum to a target.",
        "Find three numbers that sum to a target.",
        "Rotate an image.",
    ]
    rows = [problem(n, statement, "python", "cpp", "java") for n, statement in enumerate(statements, start=1)]
    first, second, third = reader(write(tmp_path, "p.jsonl", *rows), negatives=4)
    assert {p.title for p in first.negatives} == {"Problem 2"}
    assert {p.title for p in second.negatives} == {"Problem 1"}
    assert third.negatives == ()


def test_problems_may_be_named_by_slug_alone(tmp_path: Path) -> None:
    row = {
        "slug": "leap",
        "title": "Leap",
        "statement": "Is it a leap year?",
        "solutions": [{"language": "java", "code": "x"}],
    }
    (seed,) = reader(write(tmp_path, "p.jsonl", row))
    assert (seed.id, dict(seed.attributes)) == ("leap", {"title": "Leap"})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": None}, "an identifier under 'id'"),
        ({"statement": ""}, "a text under 'statement'"),
        ({"title": 3}, "a text under 'title'"),
        ({"solutions": {"python": "x"}}, "a list under 'solutions'"),
        ({"solutions": ["x"]}, "a solution with 'language' and 'code'"),
        ({"solutions": [{"language": "python"}]}, "a text under 'code'"),
    ],
)
def test_a_broken_problem_is_refused_with_its_line(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    path = write(tmp_path, "p.jsonl", problem(1, "Sum.", "python"), problem(2, "Sort.", "python") | change)
    with pytest.raises(SeedFormatError, match=rf"p\.jsonl:2: expected {expected}"):
        list(reader(path))


def test_a_statement_has_no_blanks_without_a_width(tmp_path):
    row = {"id": 1, "title": "Dots", "statement": "Match any letter.\u200b\\u200b Return it.", "solutions": [
        {"language": "Python", "code": "def match(letter):\n    return letter\n"}
    ]}  # fmt: skip
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    [seed] = LeetcodeReader(LeetcodeSettings(path=tmp_path / "rows.jsonl"))
    assert seed.query == "Match any letter. Return it."
