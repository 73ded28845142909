"""A vector for each token: its scores, its training and its folder are those of sentence-transformers' own class."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sentence_transformers import MultiVectorEncoder

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.comparison import weights as weights_in_memory
from foil.trainer.evaluate.comparison.weights import EncoderSystem, late_scores
from foil.trainer.evaluate.interop.mteb_model import load_for_mteb
from foil.trainer.evaluate.systems import dense
from foil.trainer.evaluate.systems.catalog import open_system
from foil.trainer.evaluate.systems.dense import VectorCache
from foil.trainer.evaluate.systems.embedder import unit_vectors
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.export.onnx_encoder import load_exportable
from foil.trainer.model.checkpoint import weights
from foil.trainer.model.late_interaction import mean_max_sim, similarities
from foil.trainer.model_settings import LateInteractionSettings, ModelSettings
from foil.trainer.settings import RetentionSettings, TrainSettings, ValidationSettings
from foil.trainer.train.data.collate import collate
from foil.trainer.train.loss.batch_loss import add_gradients
from foil.trainer.train.run.average import average_models
from foil.trainer.train.run.fit import train
from foil.trainer.train.run.monitor import Callbacks
from tests.support.paths import REPO
from tests.support.trainer_world import YEAR
from tests.support.training import FULL, TEMPLATE, StoppedError, gradients_of, groups, load, settings_for

PASSAGES = ["a bridge was built in 1873", "a tower of oslo", "oslo"]
PAIRS = [("", "who built it"), (YEAR, "who built the tower of oslo"), ("no year", "who")]
LATE = ModelSettings(late_interaction=LateInteractionSettings(dimensions=16))


def late_settings(base, steps=6, **changes):
    keep = RetentionSettings(frozen_embeddings=False)
    return settings_for(base, steps, **{"retention": keep, "model": LATE, **changes})


@pytest.fixture(scope="module")
def trained(bert, view, tmp_path_factory):
    settings = late_settings(bert, steps=12, validation=ValidationSettings(topics=8, steps=6, keep="best"))
    return train(settings, view, tmp_path_factory.mktemp("run"), command="foil train job.yaml")


def slow_scores(queries, passages):
    """MeanMaxSim by its words, in double precision; texts are lists of token vectors."""
    return np.array(
        [[np.mean([max(float(q @ p) for p in passage) for q in query]) for passage in passages] for query in queries]
    )


def test_the_score_is_the_mean_over_query_tokens_of_the_best_passage_token():
    generator = np.random.default_rng(0)
    texts = [[generator.normal(size=8) for _ in range(count)] for count in (1, 4, 7, 2, 5)]
    texts = [[each / np.linalg.norm(each) for each in text] for text in texts]
    table = np.zeros((5, 9, 8), dtype=np.float32)
    for row, text in enumerate(texts):
        table[row, : len(text)] = text
    assert np.allclose(similarities(table[:2], table[2:]), slow_scores(texts[:2], texts[2:]), atol=1e-6)
    all_negative = np.array([[[1, 0]], [[-1, 0]]], dtype=np.float32)
    padded = np.pad(all_negative, ((0, 0), (0, 3), (0, 0)))
    assert similarities(padded[:1], padded[1:]).tolist() == [[-1.0]]  # padding is no token, though 0 is above -1


def test_what_is_published_has_the_library_s_scores(trained):
    library = MultiVectorEncoder(str(trained.model), device="cpu")
    pairs = [TEMPLATE.format_pair(*pair) for pair in PAIRS]
    theirs = library.similarity(library.encode_query(pairs), library.encode_document(PASSAGES)).numpy()
    encoder = load(trained.model)
    with torch.inference_mode():
        vectors = encoder.encode(PASSAGES, PAIRS)
    assert vectors.shape[2] == 16
    assert np.allclose(mean_max_sim(vectors[3:], vectors[:3]).numpy(), theirs, atol=1e-6)
    assert "import MultiVectorEncoder" in (trained.model / "README.md").read_text()
    assert np.mean(trained.facts["losses"][-3:]) < np.mean(trained.facts["losses"][:3])


def test_batch_mates_and_padding_change_nothing_and_every_start_is_the_same(bert):
    encoder = load(bert, model=LATE)
    with torch.no_grad():
        together = encoder.encode(PASSAGES, PAIRS)
        again = load(bert, model=LATE).encode(PASSAGES, PAIRS)
        alone = torch.cat([encoder.encode([text], [PAIRS[1]]) for text in PASSAGES[:1]])
    assert torch.equal(together, again)
    assert torch.allclose(mean_max_sim(together[4:5], together[:1]), mean_max_sim(alone[1:], alone[:1]), atol=1e-6)


@pytest.mark.parametrize("blocks", [("P",), ("P", "I", "IQ", "Q")])
def test_gradients_are_finite_and_the_gradient_cache_has_the_same(bert, blocks):
    batch, found = collate(list(groups(5)), TEMPLATE), []
    for cached in (False, True):
        encoder = load(bert, FULL.model_copy(update={"micro_batch_tokens": 64}), LATE).train()
        settings = TrainSettings(encode=FULL, gradient_cache=cached, model=LATE, loss={"blocks": blocks})
        add_gradients(encoder, load(bert, model=LATE), batch, settings)
        found.append(gradients_of(encoder))
    assert found[0].isfinite().all()
    assert found[0].norm() > 0
    assert (found[0] - found[1]).norm() <= 1e-6 * found[0].norm()


def test_a_stopped_training_ends_with_the_same_weights(bert, view, tmp_path):
    settings = late_settings(bert)
    whole = train(settings, view, tmp_path / "whole")

    def stop(row):
        if row.step == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(settings, view, tmp_path / "resumed", callbacks=Callbacks(on_step=stop))
    resumed = train(settings, view, tmp_path / "resumed")
    ours, theirs = weights(load(whole.model)), weights(load(resumed.model))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


@pytest.mark.parametrize("with_candidates", [False, True])
def test_search_in_blocks_finds_what_all_scores_say(trained, tmp_path, monkeypatch, with_candidates):
    documents = {f"d{number}": ("", f"{text} {number}") for number, text in enumerate(PASSAGES * 3)}
    queries = [EvaluationQuery(f"q{number}", query, instruction) for number, (instruction, query) in enumerate(PAIRS)]
    lists = {query.id: tuple(documents)[number : number + 5] for number, query in enumerate(queries)}
    benchmark = Benchmark("b", "1", documents, tuple(queries), {}, candidates=lists if with_candidates else None)
    settings = SystemSettings(encode=FULL)
    monkeypatch.setattr(dense, "LATE_BLOCK", 2)
    monkeypatch.setattr(dense, "QUERIES", 2)
    runs = [open_system(str(trained.model), settings, tmp_path).rank(benchmark, 4) for _ in range(2)]
    assert runs[0] == runs[1]  # the second from the cache
    library = MultiVectorEncoder(str(trained.model), device="cpu")
    asked = library.encode_query([TEMPLATE.format_pair(query.instruction, query.query) for query in queries])
    scores = library.similarity(asked, library.encode_document([text for _, text in documents.values()]))
    for query, row in zip(queries, scores.tolist(), strict=True):
        known = {name: score for name, score in zip(documents, row, strict=True)
                 if not with_candidates or name in lists[query.id]}  # fmt: skip
        best = sorted(known.values(), reverse=True)[:4]
        assert np.allclose(sorted(runs[0][query.id].values(), reverse=True), best, atol=1e-6)
        assert all(abs(known[name] - score) < 1e-6 for name, score in runs[0][query.id].items())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_evaluation_in_micro_batches_has_the_scores_of_one_padded_table(trained, monkeypatch, precision):
    encoder = load(trained.model, FULL.model_copy(update={"micro_batch_tokens": 40, "precision": precision}))
    passages = [f"{text} {number}" + " seen in the rain" * (number % 4) for number, text in enumerate(PASSAGES * 4)]
    table = unit_vectors(encoder, passages, PAIRS)
    expected = similarities(table[len(passages) :], table[: len(passages)])
    monkeypatch.setattr(weights_in_memory, "TEXTS_AT_ONCE", 5)
    assert np.allclose(late_scores(encoder, passages, PAIRS), expected, atol=1e-5)
    queries = tuple(
        EvaluationQuery(f"q{number}", query, instruction) for number, (instruction, query) in enumerate(PAIRS)
    )
    benchmark = Benchmark("b", "1", {f"d{n}": ("", text) for n, text in enumerate(passages)}, queries, {})
    run = EncoderSystem("late", encoder).rank(benchmark, len(passages))
    assert all(np.allclose(list(run[f"q{row}"].values()), own, atol=1e-5) for row, own in enumerate(expected))
    few = replace(benchmark, candidates={query.id: ("d7", "d2") for query in queries})
    assert [list(each) for each in EncoderSystem("late", encoder).rank(few, 2).values()] == [["d7", "d2"]] * 3
    assert late_scores(encoder, [], PAIRS).shape == (3, 0)
    assert late_scores(encoder, passages, []).shape == (0, 12)


def test_token_vectors_lie_on_disk_without_padding_and_come_back_with_it(tmp_path):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(3, 50, 8)).astype(np.float32)
    for row, tokens in enumerate((2, 50, 7)):
        vectors[row, tokens:] = 0
    texts = [["a"], ["b"], ["c"]]
    written = VectorCache(tmp_path, "d" * 40).vectors(texts, lambda: vectors)
    again = VectorCache(tmp_path, "d" * 40)
    read = again.vectors(texts, lambda: vectors[:0])
    assert (again.encoded, np.array_equal(read, written), np.array_equal(read, vectors)) == (0, True, True)
    [path] = tmp_path.rglob("*.npy")
    assert path.stat().st_size < 59 * 8 * 4 + 3 * 50 + 300 < vectors.nbytes
    path.write_bytes(path.read_bytes()[:-9])
    assert np.array_equal(again.vectors(texts, lambda: vectors), vectors)
    assert again.encoded == 3


def test_what_needs_one_vector_says_so(bert, trained, view, tmp_path):
    model = trained.model
    with pytest.raises(UsageError, match="a vector for each token"):
        load_exportable(model, TEMPLATE, FULL)
    with pytest.raises(UsageError, match="a vector for each token"):
        load_for_mteb(model)
    with pytest.raises(UsageError, match=r"set model\.late_interaction"):
        train(settings_for(model), view, tmp_path / "run")
    with pytest.raises(UsageError, match="dimensions is 8, and the base has 16"):
        load(model, model=ModelSettings(late_interaction=LateInteractionSettings(dimensions=8)))
    one_vector = train(settings_for(bert, steps=1), view, tmp_path / "dense").model
    with pytest.raises(UsageError, match="differ in template, base or form"):
        average_models([one_vector, model], tmp_path / "mean", 1.0, "")
    for changes in ({"matryoshka": (8,)}, {"encoders": "separate"}, {"pooling": "mean"}, {"cross_attention": {}}):
        with pytest.raises(ValidationError, match="there is no use for model"):
            TrainSettings(model={"late_interaction": {}, **changes})
    with pytest.raises(ValidationError, match=r"no use for retention.pull_passages, workers"):
        TrainSettings(model={"late_interaction": {}}, workers=2, retention={"pull_passages": 0.1})


@pytest.mark.long
def test_the_example_learns_and_is_compared_with_its_base(tmp_path, capfd):
    overrides = [
        "limits.seeds=40", "limits.partition_seeds=40", "train.schedule.topics_per_batch=4", "train.schedule.steps=2",
        "train.retention.plain_topics=2", "train.validation.topics=4", "train.encode.max_tokens=64",
        "train.split={heldout_share: 0.2, dev_share: 0.1}", "evaluate.resamples=100",
    ]  # fmt: skip
    job = str(REPO / "examples/jobs/late.yaml")
    options = [f"--set={override}" for override in overrides]
    for command in ("run", "train", "evaluate"):
        assert run_command(app, [command, job, *options, "--out", str(tmp_path / "out")]) == 0
    assert "sentence_transformers.MultiVectorEncoder" in capfd.readouterr().err
    rows = {row["measure"]: row for row in json.loads((tmp_path / "out/evaluation.json").read_text())}
    assert 0 < rows["plain_ndcg"]["trained"] <= 100
