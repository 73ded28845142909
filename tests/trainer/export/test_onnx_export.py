"""An exported model says what the model says, for any number and length of texts, and ranks as a system."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, GPT2Config, GPT2ForSequenceClassification, LlamaConfig, LlamaModel

from foil.engine.errors import CorruptDataError, UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.systems.catalog import open_system
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.export.onnx_export import check_pairs, check_texts
from foil.trainer.model.checksums import check_model, folder_digest
from foil.trainer.model.encoder import load_encoder
from foil.trainer.model.pair_scorer import load_pair_scorer, save_pair_scorer
from foil.trainer.train.run.fit import train
from tests.support.training import FULL, TEMPLATE, settings_for

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from foil.trainer.export.onnx_encoder import OnnxEncoder, load_exportable, open_session
from foil.trainer.export.onnx_export import export_onnx

pytestmark = pytest.mark.slow

SMALL = SystemSettings(encode={"max_tokens": 48, "precision": "float32"})


@pytest.fixture(scope="module")
def exported(bert, view, tmp_path_factory):
    """A trained model, its digest before the export, and what the export found."""
    settings = settings_for(bert, steps=2, template="instruction_query")
    model = train(settings, view, tmp_path_factory.mktemp("run")).model
    return model, folder_digest(model), export_onnx(model)


def test_the_files_say_what_the_model_says(exported):
    model, _, (full, small) = exported
    assert full.max_difference <= 1e-4
    assert full.least_cosine == pytest.approx(1, abs=1e-5)
    assert 0.98 < small.mean_cosine < 1
    assert small.bytes < full.bytes / 2
    library = SentenceTransformer(str(model), device="cpu")
    texts = ["one", "", "some words more " * 9]
    encoder = OnnxEncoder(load_exportable(model, TEMPLATE, FULL), model / "onnx" / "model.onnx")
    assert np.allclose(encoder.encode(texts, []), library.encode(texts), atol=1e-5)


def test_the_layout_and_names_are_those_that_sentence_transformers_reads(exported):
    model, _, _ = exported
    session = open_session(model / "onnx" / "model.onnx")
    assert {each.name for each in session.get_inputs()} == {"input_ids", "attention_mask", "token_type_ids"}
    [output] = session.get_outputs()
    assert output.name == "last_hidden_state"
    for count, length in ((1, 2), (3, 17), (7, 64)):
        feed = {each.name: np.ones((count, length), dtype=np.int64) for each in session.get_inputs()}
        assert session.run(None, feed)[0].shape == (count, length, 32)
    assert (model / "onnx" / "model_qint8.onnx").is_file()


def test_the_card_has_the_figures_once_and_the_model_stays_whole(exported):
    model, digest, files = exported
    assert folder_digest(model) == digest
    check_model(model)
    again = export_onnx(model, int8=False)
    card = (model / "README.md").read_text()
    assert card.count("## ONNX") == 1
    assert f"{again[0].max_difference:.1e}" in card
    assert "model_qint8" not in card
    assert card.startswith("---\n")
    assert "## Licence" in card
    assert not (model / "onnx" / "model_qint8.onnx").exists()
    stated = json.loads((model / "onnx" / "export.json").read_text())["files"]
    assert [each["name"] for each in stated] == ["model.onnx"]
    export_onnx(model)
    assert (model / "README.md").read_text().count("model_qint8") == 1
    assert len(files) == 2


def test_it_ranks_as_the_model_does_with_the_template_that_it_learnt(exported, tmp_path):
    model, _, _ = exported
    tuned, onnx, small = (
        open_system(name, SMALL, tmp_path)
        for name in (str(model), f"onnx:{model}", f"onnx:{model}/onnx/model_qint8.onnx")
    )
    assert onnx.facts()["template"] == tuned.facts()["template"] == "instruction_query"
    assert len({each.facts()["digest"] for each in (tuned, onnx, small)}) == 3
    pairs, passages = [("Only years.", "who"), ("", "who built it")], ["a bridge", "the tower of oslo " * 20]
    expected = tuned._encoder.encode(passages, pairs)
    assert np.allclose(onnx._encoder.encode(passages, pairs), expected, atol=1e-5)
    assert ((small._encoder.encode(passages, pairs) * expected).sum(1) > 0.9).all()


def test_what_is_worse_than_the_floor_is_not_kept(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "model")
    with pytest.raises(UsageError, match=r"int8 vectors have a mean cosine of [01]\.\d+ to the model's, below 1"):
        export_onnx(tmp_path / "model", least_cosine=1.0)
    assert not list((tmp_path / "model").glob("*onnx*"))


def test_a_changed_file_and_one_that_is_none_are_told(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "model")
    with pytest.raises(UsageError, match="foil export"):
        open_system(f"onnx:{tmp_path}/model", SMALL, tmp_path)
    export_onnx(tmp_path / "model", int8=False)
    file = tmp_path / "model" / "onnx" / "model.onnx"
    whole = file.read_bytes()
    file.write_bytes(whole[:1000])
    with pytest.raises(CorruptDataError, match="run `foil export` again"):
        open_system(f"onnx:{tmp_path}/model", SMALL, tmp_path)
    file.write_bytes(whole + b"\0")
    with pytest.raises(CorruptDataError, match="again"):
        open_system(f"onnx:{tmp_path}/model", SMALL, tmp_path)


def test_what_cannot_be_one_graph_is_refused(bert, tmp_path):
    with pytest.raises(UsageError, match="is no model's directory"):
        export_onnx(tmp_path / "nothing")
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=30522, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64)  # fmt: skip
    LlamaModel(config).save_pretrained(tmp_path / "decoder")
    AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "decoder")
    with pytest.raises(UsageError, match="is a decoder"):
        export_onnx(tmp_path / "decoder")


def test_the_texts_of_the_check_have_many_lengths(bert):
    encoder = load_encoder(bert, TEMPLATE, FULL)
    lengths = {len(ids) for ids in encoder._tokenise(0, check_texts(), 512)}
    assert min(lengths) == 2
    assert max(lengths) == 64
    assert len(lengths) > 10
    assert {bool(instruction) for instruction, _ in check_pairs()} == {True, False}
    assert all(re.search(r"\w", text) for text in check_texts()[1:])


@pytest.fixture(scope="module")
def reranker(bert, tmp_path_factory):
    """A cross-encoder whose scores lie apart, and what its export found."""
    scorer = load_pair_scorer(bert, TEMPLATE, FULL, head_seed=0)
    with torch.no_grad():
        scorer.model.model.classifier.weight *= 1000
    folder = tmp_path_factory.mktemp("reranker") / "model"
    save_pair_scorer(scorer, folder)
    return folder, export_onnx(folder, least_cosine=-1)


def test_a_reranker_is_exported_with_its_scores(reranker):
    model, (full, small) = reranker
    assert full.max_difference <= 1e-4
    assert full.mean_cosine == full.least_cosine == pytest.approx(1, abs=1e-5)
    assert -1 <= small.mean_cosine < 1  # scores of random weights hang on what eight bits leave out
    assert small.bytes < full.bytes / 2
    with pytest.raises(UsageError, match="a mean cosine of"):
        export_onnx(model)
    export_onnx(model, least_cosine=-1)
    session = open_session(model / "onnx" / "model.onnx")
    assert [output.name for output in session.get_outputs()] == ["logits"]
    for count, length in ((1, 2), (3, 17), (7, 64)):
        feed = {each.name: np.ones((count, length), dtype=np.int64) for each in session.get_inputs()}
        assert session.run(None, feed)[0].shape == (count, 1)


def test_an_exported_reranker_orders_and_scores_as_the_model_does(reranker, tmp_path):
    model, _ = reranker
    words = ["bridge", "tower", "oslo", "who", "built", "years"]
    documents = {f"d{number}": ("", " ".join(words[number % 6 :] * (number + 1))) for number in range(12)}
    queries = (EvaluationQuery("q1", "who built the tower"), EvaluationQuery("q2", "oslo " * 60))
    benchmark = Benchmark("ours", "", documents, queries, {})
    tuned, onnx, small = (
        open_system(f"rerank:{name}", SMALL, tmp_path)
        for name in (model, f"onnx:{model}", f"onnx:{model}/onnx/model_qint8.onnx")
    )
    assert len({each.facts()["digest"] for each in (tuned, onnx, small)}) == 3
    expected, found = tuned.rank(benchmark, 12), onnx.rank(benchmark, 12)
    for query, scores in expected.items():
        assert len(scores) > 3
        assert found[query] == pytest.approx(scores, abs=1e-3)
        assert sorted(found[query], key=found[query].get) == sorted(scores, key=scores.get)


def test_a_reranker_that_reads_from_left_to_right_is_refused(bert, tmp_path):
    config = GPT2Config(vocab_size=30522, n_embd=16, n_layer=1, n_head=2, n_positions=64, num_labels=1, pad_token_id=0)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "decoder")
    AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "decoder")
    with pytest.raises(UsageError, match="is a decoder"):
        export_onnx(tmp_path / "decoder")
