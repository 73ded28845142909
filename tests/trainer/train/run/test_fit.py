"""Training: it learns, resumes exactly, and leaves what sentence-transformers loads."""

import json
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.errors import CorruptDataError, UsageError
from foil.trainer.evaluate.comparison.topics import gains, score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem
from foil.trainer.evaluate.systems.embedder import LocalEncoder
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.model.checkpoint import TrainingState, blend_weights, load_state, publish, save_state, weights
from foil.trainer.model.packing import micro_batches
from foil.trainer.model.published_model import made_of
from foil.trainer.settings import LossSettings, RetentionSettings, ScheduleSettings
from foil.trainer.text_templates import template_named
from foil.trainer.train.data.collate import collate, find_negatives, reduce_to_plain
from foil.trainer.train.run.fit import BatchReader, Hooks, fit, learning_rate, make_optimiser, train
from tests.support.trainer_world import YEAR, commit, topic
from tests.support.training import FULL, SHARES, TEMPLATE, StoppedError, fitted, load, settings_for

TEXTS = ["", "one", "two words", "a longer text of several words " * 5, "two words", YEAR]


def encode(encoder, texts):
    with torch.no_grad():
        return encoder.encode(texts, [])


def test_our_vectors_are_those_of_sentence_transformers(bert):
    library = SentenceTransformer(str(bert), device="cpu")
    assert np.allclose(encode(load(bert), TEXTS).numpy(), library.encode(TEXTS), atol=1e-6)


def test_micro_batches_change_no_vector_and_hold_their_budget(bert):
    whole, cut = (encode(load(bert, FULL.model_copy(update={"micro_batch_tokens": n})), TEXTS) for n in (10_000, 9))
    assert torch.allclose(whole, cut, atol=1e-6)
    assert list(micro_batches([3, 40, 1, 16, 17], 64)) == [[1], [4, 3], [0, 2]]
    assert list(micro_batches([3, 40, 1], 8)) == [[1], [0], [2]]


@pytest.mark.slow
def test_a_model_learns_which_passage_an_instruction_wants(bert, view, tmp_path):
    settings = settings_for(bert, steps=40)
    trained = train(settings, view, tmp_path / "run", command="foil train job.yaml")
    held = view.read_all("heldout")
    base, after = (score_topics(EncoderSystem("", load(path)), held).values[""] for path in (bert, trained.model))
    rows = gains(base, after, 2000)
    assert rows["both_views"].difference > 40
    assert rows["net"].low > 10
    assert rows["instructed_ndcg"].difference > 0
    losses = trained.facts["losses"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 1


def test_a_trained_model_loads_in_the_real_library_and_encodes_the_same(bert, view, tmp_path):
    settings = settings_for(bert)
    trained = train(settings, view, tmp_path / "run", command="foil train job.yaml")
    library = SentenceTransformer(str(trained.model), device="cpu")
    assert np.allclose(library.encode(TEXTS), encode(load(trained.model), TEXTS).numpy(), atol=1e-6)
    _, expected = fitted(settings, view, tmp_path / "again")
    assert all(torch.equal(value, expected[f"model.{name}"]) for name, value in weights(library).items())
    card = (trained.model / "README.md").read_text()
    assert view.digest in card
    assert "foil train job.yaml" in card
    assert "{query} {instruction}" in card
    assert not [path for path in trained.model.rglob("*") if path.suffix in (".bin", ".pt", ".pkl")]


@pytest.mark.slow
def test_a_base_with_prompts_is_trained_and_asked_behind_them(bert, view, tmp_path):
    library = SentenceTransformer(str(bert), device="cpu")
    library.prompts = {"query": "query: ", "document": "passage: "}
    library.save(str(tmp_path / "e5"))
    trained = train(settings_for(tmp_path / "e5", template="own"), view, tmp_path / "own")
    assert trained.facts["template"]["pair"] == "query: {query} {instruction}"
    assert "`query: {query} {instruction}`" in (trained.model / "README.md").read_text()
    by_name = train(settings_for(tmp_path / "e5", template="prefixes"), view, tmp_path / "named")
    assert all(
        torch.equal(value, other)
        for value, other in zip(*(weights(load(each.model)).values() for each in (trained, by_name)), strict=True)
    )
    again = LocalEncoder(str(trained.model), SystemSettings())
    assert again.template.format_pair("", "what") == "query: what"


def test_a_bare_query_may_have_a_form_of_its_own():
    instruct = template_named("instruct")
    assert instruct.format_pair("Find papers.", "bm25") == "Instruct: Find papers.\nQuery:bm25"
    assert instruct.format_pair("", "bm25") == "bm25"


@pytest.fixture(scope="module")
def mixed_view(world, tmp_path_factory):
    """The world, and a third of every batch from another run."""
    more = commit(tmp_path_factory.mktemp("more"), [topic(number) for number in range(60, 80)])
    sources = [TopicSource(load_snapshot(run, None), weight=weight) for run, weight in ((world, 2.0), (more, 1.0))]
    return TrainingView(sources, SplitSettings(**SHARES))


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 4])
def test_a_stopped_run_over_two_runs_resumes_to_the_very_same_weights(bert, mixed_view, tmp_path, at):
    test_a_stopped_run_resumes_to_the_very_same_weights(bert, mixed_view, tmp_path, at)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_a_stopped_run_resumes_to_the_very_same_weights(bert, view, tmp_path, at):
    def stop(progress):
        if progress.step == at:
            raise StoppedError

    settings = settings_for(bert)
    straight_losses, straight = fitted(settings, view, tmp_path / "straight")
    with pytest.raises(StoppedError):
        fitted(settings, view, tmp_path / "stopped", on_step=stop)
    losses, resumed = fitted(settings, view, tmp_path / "stopped")
    assert losses == straight_losses
    assert all(torch.equal(value, straight[name]) for name, value in resumed.items())


def test_a_batch_is_read_while_the_one_before_computes_and_none_is_behind_the_last(bert, view, tmp_path, monkeypatch):
    read, really, begun = [], BatchReader.read, {step: Event() for step in range(4)}

    def reading(batches, step):
        read.append(step)
        begun[step].set()
        return really(batches, step)

    settings, rows, encoder = settings_for(bert, steps=4), [], load(bert)
    forward = encoder.forward

    def computing(batch):
        last_needed = min(len(rows) + 1, 3)
        assert begun[last_needed].wait(20), f"step {len(rows)} computes, and nobody reads {last_needed}"
        return forward(batch)

    monkeypatch.setattr(BatchReader, "read", reading)
    monkeypatch.setattr(encoder, "forward", computing)
    fit(encoder, load(bert), settings, view, tmp_path, hooks=Hooks(on_step=rows.append))
    assert read == [0, 1, 2, 3]
    monkeypatch.undo()
    for row in rows:
        batch, alone = BatchReader(view, settings, encoder.texts).read(row.step - 1), load(bert)
        alone.micro_batches(batch.passages, batch.pairs)
        assert round(row.tokens_per_s * row.seconds) == alone.tokens


def test_what_a_batch_that_is_read_ahead_raises_ends_the_training(bert, view, tmp_path, monkeypatch):
    really = BatchReader.read

    def reading(batches, step):
        if step == 2:
            raise CorruptDataError("the third batch")
        return really(batches, step)

    monkeypatch.setattr(BatchReader, "read", reading)
    rows = []
    with pytest.raises(CorruptDataError, match="the third batch"):
        fit(load(bert), load(bert), settings_for(bert, steps=4), view, tmp_path, hooks=Hooks(on_step=rows.append))
    assert [row.step for row in rows] == [1]


def test_plain_topics_bring_a_bare_query_and_its_passage_beside_the_batch(bert, view):
    keep = RetentionSettings(plain_topics=5)
    alone = BatchReader(view, settings_for(bert), TEMPLATE).read(3)
    mixed = BatchReader(view, settings_for(bert, retention=keep), TEMPLATE)
    beside = mixed.read(3)
    added = beside.pairs[len(alone.pairs) :]
    assert beside.pairs[: len(alone.pairs)] == alone.pairs
    assert 0 < len(added) <= 5
    assert {instruction for instruction, _ in added} == {""}
    assert len(beside.anchors) - len(alone.anchors) == len(beside.passages) - len(alone.passages) == len(added)
    assert (
        mixed.read(4).pairs
        != beside.pairs
        == BatchReader(view, settings_for(bert, retention=keep), TEMPLATE).read(3).pairs
    )
    with pytest.raises(UsageError, match="plain_topics"):
        BatchReader(view, settings_for(bert, retention=RetentionSettings(plain_topics=500)), TEMPLATE)


def test_what_a_plain_topic_wants_is_no_negative_where_another_topic_brings_it(view):
    """The topic wants both of its passages and brings the first; another one brings the second."""
    whole, other = view.read("train", [0, 1])
    second = replace(other, passages=(whole.passages[1], *other.passages[1:]))
    batch = collate([second, reduce_to_plain(whole)], TEMPLATE, partial_groups=[whole])
    row = [batch.pairs[pair] == whole.intents[0] for pair, _ in batch.anchors].index(True)
    at = batch.passages.index(TEMPLATE.format_passage(*whole.passages[1]))
    for keys, negative in (
        (batch.keys, False),
        (replace(batch.keys, other_relevant=batch.keys.other_relevant[:0]), True),
    ):
        assert find_negatives(batch.anchors, keys, LossSettings())["P"].mask[row, at] == negative


def test_an_unfinished_checkpoint_is_never_loaded(bert, tmp_path):
    model = load(bert)
    optimiser = make_optimiser(model, ScheduleSettings())
    save_state(tmp_path, TrainingState(2, "f", [1.0, 2.0]), model, optimiser)

    def torn(draft):
        (draft / "state.json").write_text('{"step": 4, "fingerprint": "f", "losses": []}')
        raise StoppedError

    with pytest.raises(StoppedError):
        publish(tmp_path / "step-00000004", torn)
    assert load_state(tmp_path, TrainingState(0, "f", []), model, optimiser).step == 2


def test_checkpoints_of_other_settings_are_refused_and_broken_ones_named(bert, tmp_path):
    model = load(bert)
    optimiser = make_optimiser(model, ScheduleSettings())
    settings, other = settings_for(bert), settings_for(bert, steps=77)
    save_state(tmp_path, TrainingState(2, "f", [1.0, 2.0], made_of(settings, "d" * 64)), model, optimiser)
    for now, named in (
        (made_of(other, "d" * 64), r"train\.schedule\.steps: \d+, now 77; remove it"),
        (made_of(settings, "e" * 64), r"other data \(digest dddddddddddd, now eeeeeeeeeeee\)"),
        (made_of(settings, "d" * 64), "cut long texts otherwise"),
    ):
        with pytest.raises(UsageError, match=named):
            load_state(tmp_path, TrainingState(0, "g", [], now), model, optimiser)
    (tmp_path / "step-00000002" / "moments.safetensors").write_bytes(b"short")
    with pytest.raises(CorruptDataError, match=r"no checkpoint in .* is whole \(step-00000002\)"):
        load_state(tmp_path, TrainingState(0, "f", []), model, optimiser)


def test_a_second_run_finds_the_first_and_another_one_is_refused(bert, view, tmp_path):
    first = train(settings_for(bert, steps=2), view, tmp_path)
    assert train(settings_for(bert, steps=2), view, tmp_path).facts == first.facts
    with pytest.raises(UsageError, match=r"trained with train\.schedule\.steps: 2, now 1; choose another"):
        train(settings_for(bert, steps=1), view, tmp_path)
    more = train(settings_for(bert, steps=3), view, tmp_path).facts
    assert (more["losses"][:2], len(more["losses"]), more["went_on_at"]) == (first.facts["losses"], 3, [2])


def test_blends_are_measured_on_dev_and_the_best_allowed_one_is_kept(bert, view, tmp_path):
    keep = RetentionSettings(frozen_embeddings=False, blends=(0.3, 1.0), plain_loss_allowed=100)
    trained = train(settings_for(bert, steps=20, retention=keep), view, tmp_path)
    curve = trained.facts["curve"]
    assert [point["share"] for point in curve] == [0.0, 0.3, 1.0]
    best = max(curve, key=lambda point: point["means"]["both_views"])
    assert trained.facts["blend"] == best["share"] > 0
    assert (trained.model / "curve.png").stat().st_size > 5000
    assert json.loads((trained.model / "foil.json").read_text())["curve"] == curve


def test_a_blend_lies_on_the_line_between_two_models(bert):
    start = weights(load(bert))
    end = {name: value + 1 for name, value in start.items()}
    assert all(torch.equal(value, start[name]) for name, value in blend_weights(start, end, 0.0).items())
    assert all(torch.equal(value, end[name]) for name, value in blend_weights(start, end, 1.0).items())
    assert all(torch.allclose(value, start[name] + 0.25) for name, value in blend_weights(start, end, 0.25).items())


def test_frozen_parts_stay_as_they_are(bert, view, tmp_path):
    keep = RetentionSettings(frozen_embeddings=True, frozen_layers=1)
    _, after = fitted(settings_for(bert, retention=keep), view, tmp_path)
    moved = {name for name, value in weights(load(bert)).items() if not torch.equal(value, after[name])}
    assert moved
    assert all(".layer.1." in name for name in moved)


def test_a_strong_pull_keeps_plain_texts_where_they_were(bert, view, tmp_path):
    def drift(pull):
        keep = RetentionSettings(frozen_embeddings=False, pull_queries=pull, pull_passages=pull)
        encoder, base = load(bert), load(bert)
        fit(encoder, base, settings_for(bert, steps=15, retention=keep), view, tmp_path / str(pull))
        texts = [text for group in view.read_all("train") for _, text in group.passages]
        return 1 - float((encode(encoder, texts) * encode(base, texts)).sum(1).mean())

    assert drift(100.0) < 0.3 * drift(0.0)


def test_the_rate_rises_then_falls_to_zero():
    plan = ScheduleSettings(steps=10, warmup_steps=4, learning_rate=1.0, decay="linear")
    rates = [learning_rate(step, plan) for step in range(11)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])
    cosine = plan.model_copy(update={"decay": "cosine"})
    assert learning_rate(7, cosine) == pytest.approx(0.5)
