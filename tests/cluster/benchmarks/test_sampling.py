"""`foil benchmarks make` with a sample: kept where systems keep their ranking, else refused."""

import json
from itertools import islice, permutations

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark
from tests.support.trainer_world import commit, tiny_bert, topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import lines, write_benchmark


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    run = commit(folder / "run", [topic(number) for number in range(40)])
    return folder, run, tiny_bert(folder)


def sampled(world, into, *sets):
    folder, run, model = world
    given = [part for each in ("topics=all", *sets) for part in ("--set", each)]
    return run_command(
        app,
        ["benchmarks", "make", str(run), "--into", str(into), "--system", str(model), "--vectors", str(folder / "v"),
         "--json", *given],
    )  # fmt: skip


@pytest.mark.slow
def test_a_sample_that_keeps_the_ranking_is_written_with_its_tau(world, tmp_path, capsys):
    assert sampled(world, tmp_path / "ours", "queries=12", "documents=60") == 0
    printed = capsys.readouterr()
    [row] = json.loads(printed.out)
    assert (row["documents"], row["queries"], row["tau"]) == (60, 36, 1.0)
    assert "Kendall's tau 1.000" in printed.err
    benchmark = read_benchmark(BenchmarkSource(kind="made", path=tmp_path / "ours"), "")
    judged = {document for grades in benchmark.qrels.values() for document in grades}
    assert judged < benchmark.documents.keys()
    ranking = json.loads((tmp_path / "ours" / "benchmark.json").read_text())["ranking"]
    assert ranking["full"].keys() == ranking["sampled"].keys() == {"bm25", "base", str(world[2])}
    assert all(0 < value < 1 for value in ranking["full"].values())
    assert sampled(world, tmp_path / "again", "queries=12", "documents=60") == 0
    assert (tmp_path / "again" / "corpus.jsonl").read_bytes() == (tmp_path / "ours" / "corpus.jsonl").read_bytes()


def disagreeing(folder):
    """BM25 tells twelve part numbers apart, the base model alone finds a synonym; one query of each ranks otherwise."""
    codes = ["".join(digits) for digits in islice(permutations("31459"), 12)]
    corpus = {code: f"Manual of the pump with the part number {code}, its seals and its two valves." for code in codes}
    corpus |= {"cars": "A garage where mechanics fix cars.", "decoy": "The bread shop."}
    queries = {f"q{code}": f"pump {code}" for code in codes} | {"q": "automobile repair shop"}
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(lines(*({"_id": name, "text": text} for name, text in corpus.items())))
    (folder / "queries.jsonl").write_text(lines(*({"_id": name, "text": text} for name, text in queries.items())))
    judged = [f"{name} {name[1:] or 'cars'} 1\n" for name in queries]
    (folder / "qrels" / "test.tsv").write_text("".join(judged))
    return f"beir:{folder}"


def test_a_sample_that_does_not_keep_it_is_refused_unless_the_bound_allows_it(world, tmp_path, capsys):
    source = disagreeing(tmp_path / "theirs")
    given = ["benchmarks", "make", source, "--vectors", str(world[0] / "v"), "--json", "--set", "queries=2", "--into"]
    assert run_command(app, [*given, str(tmp_path / "ours")]) == 2
    said = capsys.readouterr()
    assert "does not keep the ranking of 2 systems by nDCG@10: Kendall's tau is -1.000, and least_tau 0.9" in said.err
    assert "Kendall's tau -1.000" in said.err
    assert not (tmp_path / "ours").exists()
    assert run_command(app, [*given, str(tmp_path / "ours"), "--set", "least_tau=-1.0"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[-1])[0]
    assert (row["queries"], row["tau"]) == (2, -1.0)


def test_a_sample_on_which_all_systems_tie_is_refused(world, tmp_path, capsys):
    write_benchmark("beir", tmp_path / "theirs")
    given = ["benchmarks", "make", f"beir:{tmp_path / 'theirs'}", "--into", str(tmp_path / "ours")]
    assert run_command(app, [*given, "--vectors", str(world[0] / "v"), "--set", "documents=2"]) == 2
    assert "Kendall's tau is undefined, since all systems tie" in capsys.readouterr().err
