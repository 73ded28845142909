"""A judge's P(relevant) in releases: tables that losses of sentence-transformers read as they lie; all else stays."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.training.judge_scores import log_odds
from tests.support.trainer_world import commit, judged_topic, tiny_bert, topic

CHANCES = {0: None, 1: (0.9, None, 0.05)}
"""By the number of a topic modulo 4: not judged, and a passage that could not be read; the others are judged whole."""
ODDS = [round(math.log(p / (1 - p)), 4) for p in (0.9, 0.2, 0.05)]
TABLES = {
    "sentence-transformers": ("scored-triplets", "scored-n-tuples-1", "scored-n-tuples-2"),
    "tevatron": ("scored",),
    "flagembedding": ("scored",),
}


def world(judged=True):
    topics = [topic(n) if n % 4 == 0 or not judged else judged_topic(n, CHANCES.get(n % 4, (0.9, 0.2, 0.05)))
              for n in range(24)]  # fmt: skip
    return [replace(each, redistributable=n != 6) for n, each in enumerate(topics)]


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A judged run, one that is not, and a tiny BERT."""
    folder = tmp_path_factory.mktemp("scores")
    commit(folder / "out", world())
    commit(folder / "plain", world(judged=False))
    tiny_bert(folder)
    return folder


@pytest.fixture(scope="module")
def release(folder):
    def export(form, run="out", *more):
        into = folder / f"{form}-{run}{len(more)}"
        words = [
            "export",
            str(folder / run),
            "--format",
            form,
            "--into",
            str(into),
            "--set",
            "split.dev_share=0",
            *more,
        ]
        assert into.exists() or run_command(app, words) == 0
        return into

    return export


def load(folder, config, split="train"):
    from datasets import load_dataset

    return load_dataset(str(folder), config, split=split)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", TABLES)
def test_scores_lie_apart_and_a_run_without_a_judge_has_none(release, form):
    def tables(folder):
        return {path.name for path in folder.iterdir() if path.name.startswith("scored")}

    assert tables(release(form)) == set(TABLES[form])
    assert not tables(release(form, "plain"))
    judged, plain = (release(form, run) for run in ("out", "plain"))
    for name in ("train.jsonl", "v2/queries/train.jsonl", "triplets/train-00000.parquet", "pairs/train-00000.parquet"):
        if (plain / name).exists():
            assert (judged / name).read_bytes() == (plain / name).read_bytes()


def test_every_table_has_the_log_odds_of_its_texts(release):
    triplets, tuples = (load(release("sentence-transformers"), f"scored-{name}") for name in ("triplets", "n-tuples-2"))
    assert triplets.column_names == ["anchor", "positive", "negative", "scores"]
    assert {tuple(row) for row in triplets["scores"]} == {(ODDS[0], ODDS[1]), (ODDS[0], ODDS[2])}
    assert tuples.column_names == ["anchor", "positive", "negative_1", "negative_2", "scores"]
    assert all("18" in row["positive"] or "no year" in row["anchor"] for row in triplets)
    assert {tuple(row) for row in tuples["scores"]} == {(ODDS[0], ODDS[1], ODDS[2])}
    assert all("in the rain" in row["negative_2"] for row in tuples)
    assert set(triplets["anchor"]).isdisjoint({f"who built the bridge of oslo number {n}" for n in range(24)})


@pytest.mark.parametrize(("config", "loss"), [
    ("scored-triplets", "MarginMSELoss"), ("scored-triplets", "DistillKLDivLoss"),
    ("scored-n-tuples-2", "MarginMSELoss"), ("scored-n-tuples-2", "DistillKLDivLoss"),
])  # fmt: skip
def test_one_step_of_sentence_transformers_has_the_loss_worked_out_by_hand(release, folder, tmp_path, config, loss):
    import numpy as np
    import torch
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses

    rows, path = load(release("sentence-transformers"), config).select(range(6)), str(folder / "tiny")
    texts = [name for name in rows.column_names if name != "scores"]
    vectors = [
        SentenceTransformer(path, device="cpu").encode(list(rows[name]), convert_to_numpy=True) for name in texts
    ]
    student = np.stack([(vectors[0] * each).sum(1) for each in vectors[1:]], 1).astype(np.float64)
    teacher = np.array(list(rows["scores"]))
    if loss == "MarginMSELoss":
        surplus = student - teacher
        expected = float(((surplus[:, :1] - surplus[:, 1:]) ** 2).mean())
    else:
        target, own = (np.exp(each) / np.exp(each).sum(1, keepdims=True) for each in (teacher, student))
        expected = float((target * np.log(target / own)).sum(1).mean())
    model = SentenceTransformer(path, device="cpu")
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path / "trained"), max_steps=1, per_device_train_batch_size=6, report_to="none", use_cpu=True,
        save_strategy="no", disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=getattr(losses, loss)(model))
    before = model.encode("a text")
    trainer.train()
    [first] = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert first == pytest.approx(expected, rel=1e-4)
    assert abs(model.encode("a text") - before).max() > 0


def test_tevatron_and_flagembedding_have_a_number_for_each_passage(release):
    for row in lines(release("tevatron") / "scored" / "train.jsonl"):
        passages = row["positive_passages"] + row["negative_passages"]
        assert all(set(each) == {"docid", "title", "text", "score"} for each in passages)
        assert [each["score"] for each in row["positive_passages"]] == [ODDS[0]]
        assert all(each["score"] in ODDS[1:] for each in row["negative_passages"])
    rows = lines(release("flagembedding") / "scored" / "train.jsonl")
    for row in rows:
        assert len(row["pos"]) == len(row["pos_scores"]) == 1
        assert len(row["neg"]) == len(row["neg_scores"]) > 0
        assert all(isinstance(score, float) for score in row["pos_scores"] + row["neg_scores"])
    from datasets import load_dataset

    path = str(release("flagembedding") / "scored" / "train.jsonl")
    assert {"pos_scores", "neg_scores"} < set(load_dataset("json", data_files=path, split="train").column_names)
    assert {row["prompt"] for row in rows} == {"Only passages that give a year.", "Only passages that give no year."}


def test_plain_tables_have_the_probability_itself(release):
    judgments = load(release("hf"), "judgments")
    assert {row["probability"] for row in judgments} == {None, 0.9, 0.2, 0.05}
    triplets = load(release("hf"), "triplets")
    assert {(row["positive_probability"], row["negative_probability"]) for row in triplets} >= {
        (0.9, 0.2),
        (None, None),
    }
    nested = [mark for row in lines(release("jsonl") / "train.jsonl") for mark in row["judgments"]]
    assert {mark["probability"] for mark in nested} == {None, 0.9, 0.2, 0.05}
    assert {
        mark["probability"] for row in lines(release("jsonl", "plain") / "train.jsonl") for mark in row["judgments"]
    } == {None}


def test_the_card_and_the_command_say_how_many_have_scores(release, folder, capsys):
    text = (release("flagembedding") / "README.md").read_text()
    manifest = json.loads((release("flagembedding") / "release.json").read_text())
    judged, scored = manifest["cells"]["judged"], manifest["cells"]["scored"]
    assert 0 < scored < judged
    assert f"judge_demands gave P(relevant) of {scored} of {judged} judged pairs" in " ".join(text.split())
    assert "--knowledge_distillation True" in text
    assert "Scores." not in (release("flagembedding", "plain") / "README.md").read_text()
    words = [
        "export",
        str(folder / "out"),
        "--format",
        "beir",
        "--into",
        str(folder / "beir"),
        "--set",
        "split.dev_share=0",
    ]
    assert run_command(app, words) == 0
    assert f"P(relevant) of {scored} of {judged} judged pairs. This format has no place" in "".join(capsys.readouterr())


def test_a_topic_whose_texts_stay_behind_keeps_its_scores(release):
    rows = lines(release("sentence-transformers") / "withheld" / "scored-triplets" / "train-00000.parquet.jsonl")
    assert {tuple(row["values"]["scores"]) for row in rows} == {(ODDS[0], ODDS[1]), (ODDS[0], ODDS[2])}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["hf", "sentence-transformers"])
def test_the_script_learns_scores_where_they_are(release, folder, form, tmp_path):
    ended = subprocess.run(
        [sys.executable, release(form) / "train_embedder.py", folder / "tiny", "--scores"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": "",
             "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "'loss'" in ended.stdout
    assert "--scores" in (release(form) / "README.md").read_text()
    assert log_odds([0.9]).round(4).tolist() == [ODDS[0]]
