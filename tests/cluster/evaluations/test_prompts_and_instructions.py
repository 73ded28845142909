"""`foil evaluate --prompts` and `--instructions` as their users type them."""

import json
import shutil
from dataclasses import replace

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.trainer.evaluate.comparison.prompts import read_prompts
from tests.support.paths import REPO
from tests.support.trainer_world import commit, tiny_bert, topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import CORPUS, QRELS, lines, write_benchmark

QUERIES = {"q1": ("ferry price", "d1"), "q2": ("boats for children", "d2"), "q3": ("how long to bake bread", "d3")}
TEN = REPO / "examples" / "prompts" / "ten.txt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A collection of three queries, one with instructions, and a tiny model."""
    folder = tmp_path_factory.mktemp("prompts")
    (folder / "ours" / "qrels").mkdir(parents=True)
    (folder / "ours" / "corpus.jsonl").write_text(CORPUS)
    queries = [{"_id": name, "text": text} for name, (text, _) in QUERIES.items()]
    (folder / "ours" / "queries.jsonl").write_text(lines(*queries))
    judged = "".join(f"{name}\t{document}\t1\n" for name, (_, document) in QUERIES.items())
    (folder / "ours" / "qrels" / "test.tsv").write_text(QRELS + judged)
    write_benchmark("infosearch", folder / "info")
    write_benchmark("instructir", folder / "instructir")
    tiny_bert(folder)
    return folder


def evaluate(folder, *arguments):
    return run_command(app, ["evaluate", *map(str, arguments), "--out", str(folder / "out")])


def test_ten_prompts_are_tried_chosen_on_dev_queries_and_told_beside_the_best_in_hindsight(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    given = (folder / "tiny", "--on", f"beir:{folder / 'ours'}", "--prompts", TEN, "--prompt-queries", 1, "--json")
    assert evaluate(folder, *given) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)
    assert {row["system"] for row in rows} == {"bm25", "base", str(folder / "tiny")}
    for row in rows:
        assert (row["benchmark"], row["measure"], row["count"], row["facts"]["dev_queries"]) == (
            "beir/ours", "nDCG@10", 2, 1
        )  # fmt: skip
        assert tuple(row["by_prompt"]) == read_prompts(TEN)
        assert row["selected"] == pytest.approx(row["by_prompt"][row["selected_prompts"][0]])
        assert row["hindsight"] == pytest.approx(max(row["by_prompt"].values()))
        assert row["difference"] == pytest.approx(row["selected"] - row["none"])
    assert "best in hindsight" in said.err
    assert "beir/ours/test: prompt 10 of 10" in said.err
    kept = (folder / "out" / "prompts.jsonl").read_text()
    assert [json.loads(line) for line in kept.splitlines()] == rows
    assert evaluate(folder, *given) == 0
    assert (folder / "out" / "prompts.jsonl").read_text() == kept


def test_what_is_measured_without_instructions_is_another_row_than_with_them(folder, capsys):
    for how in ("given", "none", "repeat"):
        assert evaluate(folder, "--on", f"instructir:{folder / 'instructir'}", "--instructions", how) == 0
    rows = [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]
    [given, none, repeat] = [
        row for row in rows if (row["system"], row["measure"], row["group"]) == ("base", "Robustness@10", "")
    ]
    assert [row["benchmark"].partition(", ")[2] for row in (given, none, repeat)] == [
        "", "none instructions", "repeat instructions",
    ]  # fmt: skip
    assert given["value"] == 100  # each variant's own document first
    assert none["value"] == repeat["value"] == pytest.approx(63.09, abs=0.01)  # one list for both, so one is second


def test_instructions_of_held_out_topics_are_replaced_where_they_are_encoded_and_judged_as_before(folder, capsys):
    corpora = ["papers", "pages"]
    out = commit(folder / "run", [replace(topic(number), corpus=corpora[number % 2]) for number in range(30)])
    settings = ["train.schedule.steps=1", "train.schedule.topics_per_batch=6", "train.validation.topics=0",
                f"train.base={folder / 'tiny'}", "train.split.heldout_share=0.3", "evaluate.resamples=100"]  # fmt: skip
    job = [str(REPO / "examples" / "jobs" / "quickstart.yaml"), "--out", str(out)]
    job += [part for setting in settings for part in ("--set", setting)]
    assert run_command(app, ["train", *job]) == 0
    for how in ("given", "none", "generic"):
        assert run_command(app, ["evaluate", *job, "--instructions", how]) == 0
    given, none, generic = (
        {row["measure"]: row for row in json.loads((out / name).read_text())}
        for name in ("evaluation.json", "evaluation-none.json", "evaluation-generic.json")
    )
    assert given.keys() == none.keys() == generic.keys()
    assert {row["queries"] for row in given.values()} == {row["queries"] for row in none.values()}
    assert none["should_fall"]["base"] == none["both_views"]["base"] == 0
    assert given["should_fall"]["base"] != 0
    assert generic["instructed_ndcg"] != given["instructed_ndcg"]
    assert generic["plain_ndcg"] == given["plain_ndcg"] == none["plain_ndcg"]
    by_corpus = json.loads((out / "corpora-evaluation.json").read_text())
    assert list(by_corpus) == ["pages", "papers"]
    both = [row for rows in by_corpus.values() for row in rows if row["measure"] == "both_views"]
    assert sum(row["queries"] * row["trained"] for row in both) == pytest.approx(
        given["both_views"]["queries"] * given["both_views"]["trained"]
    )
    assert "pages" in capsys.readouterr().out
    shutil.rmtree(out)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--prompts", "{}/none.txt"], "none.txt does not read"),
        (["--prompts", str(TEN)], "has 3 judged queries, so 10 to choose a prompt on leave none to report"),
        (["--prompts", str(TEN), "--instructions", "none"], "--prompts goes without --instructions"),
        (["--prompts", str(TEN), "--card"], "--card is for results under the benchmark's own instructions"),
        (["--instructions", "swop"], "there are no instructions 'swop'"),
        (["--instructions", "swap"], "a swap changes nothing here: no query has an instruction"),
    ],
)
def test_what_cannot_be_tried_is_told_in_a_line(folder, tmp_path, capsys, arguments, told):
    given = ["--on", f"beir:{folder / 'ours'}", *(text.format(tmp_path) for text in arguments)]
    assert evaluate(tmp_path, *given) == 2
    assert told in capsys.readouterr().err


def test_prompts_without_a_benchmark_are_refused(tmp_path, capsys):
    assert evaluate(tmp_path, "job.yaml", "--prompts", TEN) == 2
    assert "with --on KIND:PATH" in capsys.readouterr().err
