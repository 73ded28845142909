"""Separate encoders: each side's vectors, saved and loaded, and each side on its own."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from foil.engine.errors import UsageError
from foil.trainer.model.loading import load_model, save_model
from foil.trainer.model.two_encoders import join_encoders, split_encoders
from foil.trainer.model_settings import LoraSettings, ModelSettings
from tests.support.models.tiny_backbones import TEXTS, save_backbone
from tests.support.training import trainable


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A BERT for queries, a Qwen3 for documents, and both in one."""
    folder = tmp_path_factory.mktemp("two")
    query = load_model(save_backbone(folder, "bert"), ModelSettings(device="cpu"))
    document = load_model(save_backbone(folder, "qwen3"), ModelSettings(device="cpu"))
    save_model(join_encoders(query, document), folder / "both")
    return folder, query, document


def test_each_side_gives_its_own_vectors_after_loading(world):
    folder, query, document = world
    both = SentenceTransformer(str(folder / "both"), device="cpu")
    np.testing.assert_array_equal(both.encode_query(TEXTS), query.encode(TEXTS))
    np.testing.assert_array_equal(both.encode_document(TEXTS), document.encode(TEXTS))
    assert not np.allclose(both.encode_query(TEXTS), both.encode_document(TEXTS))


def test_an_encoding_that_names_no_side_is_refused(world):
    both = SentenceTransformer(str(world[0] / "both"), device="cpu")
    with pytest.raises(ValueError, match="Could not determine route"):
        both.encode(TEXTS)


def test_the_sides_share_the_weights_of_the_whole(world):
    both = load_model(world[0] / "both", ModelSettings(device="cpu"))
    query, document = split_encoders(both)
    np.testing.assert_array_equal(query.encode(TEXTS), both.encode_query(TEXTS))
    np.testing.assert_array_equal(document.encode(TEXTS), both.encode_document(TEXTS))
    own = {id(parameter) for side in (query, document) for parameter in side.parameters()}
    assert own == {id(parameter) for parameter in both.parameters()}
    next(query.parameters()).data.add_(1)
    np.testing.assert_array_equal(query.encode(TEXTS), both.encode_query(TEXTS))


def test_lora_learns_on_both_sides_and_is_merged(world, tmp_path):
    both = load_model(world[0] / "both", ModelSettings(device="cpu", lora=LoraSettings(rank=2)))
    assert {name.split(".")[2] for name in trainable(both)} == {"query", "document"}
    assert all("lora_" in name for name in trainable(both))
    before = both.encode_query(TEXTS)
    for name, parameter in trainable(both).items():
        if "lora_B" in name:
            parameter.data.fill_(0.002)
    save_model(both, tmp_path / "merged")
    merged = SentenceTransformer(str(tmp_path / "merged"), device="cpu")
    np.testing.assert_allclose(merged.encode_query(TEXTS), both.encode_query(TEXTS), atol=1e-6)
    np.testing.assert_allclose(merged.encode_document(TEXTS), both.encode_document(TEXTS), atol=1e-6)
    assert np.abs(merged.encode_query(TEXTS) - before).max() > 1e-4


def test_one_encoder_is_both_sides_of_itself(world):
    assert split_encoders(world[1]) == (world[1], world[1])


def test_vectors_of_different_lengths_are_refused(world, tmp_path):
    wide = load_model(save_backbone(tmp_path, "qwen2", hidden_size=64), ModelSettings(device="cpu"))
    with pytest.raises(UsageError, match="of 32 dimensions and the document encoder of 64"):
        join_encoders(world[1], wide)
