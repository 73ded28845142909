"""Blind sheets of a real run through `foil audit`, marked by readers who agree, err and make mistakes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from foil.validators.audits.score import wilson
from tests.support.commands import foil, write_job


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A committed run, with the sheet of an audit of six topics beside it."""
    folder = tmp_path_factory.mktemp("audited")
    assert foil("run", write_job(folder, 30)).returncode == 0
    drawn = foil("audit", folder / "out", "--topics", 6, "--name", "first", "--sheet", folder / "sheet")
    assert drawn.returncode == 0, drawn.stderr
    return folder


def items(run):
    return [json.loads(line) for line in (run / "sheet.jsonl").read_text().splitlines()]


def key(run):
    return json.loads((run / "out/audits/first.key.json").read_text())["items"]


def agreeing(run, number):
    """The line of a reader who sees what the labels say."""
    passages = key(run)[str(number)]["passages"].items()
    marks = " ".join(f"{letter}{'+' if passage['label'] > 0 else '-'}" for letter, passage in passages)
    return f"{marks} natural=y gives=n # fine"


def fill(run, tmp_path, lines):
    """The text form with these marks in the place of the blanks."""
    text = (run / "sheet.txt").read_text()
    for number, line in lines.items():
        text = re.sub(rf"^marks {number}:.*$", f"marks {number}: {line}", text, flags=re.MULTILINE)
    path = tmp_path / "filled.txt"
    path.write_text(text)
    return path


def scored(run, sheet, reader="ann"):
    found = foil("audit", run / "out", "--name", "first", "--score", sheet, "--reader", reader, "--json")
    assert found.returncode == 0, found.stderr
    return {(row["group"], row["value"]): row for row in json.loads(found.stdout)}


def test_a_sheet_shows_no_label_role_or_id(run):
    text, known = (run / "sheet.txt").read_text(), key(run)
    assert len(items(run)) == len(known) == 6
    ids = {part for item in known.values() for name in ("topic_id", "intent_id", "seed_id") for part in [item[name]]}
    ids |= {passage["id"] for item in known.values() for passage in item["passages"].values()}
    assert not [each for each in ids if each in text or each in (run / "sheet.jsonl").read_text()]
    assert not re.search(r"positive|negative|reversed|poisoned|\+1|-1\b", text)


@pytest.mark.slow
def test_a_reader_who_agrees_finds_no_error_and_one_who_turns_a_mark_finds_one(run, tmp_path):
    lines = {number: agreeing(run, number) for number in range(1, 7)}
    passages = sum(len(item["passages"]) for item in key(run).values())
    everything = scored(run, fill(run, tmp_path, lines))["all", ""]
    assert everything["items"] == 6
    assert (everything["label_error"]["count"], everything["label_error"]["of"]) == (0, passages)
    assert everything["kappa"] == 1
    turned = lines[1].replace("A+", "A0u", 1) if lines[1].startswith("A+") else lines[1].replace("A-", "A+u", 1)
    turned = turned.replace("natural=y", "natural=n").replace("gives=n", "gives=y")
    everything = scored(run, fill(run, tmp_path, {**lines, 1: turned}), "ben")["all", ""]
    counts = [everything[name]["count"] for name in ("label_error", "unusable", "unnatural", "given_away")]
    assert counts == [1, 1, 1, 1]
    table = foil(
        "sql", run / "out", "SELECT reader, count(*), sum((label <> mark)::INT) FROM audits GROUP BY 1", "--csv"
    )
    assert sorted(table.stdout.splitlines()[1:]) == [f"ann,{passages},0", f"ben,{passages},1"]
    joined = foil("sql", run / "out", "SELECT count(*) FROM audits JOIN passages USING (topic_id, passage_id)", "--csv")
    assert joined.stdout.splitlines()[1] == str(2 * passages)


def test_an_edited_positive_that_answers_nothing_is_an_answer_lost(run, tmp_path):
    number, letter = next(
        (number, letter)
        for number, item in key(run).items()
        for letter, passage in item["passages"].items()
        if passage["edited"] and passage["label"] > 0
    )
    line = agreeing(run, number).replace(f"{letter}+", f"{letter}0")
    lost = scored(run, fill(run, tmp_path, {int(number): line}), "cat")["all", ""]["answers_lost"]
    assert lost["count"] == 1


def test_the_two_forms_score_alike_and_unmarked_items_are_left_out(run, tmp_path):
    rows = items(run)[:2]
    for row in rows:
        marks = dict(re.findall(r"([A-Z]+)([+-])", agreeing(run, row["item"])))
        row["marks"] = {**marks, "natural": "y", "gives": "n", "remark": ""}
    filled = tmp_path / "filled.jsonl"
    filled.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *items(run)[2:]]))
    text = fill(run, tmp_path, {number: agreeing(run, number) for number in (1, 2)})
    assert scored(run, filled, "dan") == scored(run, text, "dan")
    assert scored(run, filled, "dan")["all", ""]["items"] == 2


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ("natural=y gives=n #", "passage A is marked ''"),
        ("A* {rest}", "there is no passage 'A*'"),
        ("A++ {rest}", "passage A is marked '++'"),
        ("{all} Q+", "there is no passage 'Q'"),
        ("{passages} natural=y gives=perhaps #", "`gives` is 'perhaps'"),
    ],
)
def test_a_mark_that_cannot_be_read_names_its_item(run, tmp_path, marks, said):
    good, _, _ = agreeing(run, 2).partition(" #")
    passages, _, _ = good.partition(" natural")
    line = marks.format(all=good, rest=good.partition(" ")[2], passages=passages)
    found = foil("audit", run / "out", "--name", "first", "--score", fill(run, tmp_path, {2: line}))
    assert found.returncode == 2
    assert f"item 2: {said}" in found.stderr


def test_what_cannot_be_drawn_or_scored_is_refused(run, tmp_path):
    again = foil("audit", run / "out", "--topics", 6, "--name", "first", "--sheet", run / "sheet")
    assert again.returncode == 2
    assert "may hold marks" in again.stderr
    other = foil("audit", run / "out", "--topics", 5, "--name", "first", "--sheet", tmp_path / "other")
    assert other.returncode == 2
    assert "another `--name`" in other.stderr
    assert not (tmp_path / "other.txt").exists()
    blank = foil("audit", run / "out", "--name", "first", "--score", run / "sheet.txt")
    assert blank.returncode == 2
    assert "no marks yet" in blank.stderr
    unknown = foil("audit", run / "out", "--name", "second", "--score", run / "sheet.txt")
    assert unknown.returncode == 2
    assert "it has first" in unknown.stderr


@given(st.integers(0, 200), st.integers(1, 200))
def test_wilson_is_what_scipy_computes(count, of):
    count = min(count, of)
    interval = binomtest(count, of).proportion_ci(method="wilson")
    share = wilson(count, of)
    assert (share.low, share.high) == pytest.approx((interval.low, interval.high), abs=1e-4)
