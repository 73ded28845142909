"""A sheet of doubtful judgments is drawn, marked and read back as a reader does it."""

import json
import re

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark
from foil.trainer.evaluate.benchmarks.making.made import write_benchmark
from foil.trainer.evaluate.benchmarks.making.topics import benchmark_of
from tests.support.trainer_world import topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import lines


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A query without an instruction, whose best answer nobody judged, and whose judged one no system finds high."""
    folder = tmp_path_factory.mktemp("reviewed")
    corpus = {"best": "The ferry to Saltmarsh costs four dollars.", "wrong": "Bread is baked for an hour.",
              **{f"d{n}": f"The ferry number {n} to Saltmarsh is blue." for n in range(8)}}  # fmt: skip
    (folder / "beir" / "qrels").mkdir(parents=True)
    (folder / "beir" / "corpus.jsonl").write_text(lines(*({"_id": n, "text": text} for n, text in corpus.items())))
    (folder / "beir" / "queries.jsonl").write_text(lines({"_id": "q1", "text": "what the ferry to Saltmarsh costs"}))
    (folder / "beir" / "qrels" / "test.tsv").write_text("q1 wrong 1\n")
    return folder, f"beir:{folder / 'beir'}"


def review(plain, *arguments):
    return run_command(app, ["benchmarks", "review", plain[1], *map(str, arguments)])


def draw(plain, sheet):
    settings = ["--set", "high_rank=1", "--set", "low_rank=5"]
    return review(plain, "--sheet", sheet, "--vectors", plain[0] / "vectors", *settings)


def test_a_marked_sheet_becomes_a_benchmark_that_is_read(plain, tmp_path, capsys):
    assert draw(plain, tmp_path / "sheet") == 0
    [item] = map(json.loads, (tmp_path / "sheet.jsonl").read_text().splitlines())
    letters = {passage["text"].split()[0]: letter for letter, passage in item["passages"].items()}
    assert letters.keys() == {"The", "Bread"}
    assert item["marks"].keys() == {"A", "B", "remark"}  # there is no instruction to ask about
    text = (tmp_path / "sheet.txt").read_text()
    assert "q1" not in text
    marks = f"{letters['The']}+ {letters['Bread']}0 # the bread is about bread"
    (tmp_path / "sheet.txt").write_text(re.sub(r"^marks 1:.*$", f"marks 1: {marks}", text, flags=re.MULTILINE))
    capsys.readouterr()
    given = ["--marked", tmp_path / "sheet.txt", "--into", tmp_path / "ours", "--reader", "ann"]
    assert review(plain, *given, "--json") == 0
    told = {"queries": 1, "new_relevant": 1, "new_not_relevant": 0, "no_longer_relevant": 1}
    assert json.loads(capsys.readouterr().out) == told
    found = read_benchmark(BenchmarkSource(kind="made", path=tmp_path / "ours"), "")
    assert found.qrels == {"q1": {"wrong": 0, "best": 1}}
    facts = json.loads((tmp_path / "ours" / "benchmark.json").read_text())
    assert (facts["reviewed_by"], facts["counts"]) == ("ann", told)
    assert review(plain, *given) == 2
    assert "ours is there already" in capsys.readouterr().err


def test_an_unusable_document_keeps_what_it_had(plain, tmp_path, capsys):
    assert draw(plain, tmp_path / "sheet") == 0
    path = tmp_path / "sheet.jsonl"
    [item] = map(json.loads, path.read_text().splitlines())
    letters = {passage["text"].split()[0]: letter for letter, passage in item["passages"].items()}
    item["marks"] |= {letters["The"]: "+", letters["Bread"]: "0u"}
    path.write_text(lines(item))
    assert review(plain, "--marked", path, "--into", tmp_path / "ours") == 0
    found = read_benchmark(BenchmarkSource(kind="made", path=tmp_path / "ours"), "")
    assert found.qrels == {"q1": {"wrong": 1, "best": 1}}


def test_an_instruction_is_asked_about(tmp_path):
    write_benchmark(tmp_path / "ours", benchmark_of("ours", map(topic, range(6))), {})
    source = tmp_path, f"made:{tmp_path / 'ours'}"
    assert review(source, "--sheet", tmp_path / "s.txt", "--vectors", tmp_path / "v") == 0
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert all(("natural" in row["marks"]) is bool(row["instruction"]) for row in rows)
    assert len({bool(row["instruction"]) for row in rows}) == 2


def test_what_cannot_be_reviewed_is_told(plain, tmp_path, capsys):
    def refused(told, *arguments):
        assert review(plain, *arguments) == 2
        assert told in capsys.readouterr().err

    assert draw(plain, tmp_path / "sheet") == 0
    capsys.readouterr()
    refused("give --sheet FILE to draw", "--into", tmp_path / "x")
    refused("sheet.txt exists, and may hold marks", "--sheet", tmp_path / "sheet")
    refused("has no marks yet", "--marked", tmp_path / "sheet.txt", "--into", tmp_path / "x")
    refused("s.key.json does not read", "--marked", tmp_path / "s.txt", "--into", tmp_path / "x")
    vectors = ["--vectors", plain[0] / "vectors"]
    sets = ["--set", "least_systems=3", "--set", "missed_share=0.9", "--set", "low_rank=100"]
    refused("put no judgment of beir/beir/test in doubt", "--sheet", tmp_path / "none", *sets, *vectors)
    (tmp_path / "sheet.key.json").write_text('{"digest": "other", "items": {}}')
    refused(
        "sheet.key.json is no key of a sheet of beir:", "--marked", tmp_path / "sheet.txt", "--into", tmp_path / "x"
    )
    assert not (tmp_path / "x").exists()
