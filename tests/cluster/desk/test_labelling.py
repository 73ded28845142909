"""Labelling without a browser: orders, resuming, agreement, the terminal, and marks that several processes keep."""

import json
import multiprocessing
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from foil.cluster.desk.labelling import LabelSession, SheetDraw
from foil.datasets_out.sql.query import run_sql
from foil.engine.errors import UsageError
from foil.validators.audits.marks import split_marks
from foil.validators.audits.score import wilson
from foil.validators.judges.agreement import fleiss_kappa
from tests.support.commands import foil, write_job
from tests.support.paths import REPO
from tests.support.trainer_world import commit, topic


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    assert foil("run", write_job(folder, 30)).returncode in {0, 3}
    return folder / "out"


def marks(session, number, mark="+"):
    letters = {passage.letter: mark for passage in session.item(number).passages}
    return {**letters, "natural": "y", "gives": "n", "remark": "ok"}


def label_all(out, annotator):
    session = LabelSession(out, "race", SheetDraw(topics=8))
    for number in session.order(annotator):
        session.put("both", number, marks(session, number))


def test_each_annotator_has_an_order_and_goes_on_where_it_stopped(run):
    session = LabelSession(run, "order", SheetDraw(topics=8))
    assert sorted(session.order("ann")) == sorted(session.order("bob")) == list(range(1, 9))
    assert session.order("ann") != session.order("bob")
    first = session.next_item("ann")
    session.put("ann", first, marks(session, first))
    again = LabelSession(run, "order", SheetDraw(topics=8))
    assert again.next_item("ann") == session.order("ann")[1]
    assert again.done("ann") == {first}
    assert again.done("bob") == set()
    assert again.marks("ann", first) == marks(session, first)


def test_a_sheet_that_stands_is_gone_on_with_whatever_is_asked_for(run):
    assert [item.topic_id for item in LabelSession(run, "stands", SheetDraw(topics=5)).items] == [
        item.topic_id for item in LabelSession(run, "stands", SheetDraw(topics=9, seed=4)).items
    ]


def test_marking_again_replaces_one_item_alone(run):
    session = LabelSession(run, "again", SheetDraw(topics=3))
    for number in (1, 2):
        session.put("ann", number, marks(session, number))
    session.put("ann", 1, marks(session, 1, "-u"))
    assert session.marks("ann", 1) == marks(session, 1, "-u")
    assert session.marks("ann", 2) == marks(session, 2)
    rows = run_sql(
        run, "SELECT item, bool_or(usable) AS usable FROM audits WHERE audit = 'again' GROUP BY 1 ORDER BY 1"
    )
    assert rows.to_pylist() == [{"item": 1, "usable": False}, {"item": 2, "usable": True}]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"A": ""}, "passage A is marked ''"), ({"natural": "x"}, "`natural` is 'x'"), ({"Z": "+"}, "no passage 'Z'")],
)
def test_what_is_missing_or_unknown_is_refused_and_nothing_is_kept(run, change, words):
    session = LabelSession(run, "refused", SheetDraw(topics=3))
    with pytest.raises(UsageError, match=words):
        session.put("ann", 1, marks(session, 1) | change)
    assert session.done("ann") == set()
    with pytest.raises(UsageError, match="has no item 99; it has 1 to 3"):
        session.put("ann", 99, {})


def test_two_processes_that_label_under_one_name_lose_nothing(run):
    LabelSession(run, "race", SheetDraw(topics=8))
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=label_all, args=(run, annotator)) for annotator in ("ann", "bob")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert LabelSession(run, "race").done("both") == set(range(1, 9))


def test_agreement_of_three_is_fleiss_over_what_all_marked(run):
    session = LabelSession(run, "three", SheetDraw(topics=6))
    for annotator, mark in (("ann", "+"), ("bob", "+"), ("cid", "-")):
        for number in session.order(annotator)[: 6 if annotator != "cid" else 5]:
            session.put(annotator, number, marks(session, number, mark if number % 2 else "0"))
    agreement = {each.who: each for each in session.agreement()}
    assert list(agreement) == ["ann and bob", "ann and cid", "bob and cid", "all"]
    assert agreement["ann and bob"].kappa == 1.0
    assert agreement["ann and cid"].kappa == 0.0
    assert agreement["all"].passages == agreement["ann and cid"].passages < agreement["ann and bob"].passages
    common = session.order("cid")[:5]
    rows = [(1, 1, -1) if n % 2 else (-1, -1, -1) for n in common for _ in session.item(n).passages]
    assert agreement["all"].kappa == fleiss_kappa(rows)


@pytest.mark.slow
def test_the_terminal_asks_for_a_line_an_item_and_goes_on_later(run):
    session = LabelSession(run, "tty", SheetDraw(topics=3))
    lines = {}
    for number in session.order("ann"):
        letters = " ".join(f"{passage.letter}+" for passage in session.item(number).passages)
        lines[number] = f"{letters} natural=y gives=n # fine"
    first, *others = [lines[number] for number in session.order("ann")]
    command = [sys.executable, "-m", "foil", "label", run, "--terminal", "--name", "tty", "--annotator", "ann"]
    kept = subprocess.run(
        command, input=f"A+ nonsense\n{first}\n", capture_output=True, text=True, cwd=REPO, check=True
    )
    assert "1 of 3" in kept.stdout
    assert "mend its marks" in kept.stderr
    assert "stopped; what was marked is kept" in kept.stderr
    assert session.done("ann") == {session.order("ann")[0]}
    done = subprocess.run(command, input="\n".join(others) + "\n", capture_output=True, text=True, cwd=REPO, check=True)
    assert "all 3 items are marked" in done.stderr
    assert session.done("ann") == {1, 2, 3}


def test_a_run_without_instructions_is_refused(tmp_path):
    from foil.datasets_out.commits.log import CommitLog

    CommitLog(tmp_path).open("f" * 64, {})
    with pytest.raises(UsageError, match="nothing can be drawn"):
        LabelSession(tmp_path, "none")


@pytest.mark.slow
def test_false_rejections_are_measured_by_reason(tmp_path):
    """Of twelve rejected topics a reader confirms the labels of two in three; the reasons are drawn evenly."""
    made = [topic(n) for n in range(16)]
    for n in range(12):
        made[n] = replace(made[n], status="rejected", reason="judge_erred" if n < 9 else "label_disputed")
    out = commit(tmp_path / "out", made)
    session = LabelSession(out, "rejected", SheetDraw(6, status="rejected"))
    by_id = {each.id: each for each in made}
    reasons = Counter(by_id[item.topic_id].reason for item in session.items)
    assert reasons == {"judge_erred": 3, "label_disputed": 3}
    lines = {item.number: _line_of(item, wrong=item.number % 3 == 0) for item in session.items}
    command = [sys.executable, "-m", "foil", "label", out, "--terminal", "--name", "rejected", "--annotator", "ann"]
    text = "".join(f"{lines[number]}\n" for number in session.order("ann"))
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=REPO, check=True)
    for reason in reasons:
        numbers = [item.number for item in session.items if by_id[item.topic_id].reason == reason]
        share = wilson(sum(number % 3 > 0 for number in numbers), 3)
        words = f"{reason}: {share.count} of 3 rejections are false by the reader, {share.count / 3:.0%} "
        assert f"{words}[{share.low:.0%}, {share.high:.0%}]" in done.stdout
    ended = foil("label", out, "--reason", "label_disputed", "--terminal", "--topics", 9)
    assert ended.stdout.count("1 of 3") == 1, ended.stderr
    sheet = tmp_path / "sheet"
    drawn = foil("audit", out, "--status", "rejected", "--topics", 6, "--name", "by-hand", "--sheet", sheet)
    assert drawn.returncode == 0, drawn.stderr
    keys = [json.loads((out / "audits" / f"{name}.key.json").read_text())["items"] for name in ("rejected", "by-hand")]
    assert keys[0] == keys[1], "the same items as `foil label` draws"
    rows = [json.loads(line) for line in sheet.with_suffix(".jsonl").read_text().splitlines()]
    for row in rows:
        row["marks"] = split_marks(lines[row["item"]])
    sheet.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = foil("audit", out, "--name", "by-hand", "--score", f"{sheet}.jsonl", "--reader", "ann")
    assert [line.removeprefix("marks: ") for line in done.stdout.splitlines() if "are false by" in line] == [
        line for line in scored.stderr.splitlines() if "are false by" in line
    ], scored.stderr
    refused = foil("label", out, "--reason", "nothing", "--terminal")
    assert (refused.returncode, "no rejected topic of the reason nothing" in refused.stderr) == (2, True)


def _line_of(item, *, wrong):
    marks = (f"{passage.letter}{'+' if (passage.label > 0) != wrong else '-'}" for passage in item.passages)
    return f"{' '.join(marks)} natural=y gives=n"
