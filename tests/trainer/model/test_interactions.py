"""Every way to put instruction and query together learns, and its model loads again with the same vectors."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from foil.trainer.model.packing import PackedBatch
from foil.trainer.model_settings import AttentionSettings, LoraSettings, ModelSettings
from foil.trainer.settings import TrainSettings
from foil.trainer.train.data.collate import collate
from foil.trainer.train.loss.batch_loss import add_gradients
from foil.trainer.train.run.fit import train
from tests.support.models.tiny_backbones import save_backbone
from tests.support.trainer_world import YEAR
from tests.support.training import FULL, TEMPLATE, gradients_of, groups, load, settings_for

PASSAGES = ["a bridge was built in 1873", "a tower of oslo"]
PAIRS = [("", "who built it"), (YEAR, "who built it"), (YEAR, "who built the tower of oslo"), ("no year", "who")]
WAYS = {
    "separate": ModelSettings(encoders="separate"),
    "attention": ModelSettings(cross_attention=AttentionSettings()),
    "both": ModelSettings(encoders="separate", cross_attention=AttentionSettings(direction="query_queries")),
    "lora": ModelSettings(lora=LoraSettings(rank=4, alpha=8), dropout=True),
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_backbone(tmp_path_factory.mktemp("llama"), "llama", max_position_embeddings=256)


def vectors(encoder):
    with torch.no_grad():
        return encoder.encode(PASSAGES, PAIRS)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_model_of_every_kind_learns_and_loads_again(bert, view, tmp_path, way):
    settings = settings_for(bert, steps=8, model=WAYS[way])
    trained = train(settings, view, tmp_path)
    assert np.mean(trained.facts["losses"][-2:]) < np.mean(trained.facts["losses"][:2])
    again, start = load(trained.model), load(bert, model=WAYS[way])
    assert (again.attention is not None) == (WAYS[way].cross_attention is not None)
    assert not torch.allclose(vectors(again), vectors(start), atol=1e-3)
    library = SentenceTransformer(str(trained.model), device="cpu")
    assert np.allclose(library.encode_document(PASSAGES), vectors(again)[: len(PASSAGES)], atol=1e-6)
    if not again.attention:
        fused = [TEMPLATE.format_pair(*pair) for pair in PAIRS]
        assert np.allclose(library.encode_query(fused), vectors(again)[len(PASSAGES) :], atol=1e-6)


def test_attention_reads_instructions_and_batch_mates_change_nothing(bert):
    encoder = load(bert, model=WAYS["attention"])
    with torch.no_grad():
        together = encoder.encode([], PAIRS)
        alone = torch.cat([encoder.encode([], [pair]) for pair in PAIRS])
    assert torch.allclose(together, alone, atol=1e-6)
    assert not torch.allclose(together[0], together[1], atol=1e-3)
    plain = load(bert)
    with torch.no_grad():
        assert torch.allclose(together[0], plain.encode([], [PAIRS[0]])[0], atol=1e-6)


@pytest.mark.parametrize("way", ["separate", "attention"])
def test_the_gradient_cache_knows_every_kind(bert, way):
    batch = collate(list(groups(5)), TEMPLATE)
    found = []
    for cached in (False, True):
        encoder = load(bert, FULL.model_copy(update={"micro_batch_tokens": 64}), WAYS[way]).train()
        add_gradients(encoder, load(bert), batch, TrainSettings(encode=FULL, gradient_cache=cached))
        found.append(gradients_of(encoder))
    assert (found[0] - found[1]).norm() <= 1e-6 * found[0].norm()


def test_a_decoder_packs_pairs_and_gives_the_library_s_vectors(llama):
    encoder = load(llama)
    work = encoder.micro_batches(PASSAGES, PAIRS)
    assert any(isinstance(one, PackedBatch) for one in work)
    unpacked = load(llama, FULL.model_copy(update={"shared_prefix": False}))
    assert not any(isinstance(one, PackedBatch) for one in unpacked.micro_batches(PASSAGES, PAIRS))
    assert torch.allclose(vectors(encoder), vectors(unpacked), atol=1e-5)
    fused = [TEMPLATE.format_pair(*pair) for pair in PAIRS]
    assert np.allclose(vectors(encoder), encoder.model.encode(PASSAGES + fused), atol=1e-5)


@pytest.mark.slow
def test_a_decoder_learns_through_packing(llama, view, tmp_path):
    model = ModelSettings(lora=LoraSettings(rank=8), dropout=True, gradient_checkpointing=True)
    settings = settings_for(llama, steps=8, model=model, template="instruction_query", gradient_cache=True)
    trained = train(settings, view, tmp_path)
    assert np.mean(trained.facts["losses"][-2:]) < np.mean(trained.facts["losses"][:2])
    library = SentenceTransformer(str(trained.model), device="cpu")
    assert np.allclose(library.encode(PASSAGES), vectors(load(trained.model))[: len(PASSAGES)], atol=1e-5)
