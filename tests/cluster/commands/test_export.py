"""A reranker and an exported embedder as their users train, write and measure them."""

import json
from pathlib import Path

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from tests.support.paths import REPO
from tests.support.trainer_world import commit, tiny_bert, topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark

JOB = REPO / "examples" / "jobs" / "quickstart.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A committed world, a base and a benchmark."""
    folder = tmp_path_factory.mktemp("served")
    tiny_bert(folder)
    commit(folder / "out", [topic(number) for number in range(60)])
    write_benchmark("trec", folder / "trec")
    return folder


def job_arguments(command: str, folder: Path, *more: str) -> list[str]:
    chosen = [
        f"train.base={folder / 'tiny'}", "train.schedule.steps=2", "train.schedule.topics_per_batch=6",
        "train.encode.max_tokens=64", "train.validation.topics=0", "evaluate.resamples=100", "train.reranker={}",
    ]  # fmt: skip
    settings = [part for setting in chosen for part in ("--set", setting)]
    return [command, str(JOB), "--out", str(folder / "out"), *settings, *more]


def test_a_reranker_is_trained_measured_on_topics_and_ranks_a_benchmark(folder, capsys):
    assert run_command(app, job_arguments("train", folder)) == 0
    assert "sentence_transformers.CrossEncoder" in "".join(capsys.readouterr())
    assert run_command(app, job_arguments("evaluate", folder, "--json")) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"both_views", "instructed_ndcg", "plain_ndcg"} <= set(rows)
    model = f"rerank:{folder / 'out' / 'model'}"
    on = ["--on", f"trec:{folder / 'trec'}", "--out", str(folder / "results"), "--json"]
    assert run_command(app, ["evaluate", model, *on]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {row["system"] for row in found} == {"bm25", "base", model}


def test_a_reranker_is_not_exported(folder, capsys):
    assert run_command(app, job_arguments("train", folder, "--export", "onnx")) == 2
    words = capsys.readouterr().err
    assert "only embedders with one vector a text are exported" in words or "foil-ir[onnx]" in words


@pytest.mark.slow
def test_an_exported_model_is_measured_beside_its_source(folder, capsys):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = str(folder / "tiny")
    assert run_command(app, ["export", model, "--format", "onnx", "--json"]) == 0
    files = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [each["name"] for each in files] == ["model.onnx", "model_qint8.onnx"]
    systems = [model, f"onnx:{model}", f"onnx:{model}/onnx/model_qint8.onnx"]
    on = ["--on", f"trec:{folder / 'trec'}", "--out", str(folder / "onnx"), "--set", "encode.max_tokens=64", "--json"]
    assert run_command(app, ["evaluate", *systems, *on]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])
    values = {row["system"]: row["value"] for row in rows if not row["group"]}
    assert values[systems[0]] == pytest.approx(values[systems[1]])
    assert len(values) == 5


def test_what_is_no_model_is_told(folder, capsys):
    assert run_command(app, ["export", str(folder / "nothing")]) == 2
    words = capsys.readouterr().err
    assert "no model's directory" in words or "foil-ir[onnx]" in words
    assert "Traceback" not in words
