"""Mathematics: what counts as a right solution, what the answer is, and whose solutions may be negatives."""

import json
from pathlib import Path
from typing import Any

import pytest

from foil.engine.errors import SeedFormatError
from foil.engine.seeds.metamath import MetamathReader, MetamathSettings, is_sound
from foil.engine.topic import Seed

GSM8K = {
    "question": "Ada packs 4 crates of 6 jars. How many jars?",
    "answer": "Ada packs 4*6 = <<4*6=24>>24 jars.\n#### 24",
}


def seeds(folder: Path, *rows: object, **settings: Any) -> list[Seed]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(MetamathReader(MetamathSettings(path=folder / "rows.jsonl", **{"negatives": 0, **settings})))


def test_calculator_notes_go_and_the_answer_is_named(tmp_path: Path) -> None:
    (seed,) = seeds(tmp_path, GSM8K)
    assert (seed.id, seed.query) == ("rows.jsonl:1", GSM8K["question"])
    assert [p.text for p in seed.positives] == ["Ada packs 4*6 = 24 jars.\n#### 24"]
    assert dict(seed.attributes) == {"answer": "24", "answer_sentence": "#### 24"}
    assert seed.attributes["answer_sentence"] in seed.positives[0].text


def test_a_metamathqa_row_names_its_type_its_origin_and_its_last_answer(tmp_path: Path) -> None:
    row = {
        "type": "GSM_Rephrased",
        "query": "How many jars are in Ada's 4 crates of 6?",
        "original_question": GSM8K["question"],
        "response": "4 * 6 = 24.\n#### 24\nThe answer is: 24",
    }
    (seed,) = seeds(tmp_path, row)
    assert dict(seed.attributes) == {
        "answer": "24",
        "answer_sentence": "The answer is: 24",
        "original_question": GSM8K["question"],
        "type": "GSM_Rephrased",
    }
    assert [p.text for p in seed.positives] == [row["response"]]


def test_sampled_solutions_are_positives_or_negatives_as_they_are_right_or_wrong(tmp_path: Path) -> None:
    row = {
        "question": GSM8K["question"],
        "ground_truth": "4*6 = <<4*6=24>>24\nA: 24",
        "small": {"is_correct": False, "solution": "4+6 = 10\nA: 10"},
        "large": {"is_correct": True, "solution": "6+6+6+6 = 24\nA: 24"},
        "larger": {"is_correct": True, "solution": "6+6 = 12\n12+12 = 24\nA: 24"},
        "largest": {"is_correct": True, "solution": "2 crates hold 2*6 = 12.\n4 crates hold 2*12 = 24.\nA: 24"},
    }
    (seed,) = seeds(tmp_path, row)
    assert [(p.text, p.role, dict(p.attributes)) for p in (*seed.positives, *seed.negatives)] == [
        ("4*6 = 24\nA: 24", "seed_positive", {}),
        ("6+6+6+6 = 24\nA: 24", "seed_positive", {"model": "large"}),
        ("6+6 = 12\n12+12 = 24\nA: 24", "seed_positive", {"model": "larger"}),
        ("2 crates hold 2*6 = 12.\n4 crates hold 2*12 = 24.\nA: 24", "seed_positive", {"model": "largest"}),
        ("4+6 = 10\nA: 10", "seed_negative", {"model": "small"}),
    ]
    assert seed.attributes["answer"] == "24"


def test_what_may_be_right_by_luck_is_neither(tmp_path: Path) -> None:
    samples = {
        "a": "6+6+6+6 = 24\nA: 24",
        "b": "4*6 = 24 jars\nA: 24",
        "c": "4+6 = 10, and 10+14 = 24\nA: 24",
    }
    row = {"question": GSM8K["question"], "ground_truth": "4*6 = 24\nA: 24"}
    row |= {name: {"is_correct": True, "solution": text} for name, text in samples.items()}
    (seed,) = seeds(tmp_path, row)
    assert [p.attributes.get("model") for p in seed.positives] == [None, "a", "b"]  # nobody else comes to 10
    wrong = {name: {"is_correct": False, "solution": "4+6 = 10\nA: 10"} for name in ("d", "e", "f")}
    (seed,) = seeds(tmp_path, row | wrong)
    assert [p.attributes.get("model") for p in seed.positives] == [None]  # most samples fail, so all are suspect


@pytest.mark.parametrize(
    ("solution", "right"),
    [
        ({"inv_question_pred_answer": "So x is 80,000.", "pred_inv_answer_cleaned": "80000"}, True),
        ({"inv_question_pred_answer": "So x is 8.", "pred_inv_answer_cleaned": "8"}, False),
        ({"output": "\nThe value of x is 80,000.\n#### 80,000\nThe answer is: 80,000"}, True),
        ({"output": "The value of x is 8.\n#### 8"}, False),
        ({"output": "I do not know."}, False),
    ],
)
def test_a_backward_solution_is_relevant_only_where_it_reaches_the_answer(
    tmp_path: Path, solution: dict[str, str], right: bool
) -> None:
    row = {"question": "What is x?", "answer": "80000", "original_question": "A house costs $80,000.", **solution}
    (seed,) = seeds(tmp_path, row)
    assert (len(seed.positives), len(seed.negatives)) == ((1, 0) if right else (0, 1))
    assert seed.attributes["original_question"] == "A house costs $80,000."


def test_a_question_of_the_same_origin_gives_no_negative(tmp_path: Path) -> None:
    rows = [
        {
            "query": f"jars in crates, asked {way}",
            "original_question": origin,
            "response": f"It is {n}.\nThe answer is: {n}",
        }
        for n, (way, origin) in enumerate([("plainly", "A"), ("twice", "A"), ("by Bo", "B")])
    ]
    first, second, third = seeds(tmp_path, *rows, negatives=5)
    assert [p.text[:8] for p in first.negatives] == ["It is 2."]
    assert [p.text[:8] for p in second.negatives] == ["It is 2."]
    assert len(third.negatives) == 1  # one passage an origin, so that near questions vary
    assert third.negatives[0].text[:8] in {"It is 0.", "It is 1."}


def test_rows_of_a_tree_are_named_by_file_and_line(tmp_path: Path) -> None:
    for name in ("test.jsonl", "more/train.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(GSM8K) + "\n")
    reader = MetamathReader(MetamathSettings(path=tmp_path, negatives=0))
    assert [seed.id for seed in reader] == ["more/train.jsonl:1", "test.jsonl:1"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"question": "Q"}, "a text under 'answer'"),
        ({"question": "Q", "answer": "24"}, "a solution that ends with `#### answer`"),
        ({"answer": "It is 24.\n#### 24"}, "a text under 'question'"),
        (
            {"question": "Q", "ground_truth": "A: 1", "m": {"solution": "A: 1"}},
            "true or false under 'is_correct' of 'm'",
        ),
        ({"query": "Q", "response": ""}, "a text under 'response'"),
    ],
)
def test_a_row_that_is_neither_is_refused(tmp_path: Path, row: dict[str, Any], expected: str) -> None:
    with pytest.raises(SeedFormatError, match=f"rows.jsonl:2: expected {expected}"):
        seeds(tmp_path, GSM8K, row)
    assert len(seeds(tmp_path, GSM8K, row, on_error="skip")) == 1


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("She has 3 x 4 = 12 pears.\nThat leaves 12 - 5 = 7 pears.\nA: 7", "7"),
        ("The share is 7/20 x 100% = 35%.\nA: 35", "35"),
        ("The share is 6/12 * 100% = 50%", "50"),
        ("A wash costs $24.00 / 240 = $0.10\nA: 10", "10"),
        ("There are 10/3 = 3 full boxes.\nA: 3", "3"),
        ("She earns $20/hour x 35 hours/week = $700/week\nSo $700/week x 2 weeks = $1,400\nA: 1400", "1400"),
        ("They need 100 – 90 = 10 pots.\n#### 10", "10"),
        ("Stan: 4x-13\n9x-21=339\nx=40, so 4(40)-13=147\nA: 147", "147"),
        ("There are 60 questions x 40/100 = 24 easy questions.\nA: 24", "24"),
        ("He paid $400 000 x 3/100 = $12 000.\nA: 12000", "12000"),
        ("-48 + 21 + (-3) = -30\n-30/3 = -10 degrees\nA: -10", "-10"),
        ("Six of them are left.\nA: 6", "6"),
    ],
)
def test_right_solutions_hold_with_units_rounding_and_per_cent(solution: str, answer: str) -> None:
    assert is_sound(solution, answer)


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("She saves $0.5 - $0.4 = $0.5 a pack.\nSo 4 x 0.5 = $2\nA: 2", "2"),
        ("The profit is $90 - $180 = $-90.\nA: 90", "90"),
        ("They tripled it, for a total of 30*=90 dollars\nA: 90", "90"),
        ("30/100%1000 = 300 students left.\nA: 300", "300"),
        ("It will take 300,000/50,000=6 years\nA: 4", "4"),
        ("The friend got $1800 - $2000 = $200 less.\nA: 200", "200"),
        ("A: 3", "3"),
    ],
)
def test_what_reaches_the_answer_by_accident_does_not_hold(solution: str, answer: str) -> None:
    assert not is_sound(solution, answer)


def test_any_text_is_judged_without_an_error() -> None:
    for text in ("", "= 5", "((((1 + ) = 3", "1/0 = 5", "9" * 5000 + " + 1 = 2", "1 + 1 = 2 = 3", "١ + ١ = ٢"):
        assert is_sound(text, "x") in (True, False)
