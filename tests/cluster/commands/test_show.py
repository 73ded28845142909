"""`foil show` and `foil why` as their readers see them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import take_snapshot
from foil.engine.topic import Passage
from tests.support.commands import STEERS, on_a_terminal
from tests.support.sample_run import SORT, accepted, make, rejected


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run"))


@pytest.fixture
def foil(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        assert run_command(app, [str(argument) for argument in arguments]) == code
        shown = capsys.readouterr()
        return shown.out, shown.err

    return run


def test_a_topic_reads_as_its_parts(foil, out):
    topic = accepted("list")
    original, dated = topic.intents
    expected = f"""\
Topic {topic.id[:8]}  accepted
verifiable, from docs/list (PSF-2.0, may be passed on)

Query
  how does list sort?

Instructions
  I1 query alone  {original.id[:8]}
  I2 instruction  {dated.id[:8]}
  Give a year.

Passages
P1 relevant in the corpus, from b/sorted, 50 characters  {SORT.id[:8]}
  sorted
  sorted() returns a new list. It was added in 2001.

P2 fails the instruction, 28 characters; edit of P1  {topic.passages[1].id[:8]}
  sorted() returns a new list. [-It was added in 2001.-]

P3 answers another query, 20 characters  {topic.passages[2].id[:8]}
  A figure holds axes.

Judgments (+ relevant, - not relevant, blank: nobody judged)
                  P1  P2  P3
  I1 query alone   +   +   -
  I2 instruction   +   -
  by rule 2, seed 1, construction 1, mined 1

Verdicts
  Passed: shape.
  leak passes I2, score 0.25.
"""
    assert foil("show", out, topic.id)[0] == expected
    assert foil("show", out, topic.id[:6])[0] == expected


def test_a_rejected_topic_says_first_why(foil, out):
    lines = foil("show", out, "--where", "reason = 'leak'")[0].splitlines()
    assert lines[0].endswith("  rejected")
    assert lines[1] == "Rejected by leak: the topic (leak): the instruction says 2001"


@pytest.mark.slow
def test_a_sample_follows_from_its_seed_and_says_how_many_there_are(foil, out):
    first = foil("show", out, "--sample", 2, "--seed", 1)
    assert first == foil("show", out, "--sample", 2, "--seed", 1)
    assert first[0].count("\nQuery\n") == 2
    assert first[1].startswith("2 of 5 topics")
    draws = {foil("show", out, "--sample", 2, "--seed", seed)[0] for seed in range(8)}
    assert len(draws) > 1


def test_json_has_whole_ids_and_texts(foil, tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    long = Passage("x" * 1_000_000, "seed_positive")
    log.commit(0, [replace(accepted("long"), passages=(long,), judgments=())], {})
    document = json.loads(foil("show", tmp_path, "--json")[0])
    assert document["matched"] == 1
    (passage,) = document["topics"][0]["passages"]
    assert passage["text"] == [{"mark": "same", "text": long.text}]
    assert len(document["topics"][0]["id"]) == 24
    shown = foil("show", tmp_path)[0]
    assert "1,000,000 characters" in shown
    assert "more characters" in shown
    assert len(shown) < 5000
    assert foil("show", tmp_path, "--full")[0].count("x") == 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(foil, out, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for line in foil("show", out, "--sample", 5)[0].splitlines():
        assert len(line) <= width


def test_a_snapshot_shows_what_it_pins(foil, tmp_path):
    make(tmp_path)
    take_snapshot(tmp_path, "first")
    CommitLog(tmp_path).commit(2, [accepted("tree")], {})
    assert "5 of 5" not in foil("show", tmp_path, "--snapshot", "first", "--sample", 9)[1]
    assert foil("show", tmp_path, "--sample", 9)[0].count("\nQuery\n") == 6
    assert foil("show", tmp_path, "--sample", 9, "--snapshot", "first")[0].count("\nQuery\n") == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["abcd", "--sample", "2"], "an ID names what to show"),
        (["--where", "reason = 'none'"], "no topic of .* is chosen by reason = 'none'"),
        (["--where", "wrong = 1"], 'column "wrong" not found'),
        (["zzzzzz"], "has no topic, seed, intent, passage or call 'zzzzzz'"),
    ],
)
def test_what_cannot_be_shown_is_said(foil, out, arguments, says):
    shown, err = foil("show", out, *arguments, code=2)
    assert re.search(says, err)
    assert not shown


def test_a_condition_stays_behind_the_wall(foil, out):
    for attack in ("true) UNION ALL SELECT 1, content, 3 FROM read_text('/etc/passwd') --", "1); DROP VIEW topics --"):
        assert run_command(app, ["show", str(out), "--where", attack]) != 0


def test_why_says_what_the_record_is_and_then_where_it_comes_from(foil, out):
    edited = accepted("list").passages[1]
    shown = foil("why", out, edited.id)[0]
    what, tree = shown.split("Where it comes from\n")
    assert what.startswith(f"Passage {edited.id[:8]}\nof topic ")
    assert "[-It was added in 2001.-]" in what
    assert tree.startswith(f"passage {edited.id[:8]}, in 2 topics\n")
    assert not re.search("[0-9a-f]{24}", shown)
    assert re.search("sha256 [0-9a-f]{64} ", foil("why", out, edited.id, "--full")[0])


@pytest.mark.parametrize("kind", ["topic", "seed", "intent", "call"])
def test_why_of_each_kind(foil, out, kind):
    topic = accepted("list")
    record = {"topic": topic.id, "seed": "list", "intent": topic.intents[1].id, "call": "call-list"}[kind]
    what = foil("why", out, record)[0].split("Where it comes from\n")[0]
    said = {"topic": "Judgments (+", "seed": "Judgments (+", "intent": "Give a year.", "call": "  a reply"}
    assert said[kind] in what


def test_colours_are_for_terminals(out, monkeypatch):
    monkeypatch.setenv("PAGER", "cat")
    shown = on_a_terminal("show", out, accepted("list").id).decode()
    assert "\x1b[31;9mIt was added in 2001.\x1b[0m" in shown or "\x1b[9;31mIt was added in 2001.\x1b[0m" in shown
    assert "[-" not in shown
    monkeypatch.setenv("NO_COLOR", "1")
    plain = on_a_terminal("show", out, rejected("tuple", "leak").id).decode()
    assert "Rejected by leak" in plain
    assert not STEERS.search(re.sub(r"\x1b\[[0-9;]*m", "", plain.replace("\r\n", "\n")))


def test_what_is_longer_than_the_screen_goes_through_the_pager(out, monkeypatch):
    monkeypatch.setenv("PAGER", "sed s/^/paged:/")
    assert "paged:" in on_a_terminal("show", out, accepted("list").id).decode()
    monkeypatch.setenv("PAGER", "no-such-program")
    assert "Judgments" in on_a_terminal("show", out, accepted("list").id).decode()
