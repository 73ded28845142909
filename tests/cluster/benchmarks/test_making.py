"""`foil benchmarks make` as its users type it: from a run, without what runs train on, readable by `foil evaluate`."""

import json
from dataclasses import replace

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.engine.ids import split_of
from foil.engine.topic import Passage
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, read_benchmark
from tests.support.trainer_world import commit, topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark

TRAINED = next(name for name in map(str, range(9)) if split_of(name, 0.2) == "train")
HELD_OUT = ["--set", "split.heldout_share=0.2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return commit(tmp_path_factory.mktemp("made") / "run", [topic(number) for number in range(40)])


def make(*arguments):
    return run_command(app, ["benchmarks", "make", *map(str, arguments)])


def made(folder):
    return read_benchmark(BenchmarkSource(kind="made", path=folder), "")


def test_the_held_out_topics_of_a_run_become_a_benchmark_that_evaluate_reads(run, tmp_path, capsys):
    assert make(run, "--into", tmp_path / "ours", *HELD_OUT, "--json") == 0
    [row] = json.loads(capsys.readouterr().out)
    benchmark = made(tmp_path / "ours")
    assert row == {"benchmark": "run", "documents": len(benchmark.documents), "queries": len(benchmark.queries),
                   "contaminated": 0}  # fmt: skip
    assert len(benchmark.documents) == len(benchmark.queries) > 9
    facts = json.loads((tmp_path / "ours" / "benchmark.json").read_text())
    assert (facts["made_from"], facts["settings"]["split"]["heldout_share"]) == (str(run), 0.2)
    assert [each["run"] for each in facts["against"]] == [str(run)]
    out = ["--out", str(tmp_path / "out"), "--json"]
    assert run_command(app, ["evaluate", "--on", f"made:{tmp_path / 'ours'}", *out]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {row["measure"] for row in rows} >= {"both views", "p-MRR", "WISE(K=20)", "SICR", "nDCG@10"}
    assert {row["benchmark"] for row in rows} == {"made/ours"}


def test_the_split_is_that_of_a_job_that_only_trains(run, tmp_path):
    job = tmp_path / "train.yaml"
    job.write_text(f"out: {run}\ntrain: {{split: {{heldout_share: 0.2}}}}\n")
    assert make(run, "--into", tmp_path / "ours", "--job", job) == 0
    assert make(run, "--into", tmp_path / "by-set", *HELD_OUT) == 0
    assert made(tmp_path / "ours").digest == made(tmp_path / "by-set").digest


def held_out_topics(run, tmp_path):
    assert make(run, "--into", tmp_path / "whole", *HELD_OUT) == 0
    return [query.core[6:9] for query in made(tmp_path / "whole").queries if query.mode == "original"]


@pytest.mark.parametrize("shared", ["query", "document", "half"])
def test_queries_that_another_run_trains_on_are_left_out_with_their_variants(run, tmp_path, capsys, shared):
    names = held_out_topics(run, tmp_path)
    theirs, other = topic(int(names[0])), topic(77)
    text = theirs.passages[1].text  # ten words: a whole short document counts
    passage = {"query": "a text", "document": f"they say that {text} too", "half": " ".join(text.split()[:5])}[shared]
    query = f"please tell {theirs.query} soon" if shared == "query" else "who else"
    taught = replace(
        other, seed_id=TRAINED, query=query, intents=tuple(replace(i, query=query) for i in other.intents),
        passages=(replace(other.passages[0], text=passage), *other.passages[1:]),
    )  # fmt: skip
    more = commit(tmp_path / "more", [taught])
    capsys.readouterr()
    arguments = [run, "--into", tmp_path / "ours", *HELD_OUT, "--against", more]
    assert make(*arguments, "--json") == 0
    [row] = json.loads(capsys.readouterr().out)
    left = {query.core[6:9] for query in made(tmp_path / "ours").queries}
    assert left == (set(names) if shared == "half" else set(names[1:]))
    assert row["contaminated"] == (0 if shared == "half" else 3)
    if shared == "query":
        assert make(*arguments[:2], tmp_path / "none", *arguments[3:], "--refuse") == 2
        assert f"such as 'topic-{names[0]}-0_0'; leave out --refuse" in capsys.readouterr().err
        assert not (tmp_path / "none").exists()


def test_all_topics_are_taken_only_where_that_is_asked_for(run, tmp_path, capsys):
    assert make(run, "--into", tmp_path / "ours", "--set", "topics=all", "--json") == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["queries"], "contaminated" in row) == (120, False)
    for_training = ["--set", "split={heldout_share: 0.0, dev_share: 0.1}", "--against", run]
    assert make(run, "--into", tmp_path / "none", "--set", "topics=all", *for_training) == 2
    assert "none is left: make it of other topics" in capsys.readouterr().err


def test_a_benchmark_of_several_collections_keeps_them_apart(tmp_path, capsys):
    source = write_benchmark("infosearch", tmp_path / "info")
    assert make(f"infosearch:{tmp_path / 'info'}", "--into", tmp_path / "ours") == 0
    before = {b.name.partition("/")[2]: b.digest for b in benchmarks_of(source)}
    found = benchmarks_of(BenchmarkSource(kind="made", path=tmp_path / "ours", name="ours"))
    assert {b.name.partition("/")[2]: b.digest for b in found} == before
    assert make(f"infosearch:{tmp_path / 'info'}#Clarity-v1", "--into", tmp_path / "one") == 0
    assert made(tmp_path / "one").digest == before["Clarity-v1"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{run}", "--into", "{run}"], "is there already; name a new folder"),
        (["{tmp}/nothing", "--into", "{tmp}/a"], "nothing"),
        (["beir:{tmp}/nothing", "--into", "{tmp}/a"], "no qrels/test"),
        (["beir:{tmp}/nothing", "--into", "{tmp}/a", "--snapshot", "s"], "--snapshot names one of a run"),
        (["{run}", "--into", "{tmp}/a", "--set", "split.heldout_share=0.0"], "has no accepted topic to make"),
        (["{run}", "--into", "{tmp}/a", "--against", "{run}#nosuch"], "has no snapshot 'nosuch'"),
        (
            ["{run}", "--into", "{tmp}/a", "--set", "topic=all"],
            "--set topic: unknown key; did you mean topics? MakingSettings has",
        ),
    ],
)
def test_what_cannot_be_made_is_told_in_a_line(run, tmp_path, capsys, arguments, told):
    assert make(*(each.format(run=run, tmp=tmp_path) for each in arguments)) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_passage_of_the_held_out_topics_is_no_training_text_of_the_same_run(run, tmp_path, capsys):
    """The training view takes it out of the topics that share it, so it contaminates nothing."""
    names = held_out_topics(run, tmp_path)
    shared = topic(int(names[0])).passages[0]
    other = replace(topic(77), seed_id=TRAINED)
    sharing = replace(other, passages=(*other.passages, Passage(shared.text, "distractor")))
    again = commit(tmp_path / "again", [*(topic(number) for number in range(40)), sharing])
    capsys.readouterr()
    assert make(again, "--into", tmp_path / "ours", *HELD_OUT, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["contaminated"] == 0
