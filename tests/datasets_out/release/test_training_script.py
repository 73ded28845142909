"""A release is trained on as it lies: triplets are what `load_dataset` gives, and its script trains without Foil."""

import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.release.formats.catalog import FORMATS
from foil.trainer.text_templates import TEMPLATES, template_named
from tests.support.trainer_world import YEAR, commit, tiny_bert, topic

SCRIPT = "train_embedder.py"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Releases of twelve topics by format, and a tiny BERT."""
    folder = tmp_path_factory.mktemp("trained")
    out = commit(folder / "out", [replace(topic(n), redistributable=True) for n in range(12)])
    for form in ("hf", "sentence-transformers"):
        told = ["export", str(out), "--format", form, "--into", str(folder / form), "--set", "split.dev_share=0"]
        assert run_command(app, told) == 0
    tiny_bert(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("form", ["hf", "sentence-transformers"])
def test_triplets_are_what_load_dataset_gives(released, form, monkeypatch, tmp_path):
    from datasets import get_dataset_config_names, load_dataset

    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    folder = shutil.copytree(released / form, tmp_path / "train")  # a name that `datasets` might take for a script
    default = load_dataset(str(folder), split="train")
    assert default.to_list() == load_dataset(str(folder), "triplets", split="train").to_list()
    assert {"positive", "negative"} < set(default.column_names)
    head = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    assert [each["config_name"] for each in head["configs"] if each.get("default")] == ["triplets"]
    assert set(get_dataset_config_names(str(folder))) == {each["config_name"] for each in head["configs"]}
    assert len(head["configs"]) > 2


@pytest.mark.slow
@pytest.mark.parametrize("form", ["hf", "sentence-transformers"])
def test_the_script_of_a_release_trains_a_model(released, form, tmp_path):
    from sentence_transformers import SentenceTransformer

    ended = subprocess.run(
        [sys.executable, released / form / SCRIPT, released / "tiny"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": "",
             "CUDA_VISIBLE_DEVICES": ""}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.count("'loss'") >= 2, ended.stdout
    before, after = (
        SentenceTransformer(str(path), device="cpu").encode(YEAR) for path in (released / "tiny", tmp_path / "trained")
    )
    assert abs(before - after).max() > 0
    assert f"`python {SCRIPT} BASE_MODEL`" in (released / form / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_script_joins_texts_as_the_template_does_and_cuts_the_query(released, tmp_path):
    from sentence_transformers import SentenceTransformer

    from foil.datasets_out.release.formats.training_script import training_script

    model = SentenceTransformer(str(released / "tiny"), device="cpu")
    for name in TEMPLATES:
        form = template_named(name)
        (tmp_path / SCRIPT).write_text(training_script(form))
        as_read = runpy.run_path(str(tmp_path / SCRIPT))["as_read"]
        for instruction, title in ((YEAR, "A title"), ("", ""), ("{braces}", "{0}")):
            row = {"instruction": instruction, "query": "who {built} it", "positive": "by {people}", "negative": "no",
                   "positive_title": title, "negative_title": ""}  # fmt: skip
            joined = form.format_pair(instruction, row["query"])
            texts = {"anchor": joined, "positive": form.format_passage(title, "by {people}"), "negative": None}
            texts["negative"] = form.format_passage("", "no")
            assert as_read(row, model) == texts
        long = {**row, "instruction": YEAR, "query": "word " * 500}
        anchor = as_read(long, model)["anchor"]
        assert YEAR in anchor
        assert len(model.tokenizer(anchor)["input_ids"]) <= model.max_seq_length


def test_only_training_topics_bring_a_script(released, tmp_path):
    told = ["export", str(released / "out"), "--format", "hf", "--set", "split.heldout_share=0.5"]
    assert run_command(app, [*told, "--split", "heldout", "--into", str(tmp_path / "heldout")]) == 0
    assert not (tmp_path / "heldout" / SCRIPT).exists()
    assert run_command(app, [*told, "--format", "beir", "--into", str(tmp_path / "beir")]) == 0
    assert not (tmp_path / "beir" / SCRIPT).exists()
    assert {"hf", "sentence-transformers"} == {name for name, form in FORMATS.items() if "triplets" in form.schemas}
