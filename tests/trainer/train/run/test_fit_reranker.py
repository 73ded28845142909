"""A reranker learns which passage an instruction wants, resumes exactly, and is what sentence-transformers loads."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sentence_transformers import CrossEncoder

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.cluster.training import pin_topics
from foil.engine.errors import UsageError
from foil.trainer.evaluate.comparison.topics import score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem, ScorerSystem
from foil.trainer.evaluate.systems.catalog import open_system
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.model.pair_scorer import load_pair_scorer, load_starting_scorer
from foil.trainer.model.published_model import fingerprint_of
from foil.trainer.model_settings import RerankerSettings
from foil.trainer.settings import RetentionSettings, TrainSettings, ValidationSettings
from foil.trainer.train.reranker.batch_gradients import add_list_gradients
from foil.trainer.train.reranker.ranking_lists import make_lists
from foil.trainer.train.run.fit import BatchReader
from foil.trainer.train.run.fit_reranker import train_reranker
from foil.trainer.train.run.monitor import Callbacks
from foil.trainer.train.run.validation import measure_reranker
from tests.support.paths import REPO
from tests.support.training import FULL, TEMPLATE, StoppedError, load, settings_for

PAIRS = [("who built it", "the bridge was built in 1890"), ("who", "the tower"), ("a b c", "text " * 80)]


def reranker_settings(base, steps=6, **changes):
    keep = RetentionSettings(frozen_embeddings=False)
    return settings_for(base, steps, **{"retention": keep, "reranker": RerankerSettings(), **changes})


@pytest.fixture(scope="module")
def trained(bert, view, tmp_path_factory):
    validation = ValidationSettings(topics=8, steps=10, keep="best", measure="instructed_ndcg")
    settings = reranker_settings(bert, steps=20, validation=validation, reranker=RerankerSettings(other_passages=2))
    settings = settings.model_copy(
        update={"schedule": settings.schedule.model_copy(update={"learning_rate": 3e-3}), "checkpoint_steps": 20}
    )
    return train_reranker(settings, view, tmp_path_factory.mktemp("run"), command="foil train job.yaml")


def test_random_weights_learn_to_retrieve_in_a_few_steps(bert, view, trained):
    held = view.read_all("heldout")
    base = measure_reranker(load_starting_scorer(reranker_settings(bert)), held)
    after = measure_reranker(load_pair_scorer(trained.model, TEMPLATE, FULL), held)
    assert after["plain_ndcg"] > base["plain_ndcg"] + 20
    assert after["instructed_ndcg"] > base["instructed_ndcg"] + 5
    losses = trained.facts["losses"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2
    assert trained.facts["step"] in (10, 20)


def test_the_published_folder_is_a_cross_encoder_of_the_library(trained):
    library = CrossEncoder(str(trained.model), device="cpu")
    ours = load_pair_scorer(trained.model, TEMPLATE, FULL).score(PAIRS)
    assert np.allclose(library.predict(PAIRS), ours.numpy(), atol=1e-5)
    assert library.num_labels == 1
    card = (trained.model / "README.md").read_text()
    assert "CrossEncoder(" in card
    assert "pipeline_tag: text-ranking" in card
    assert "SentenceTransformer(" not in card
    assert [each["step"] for each in trained.facts["validations"]] == [0, 10, 20]


def test_it_ranks_beside_the_embedder_with_the_template_that_it_learnt(bert, view, tmp_path):
    settings = reranker_settings(bert, template="instruction_query")
    model = str(train_reranker(settings, view, tmp_path / "run").model)
    system = open_system(f"rerank:{model}", SystemSettings(), tmp_path)
    assert system.facts()["template"] == "instruction_query"
    with pytest.raises(UsageError, match=f"write rerank:{model}"):
        open_system(model, SystemSettings(), tmp_path)
    with pytest.raises(UsageError, match="is a reranker and has no vectors"):
        load(model)
    with pytest.raises(UsageError, match="is no reranker"):
        open_system(f"rerank:{bert}", SystemSettings(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 3, 5])
@pytest.mark.parametrize("dropout", [False, True])
def test_a_stopped_run_ends_with_the_very_same_weights(bert, view, tmp_path, at, dropout):
    model = reranker_settings(bert).model.model_copy(update={"dropout": dropout})
    keep = RetentionSettings(frozen_embeddings=False, plain_topics=3)
    settings = reranker_settings(bert, model=model, retention=keep)

    def stop(row):
        if row.step == at:
            raise StoppedError

    straight = train_reranker(settings, view, tmp_path / "straight")
    with pytest.raises(StoppedError):
        train_reranker(settings, view, tmp_path / "stopped", callbacks=Callbacks(on_step=stop))
    resumed = train_reranker(settings, view, tmp_path / "stopped")
    assert resumed.facts["losses"] == straight.facts["losses"]
    assert (resumed.model / "model.safetensors").read_bytes() == (straight.model / "model.safetensors").read_bytes()
    assert train_reranker(settings, view, tmp_path / "stopped").facts == resumed.facts


@pytest.mark.parametrize("loss", ["softmax", "ranknet", "margin"])
def test_micro_batches_change_no_gradient(bert, view, loss):
    settings = reranker_settings(bert, reranker=RerankerSettings(loss=loss))
    lists = make_lists(BatchReader(view, settings, TEMPLATE).groups(0), TEMPLATE, 3, seed=0)
    found = []
    for tokens in (10_000_000, 300):
        scorer = load_starting_scorer(settings.model_copy(
            update={"encode": FULL.model_copy(update={"micro_batch_tokens": tokens})}
        ))  # fmt: skip
        result = add_list_gradients(scorer, lists, settings.reranker, 0.5, seed=0)
        gradients = torch.cat([value.grad.reshape(-1) for value in scorer.parameters() if value.grad is not None])
        found.append((result, gradients))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-6)
    assert found[0][1].abs().sum() > 0


def test_an_embedder_is_measured_on_the_same_candidates(bert, view):
    systems = EncoderSystem("model", load(bert)), ScorerSystem("model", load_starting_scorer(reranker_settings(bert)))
    held = view.read_all("heldout")
    ours, theirs = (score_topics(system, held, candidates=True).values["model"] for system in systems)
    assert {name: values.keys() for name, values in ours.items()} == {
        name: values.keys() for name, values in theirs.items()
    }
    assert 0 < np.mean(list(ours["plain_ndcg"].values())) <= 1


@pytest.mark.parametrize(
    "choice",
    [
        {"loss": {"temperature": 0.1}}, {"model": {"lora": {}}}, {"model": {"pooling": "cls"}},
        {"gradient_cache": True},
        {"retention": {"blends": [0.5]}}, {"retention": {"pull_queries": 1}}, {"workers": 2}, {"preset": "inf_embed"},
        {"encode": {"query_tokens": 9}}, {"model": {"cross_attention": {}}}, {"model": {"matryoshka": [8]}},
    ],
)  # fmt: skip
def test_what_an_embedder_alone_has_is_refused(choice):
    [(section, inner)] = choice.items()
    key = f"{section}.{next(iter(inner))}" if isinstance(inner, dict) else section
    with pytest.raises(ValidationError, match=rf"has no use for [\w., ]*{key}"):
        TrainSettings(reranker={}, **choice)
    TrainSettings(**choice)


def test_defaults_by_name_are_no_choice_and_embedders_keep_their_fingerprint(monkeypatch):
    TrainSettings(reranker={"loss": "margin", "margin": 2}, loss={"temperature": 0.05}, workers=0)
    fingerprint = fingerprint_of(TrainSettings(), "digest")
    assert fingerprint == "e0bb7794653c1a0958dbcadf7f3b9bf22e0c41e0da1f9dc66da534b58ceff2e4"
    others = ({"reranker": {}}, {"bare_queries": False}, {"instructions": "swap"}, {"instruction_negatives": False})
    assert fingerprint not in {fingerprint_of(TrainSettings(**other), "digest") for other in others}
    monkeypatch.setattr("foil.trainer.model.published_model.CUT", "instructions")  # as it was
    assert fingerprint_of(TrainSettings(), "digest") != fingerprint


@pytest.mark.long
def test_the_example_trains_on_a_handful_of_topics(tmp_path):
    """Loss and both-views accuracy on the topics that it learns, from the packaged MiniLM."""
    overrides = [
        "limits.seeds=24", "limits.partition_seeds=24", "train.schedule.topics=3", "train.schedule.topics_per_batch=3",
        "train.schedule.steps=14", "train.schedule.warmup_steps=2", "train.schedule.learning_rate=3.0e-4",
        "train.retention.plain_topics=0", "train.validation.topics=0", "train.encode.max_tokens=96",
        "train.reranker.other_passages=1", "train.split={heldout_share: 0, dev_share: 0}",
    ]  # fmt: skip
    job = load_job(Path(REPO / "examples/jobs/reranker.yaml"), overrides, tmp_path / "out")
    assert run_job(job).complete
    view = pin_topics(job, job.train)
    topics = view.read("train", range(3))
    before = measure_reranker(load_starting_scorer(job.train), topics)
    trained = train_reranker(job.train, view, job.out)
    after = measure_reranker(load_pair_scorer(trained.model, TEMPLATE, job.train.encode), topics)
    losses = trained.facts["losses"]
    assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])
    assert after["both_views"] > before["both_views"] + 20
    assert json.loads((trained.model / "foil.json").read_text())["settings"]["reranker"]["loss"] == "softmax"
