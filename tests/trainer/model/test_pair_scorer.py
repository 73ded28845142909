"""The cross-encoder: the library's scores, one head a seed, and bases that are none."""

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from transformers import GPT2Config, GPT2LMHeadModel

from foil.engine.errors import CorruptDataError, UsageError
from foil.trainer.model.checkpoint import weights
from foil.trainer.model.pair_scorer import load_pair_scorer, save_pair_scorer
from foil.trainer.model_settings import ModelSettings
from tests.support.training import FULL, TEMPLATE

PAIRS = [("who", "a builder"), ("who built the bridge of oslo", "word " * 90), ("", "x"), ("query " * 40, "text " * 40)]


def start(path, seed=0, encode=FULL, **model):
    return load_pair_scorer(path, TEMPLATE, encode, ModelSettings(**model), head_seed=seed)


def test_scores_are_those_of_the_library_however_they_are_cut(bert, tmp_path):
    scorer = start(bert)
    with torch.no_grad():
        scorer.model.model.classifier.weight *= 1000  # so that scores lie apart
    save_pair_scorer(scorer, tmp_path / "saved")
    library = CrossEncoder(str(tmp_path / "saved"), device="cpu")
    expected = library.predict(PAIRS)
    assert library.num_labels == 1
    assert np.allclose(scorer.score(PAIRS).numpy(), expected, atol=1e-5)
    small = load_pair_scorer(tmp_path / "saved", TEMPLATE, FULL.model_copy(update={"micro_batch_tokens": 5}))
    assert np.allclose(small.score(PAIRS).numpy(), expected, atol=1e-5)
    assert len(set(np.round(expected, 2))) == len(PAIRS)
    assert scorer.score([]).shape == (0,)


def test_scores_are_float32_where_the_layers_below_are_bfloat16(bert):
    scorer = start(bert, encode=FULL.model_copy(update={"precision": "bfloat16"}))
    with torch.no_grad():
        scorer.model.model.classifier.bias.fill_(8)  # where steps of bfloat16 are 0.06
    scores = scorer.score([("who", f"a builder {number}") for number in range(20)])
    assert len(set(scores.tolist())) > 10
    assert not torch.equal(scores, scores.bfloat16().float())


def test_the_new_head_follows_from_the_seed(bert):
    heads = [dict(weights(start(bert, seed))) for seed in (1, 1, 2)]
    differ = [{name for name, value in heads[0].items() if not torch.equal(value, other[name])} for other in heads[1:]]
    assert differ[0] == set()
    assert differ[1]
    assert all("classifier" in name or "pooler" in name for name in differ[1])


def test_an_embedder_is_no_reranker_without_training(bert):
    with pytest.raises(UsageError, match=r"lacks \d weights of a reranker"):
        load_pair_scorer(bert, TEMPLATE, FULL)


def test_what_is_no_base_is_refused(bert, tmp_path):
    with pytest.raises(UsageError, match="does not load as a cross-encoder"):
        start(tmp_path / "nothing")
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=30522, n_embd=16, n_layer=1, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "decoder")
    start(bert).model.tokenizer.save_pretrained(tmp_path / "decoder")
    with pytest.raises(UsageError, match="scores no pair"):
        start(tmp_path / "decoder")


def test_checkpointing_and_dropout_are_switched(bert):
    assert all(module.p == 0 for module in start(bert).modules() if isinstance(module, torch.nn.Dropout))
    scorer = start(bert, dropout=True, gradient_checkpointing=True).train()
    assert any(module.p > 0 for module in scorer.modules() if isinstance(module, torch.nn.Dropout))
    scorer(scorer.tokenise(PAIRS)).sum().backward()
    assert all(value.grad is not None for name, value in scorer.named_parameters() if "layer.1" in name)


def test_damage_is_seen(bert, tmp_path):
    save_pair_scorer(start(bert), tmp_path / "model")
    (tmp_path / "model" / "foil.json").write_text("{}")
    with pytest.raises(CorruptDataError):
        load_pair_scorer(tmp_path / "model", TEMPLATE, FULL)
