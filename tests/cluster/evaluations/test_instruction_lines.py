"""What instructions are worth, as `foil evaluate` says it: a line a system, and the same numbers in its rows."""

import json
import subprocess
import sys

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.sql.query import run_sql
from tests.support.models.fault_server import Behaviour, serving
from tests.support.paths import REPO
from tests.support.sample_run import make
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import lines, write_benchmark

WORDS = ("amber", "basalt", "cedar", "dahlia", "ermine", "fjord", "garnet", "heron")


@pytest.fixture
def misled(tmp_path):
    """Eight queries whose instruction names the words of another document, so that reading it as words loses."""
    folder = tmp_path / "misled"
    (folder / "qrels").mkdir(parents=True)
    texts = {word: f"{word} is found in the north" for word in WORDS}
    (folder / "corpus.jsonl").write_text(lines(*({"_id": w, "title": "", "text": t} for w, t in texts.items())))
    others = [*WORDS[1:], WORDS[0]]
    (folder / "queries.jsonl").write_text(lines(
        *({"_id": f"{word}_1", "text": f"Leave out {other} and {other}, which is not it. [SEP] {word}"}
          for word, other in zip(WORDS, others, strict=True))
    ))  # fmt: skip
    judged = "".join(f"{word}_1\t{word}\t1\n{word}_1\tgone\t1\n{word}_1\tlost\t0\n" for word in WORDS)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def evaluate(folder, *arguments):
    assert run_command(app, ["evaluate", *map(str, arguments), "--out", str(folder / "out")]) == 0
    return [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]


def line_of(rows, system, benchmark="instructir", measure="nDCG@10"):
    [row] = [
        row for row in rows
        if (row["benchmark"], row["group"], row["measure"], row["system"]) == (benchmark, "", measure, system)
    ]  # fmt: skip
    return row


def test_a_system_that_loses_by_instructions_is_named_so_in_one_line(misled, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    make(tmp_path / "out")
    rows = evaluate(tmp_path, "--on", f"instructir:{misled}", "--set", "resamples=200")
    bm25, base = (line_of(rows, system) for system in ("bm25", "base"))
    assert bm25["with_instruction"] < bm25["without_instruction"]
    assert bm25["gain"] == pytest.approx(bm25["with_instruction"] - bm25["without_instruction"])
    assert bm25["gain_low"] <= bm25["gain"] <= bm25["gain_high"] < 0
    assert (bm25["instructed"], bm25["unreachable"], bm25["unreachable_relevant"]) == (8, 16, 8)
    assert (bm25["p_mrr"], base["instructed"]) == (None, 8)
    shown = capsys.readouterr().out
    assert "unreachable judgments: 16, relevant 8" in " ".join(shown.split())
    [line] = [line for line in shown.splitlines() if "bm25" in line and "loses" in line]
    assert f"{bm25['gain']:+.1f} [{bm25['gain_low']:+.1f}, {bm25['gain_high']:+.1f}] loses" in line
    page = subprocess.run(
        [sys.executable, REPO / "scripts" / "results_page.py", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    gained = f"{bm25['gain']:+.1f} [{bm25['gain_low']:+.1f}, {bm25['gain_high']:+.1f}] loses |  | 16 |"
    assert [line for line in page.splitlines() if line.startswith("| instructir | bm25 | 8 |") and gained in line]
    assert len(list((tmp_path / "out" / "vectors").rglob("*.npy"))) == 2  # all documents; all queries, bare ones too
    [[found]] = run_sql(
        tmp_path / "out", "SELECT gain FROM evaluations WHERE system = 'bm25' AND measure = 'nDCG@10' AND gain < 0"
    ).to_pandas().to_numpy().tolist()  # fmt: skip
    assert found == pytest.approx(bm25["gain"])


def test_the_score_is_of_the_original_instructions_and_p_mrr_stands_behind_it(tmp_path):
    write_benchmark("followir", tmp_path / "ours")
    row = line_of(evaluate(tmp_path, "--on", f"followir:{tmp_path / 'ours'}"), "base", "followir", "score")
    assert row["instructed"] == 1  # of Core17 the original query has no instruction
    assert row["p_mrr"] is not None
    parts = [row for row in evaluate(tmp_path, "--on", f"followir:{tmp_path / 'ours'}") if "part: " in row["group"]]
    assert {row["group"]: row.get("instructed") for row in parts if row["measure"] == "score"} == {
        "part: Core17": 0, "part: News21": 1,
    }  # fmt: skip


def test_queries_that_say_their_demand_themselves_are_held_against_their_original(tmp_path):
    folder = tmp_path / "pir"
    folder.mkdir()
    corpus = ["ferries are cheap", "ferries are dear", "bread"]
    (folder / "pir_two_tasks.json").write_text(json.dumps({"fares": {"corpus": corpus}}))
    (folder / "pairs.jsonl").write_text(lines(
        {"task": "fares", "id": "a", "query": "ferries", "instructed": "why are ferries cheap",
         "counter": "why are ferries dear", "gold": [0], "other_gold": [1]}
    ))  # fmt: skip
    row = line_of(evaluate(tmp_path, "--on", f"pir:{folder}"), "bm25", "pir")
    assert (row["instructed"], row["with_instruction"]) == (2, 100.0)
    assert row["without_instruction"] == pytest.approx(100 * (1 + 0.6309) / 2, abs=0.01)
    assert "bare" not in (tmp_path / "out" / "results.jsonl").read_text()


def test_without_bare_queries_there_is_no_line(misled, tmp_path, capsys):
    rows = evaluate(tmp_path, "--on", f"instructir:{misled}", "--set", "bare=false")
    assert "gain" not in line_of(rows, "bm25")
    assert "the instruction brings" not in capsys.readouterr().out


def rewritten(request, _choice):
    """The query of the prompt; nothing for one of them."""
    content = request["messages"][0]["content"]
    word = content.split("<query>")[1].split("</query>")[0]
    return "" if word == "amber" else f"{word} found"


def test_a_rewriter_searches_with_other_words_pays_once_and_counts_what_is_of_no_use(misled, tmp_path, capsys):
    with serving(Behaviour(), rewritten) as server:
        system = f"rewrite:ours@{server.url}|bm25"
        arguments = (system, "--on", f"instructir:{misled}", "--set", "price.prompt=1.0", "--runs")
        row = line_of(evaluate(tmp_path, *arguments), system)
        said = capsys.readouterr().err
        requests = server.report()["requests"]
        again = line_of(evaluate(tmp_path, *arguments), system)
        assert (server.report()["requests"], again) == (requests, row)
    [bill] = row["replies"].values()
    assert (bill["requests"], bill["faults"]) == (requests, {"empty": 2}) == (16, {"empty": 2})
    assert bill["cost_usd"] == pytest.approx(bill["prompt_tokens"] / 1e6)
    assert "16 replies, 16 of them new" in said
    assert "replies of no use, whose queries stayed as they were: 2 empty" in said
    assert "16 replies, 0 of them new" in capsys.readouterr().err
    alone = line_of(evaluate(tmp_path, "--on", f"instructir:{misled}"), "bm25")
    assert row["with_instruction"] > alone["with_instruction"]
    assert (row["facts"]["rewriter"], row["facts"]["rewrite_keep_instruction"]) == ("ours", False)


def test_a_rewriter_stands_before_any_system_and_may_leave_it_the_instruction(misled, tmp_path, capsys):
    with serving(Behaviour(), rewritten) as server:
        system = f"rewrite:ours@{server.url}|base"
        cut = line_of(evaluate(tmp_path, system, "--on", f"instructir:{misled}"), system)
        kept = [
            row for row in evaluate(
                tmp_path, system, "--on", f"instructir:{misled}", "--set", "rewrite.keep_instruction=true"
            ) if row["system"] == system and row["measure"] == "nDCG@10" and row["facts"]["rewrite_keep_instruction"]
        ]  # fmt: skip
    assert len(kept) == 1
    assert kept[0]["with_instruction"] != cut["with_instruction"]
    assert run_command(app, ["evaluate", "rewrite:ours@http://127.0.0.1:1/v1", "--on", f"instructir:{misled}"]) == 2
    assert "names no system to search with; write 'rewrite:ours@http://127.0.0.1:1/v1|bm25'" in capsys.readouterr().err
