"""Base models of every family: loaded, trained in part or in whole, saved, and loaded again by SentenceTransformer."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import AutoModel

from foil.engine.errors import UsageError
from foil.trainer.model import packaged_minilm
from foil.trainer.model.attention import attention_of
from foil.trainer.model.loading import add_lora, backbone_of, load_model, precision_on, save_model
from foil.trainer.model_settings import LoraSettings, ModelSettings
from tests.support.models.tiny_backbones import DECODERS, FAMILIES, TEXTS, save_backbone, tokenizer_of
from tests.support.training import trainable

ENDS = {"bert": 102, "modernbert": 102} | dict.fromkeys(FAMILIES[2:], 1)
SEVEN = {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        save_backbone(place, family)
    return place


def load(path, **chosen):
    return load_model(path, ModelSettings(device="cpu", **chosen))


def reopened(model, place):
    save_model(model, place)
    return SentenceTransformer(str(place), device="cpu")


def targets(model):
    return {name.partition(".lora_")[0].rpartition(".")[2] for name in trainable(model)}


def moved(model):
    """The model with every low-rank update a little away from zero."""
    draw = torch.Generator().manual_seed(1)
    for name, parameter in trainable(model).items():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.01, generator=draw)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_bare_weights_get_the_pooling_of_their_kind_and_come_back_equal(folder, family, tmp_path):
    model = load(folder / family)
    assert model[1].pooling_mode == ("lasttoken" if family in DECODERS else "mean")
    assert not model.training
    again = reopened(model, tmp_path / "saved")
    vectors = model.encode(TEXTS)
    np.testing.assert_allclose(again.encode(TEXTS), vectors, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for one in (model, again):
        ids = one.tokenizer(TEXTS, truncation=True, max_length=8)["input_ids"]
        assert all(row.count(ENDS[family]) == 1 and row[-1] == ENDS[family] and len(row) <= 8 for row in ids)


@pytest.mark.parametrize("family", DECODERS)
def test_the_side_of_padding_changes_no_vector(folder, family):
    model = load(folder / family)
    apart = np.concatenate([model.encode([text]) for text in TEXTS])
    for side in ("left", "right"):
        model.tokenizer.padding_side = side
        np.testing.assert_allclose(model.encode(TEXTS), apart, atol=1e-5)


@pytest.mark.parametrize(("asked", "mode"), [("cls", "cls"), ("mean", "mean"), ("last", "lasttoken")])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_pooling_that_is_asked_for_is_what_the_saved_model_does(folder, family, asked, mode, tmp_path):
    model = load(folder / family, pooling=asked)
    again = reopened(model, tmp_path / "saved")
    assert again[1].pooling_mode == mode
    ids = torch.tensor([again.tokenizer(TEXTS[0])["input_ids"]])
    with torch.no_grad():
        states = again[0].model(input_ids=ids).last_hidden_state[0]
    expected = {"cls": states[0], "mean": states.mean(0), "lasttoken": states[-1]}[mode]
    expected = torch.nn.functional.normalize(expected, dim=0).numpy()
    np.testing.assert_allclose(again.encode(TEXTS[0]), expected, atol=1e-5)


def test_a_saved_model_keeps_its_own_modules_unless_pooling_is_asked_for(folder, tmp_path):
    own = [Transformer(str(folder / "bert")), Pooling(32, "cls")]
    SentenceTransformer(modules=own, device="cpu", default_prompt_name="p", prompts={"p": "x: "}).save(str(tmp_path))
    kept, changed = load(tmp_path), load(tmp_path, pooling="mean")
    assert [type(module) for module in kept] == [type(module) for module in changed] == [Transformer, Pooling]
    assert (kept[1].pooling_mode, changed[1].pooling_mode) == ("cls", "mean")
    np.testing.assert_array_equal(kept.encode(TEXTS), SentenceTransformer(str(tmp_path)).encode(TEXTS, prompt=""))


def test_the_end_of_text_is_appended_where_it_is_missing_and_asked_for(folder):
    def ids(family, **chosen):
        return load(folder / family, **chosen).tokenizer("a river")["input_ids"]

    assert ids("llama", append_eos=False) == [0, *ids("qwen3", append_eos=False)]
    assert ids("llama") == ids("llama", append_eos=True) == [*ids("llama", append_eos=False), 1]
    assert ids("llama", pooling="mean") == ids("llama", append_eos=False)
    assert ids("qwen3", pooling="mean", append_eos=True) == ids("qwen3")
    assert ids("xlm-roberta", append_eos=True) == ids("xlm-roberta", pooling="last") == ids("xlm-roberta")


def test_a_tokenizer_whose_flags_say_no_end_of_text_has_it_after_saving(folder, tmp_path):
    place = save_backbone(tmp_path, "qwen2")
    config = json.loads((place / "tokenizer_config.json").read_text())
    config |= {"add_bos_token": False, "add_eos_token": False, "tokenizer_class": "Qwen2Tokenizer"}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    again = reopened(load(place), tmp_path / "saved")
    assert again.tokenizer("a river")["input_ids"] == load(folder / "qwen2").tokenizer("a river")["input_ids"]


def test_no_text_goes_through_a_chat_template(folder, tmp_path):
    place = save_backbone(tmp_path, "qwen3")
    tokenizer = tokenizer_of("qwen3")
    tokenizer.chat_template = "{% for message in messages %}chat: {{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(place)
    again = reopened(load(place), tmp_path / "saved")
    np.testing.assert_array_equal(again.encode(TEXTS), load(folder / "qwen3").encode(TEXTS))


@pytest.mark.parametrize("family", ["bert", "modernbert", "gte", "llama", "qwen3"])
def test_dropout_acts_in_training_only_where_asked_for(folder, family):
    def twice(**chosen):
        model = load(folder / family, lora=LoraSettings(rank=2, dropout=0.5), **chosen).train()
        features = dict(model.tokenizer(TEXTS, padding=True, return_tensors="pt"))
        moved(model)
        with torch.no_grad():
            trained = [model(dict(features))["sentence_embedding"] for _ in range(2)]
            return *trained, model.eval()(dict(features))["sentence_embedding"]

    first, second, evaluated = twice()
    assert torch.equal(first, second)
    assert torch.equal(first, evaluated)
    first, second, _ = twice(dropout=True)
    assert not torch.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_without_lora_every_parameter_learns_and_dropout_is_off(folder, family):
    model = load(folder / family).train()
    assert trainable(model).keys() == dict(model.named_parameters()).keys()
    features = dict(model.tokenizer(TEXTS, padding=True, return_tensors="pt"))
    assert torch.equal(model(dict(features))["sentence_embedding"], model(dict(features))["sentence_embedding"])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_lora_alone_learns_and_is_merged_when_saved(folder, family, tmp_path, monkeypatch):
    model = load(folder / family, lora=LoraSettings(rank=4, alpha=8))
    assert all("lora_" in name for name in trainable(model))
    assert (targets(model) == SEVEN) == (family in DECODERS or family == "gte")
    start = model.encode(TEXTS)
    np.testing.assert_allclose(start, load(folder / family).encode(TEXTS), atol=1e-6)
    vectors = moved(model).encode(TEXTS)
    assert np.abs(vectors - start).max() > 1e-3
    monkeypatch.setitem(sys.modules, "peft", None)
    again = reopened(model, tmp_path / "saved")
    np.testing.assert_allclose(again.encode(TEXTS), vectors, atol=1e-6)
    assert dict(again.named_parameters()).keys() == dict(load(folder / family).named_parameters()).keys()
    np.testing.assert_array_equal(model.encode(TEXTS), vectors)
    assert all("lora_" in name for name in trainable(model))


def test_every_low_rank_update_has_a_gradient_and_starts_the_same(folder):
    one, other = (load(folder / "bert", lora=LoraSettings(rank=4)) for _ in range(2))
    for (name, mine), yours in zip(trainable(one).items(), trainable(other).values(), strict=True):
        assert torch.equal(mine, yours), name
    features = dict(moved(one).tokenizer(TEXTS, padding=True, return_tensors="pt"))
    one(features)["sentence_embedding"].square().sum().sqrt().backward()
    assert all(parameter.grad is not None for parameter in trainable(one).values())
    assert all(p.grad is None for n, p in one.named_parameters() if "lora_" not in n)


def test_lora_goes_where_it_is_told(folder):
    assert targets(load(folder / "bert", lora=LoraSettings(targets=("query", "value")))) == {"query", "value"}
    with pytest.raises(UsageError, match=r"BertModel is called q_proj; there are dense, key, query, value"):
        load(folder / "bert", lora=LoraSettings(targets=("query", "q_proj")))


def test_an_adapter_of_peft_is_merged_into_its_base(folder, tmp_path):
    base = AutoModel.from_pretrained(folder / "qwen3")
    adapted = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapted.save_pretrained(tmp_path / "adapter")
    tokenizer_of("qwen3").save_pretrained(tmp_path / "adapter")
    model = load(tmp_path / "adapter", lora=LoraSettings(rank=2))
    ids = torch.tensor([model.tokenizer(TEXTS[0])["input_ids"]])
    with torch.no_grad():
        expected = adapted.eval()(input_ids=ids).last_hidden_state[0, -1]
    expected = torch.nn.functional.normalize(expected, dim=0).numpy()
    np.testing.assert_allclose(model.encode(TEXTS[0]), expected, atol=1e-5)
    whole = load(tmp_path / "adapter")
    assert trainable(whole).keys() == trainable(load(folder / "qwen3")).keys()
    again = reopened(whole, tmp_path / "saved")
    np.testing.assert_allclose(again.encode(TEXTS[0]), expected, atol=1e-5)
    assert not (tmp_path / "saved" / "adapter_config.json").exists()


@pytest.mark.parametrize("family", ["bert", "qwen2"])
def test_gradient_checkpointing_changes_no_gradient(folder, family):
    def gradients(**chosen):
        model = load(folder / family, lora=LoraSettings(rank=2), **chosen).train()
        features = dict(moved(model).tokenizer(TEXTS, padding=True, return_tensors="pt"))
        model(features)["sentence_embedding"][:, 0].sum().backward()
        return [parameter.grad for parameter in trainable(model).values()]

    kept, again = gradients(), gradients(gradient_checkpointing=True)
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))
    assert load(folder / family, gradient_checkpointing=True)[0].model.is_gradient_checkpointing


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_cpu_without_products_of_bfloat16_takes_float32_and_says_once_where_the_other_was_asked_for(
    monkeypatch, caplog, is_quick
):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: is_quick)
    precision_on.cache_clear()
    asked = ("auto", "float32", "bfloat16", "bfloat16")
    used = [precision_on("cpu", precision) for precision in asked]
    precision_on.cache_clear()
    assert used == ["bfloat16" if is_quick else "float32", "float32", "bfloat16", "bfloat16"]
    assert caplog.text.count("set train.encode.precision") == (0 if is_quick else 1)


def test_weights_are_held_in_single_precision(tmp_path):
    place = save_backbone(tmp_path, "llama", dtype="bfloat16")
    AutoModel.from_pretrained(place, dtype=torch.bfloat16).save_pretrained(place)
    assert AutoModel.from_pretrained(place).dtype == torch.bfloat16
    assert {parameter.dtype for parameter in load(place).parameters()} == {torch.float32}


def test_attention_is_what_was_asked_for(folder):
    eager, sdpa = (load(folder / "llama", attention=name) for name in ("eager", "sdpa"))
    assert eager[0].model.config._attn_implementation == "eager"
    np.testing.assert_allclose(eager.encode(TEXTS), sdpa.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_under_bfloat16_attention_is_computed_in_float32_on_a_cpu(folder, family, tmp_path):
    """Its gradients are no further from those of float32 than with torch's own attention; nothing of it is saved."""

    def gradients(model, precision):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            vectors = model(dict(model.tokenizer(TEXTS, padding=True, return_tensors="pt")))["sentence_embedding"]
        vectors.float()[:, 0].sum().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    ours, torchs = load(folder / family), load(folder / family)
    assert attention_of(backbone_of(ours)) == "sdpa_float32"
    backbone_of(torchs).set_attn_implementation("sdpa")
    exact = gradients(load(folder / family), "float32")
    near, far = ((gradients(model, "bfloat16") - exact).norm() / exact.norm() for model in (ours, torchs))
    assert near < 1.2 * far < 0.1
    save_model(ours, tmp_path / "saved")
    assert not [path for path in (tmp_path / "saved").rglob("*.json") if "sdpa_float32" in path.read_text()]


def test_the_packaged_minilm_is_needed_by_those_alone_who_name_no_model(monkeypatch):
    assert load(packaged_minilm.minilm_folder()).get_embedding_dimension() == 384
    monkeypatch.setattr(packaged_minilm, "PACKAGE", "a_package_that_is_not_installed")
    with pytest.raises(UsageError, match="name a model of your own"):
        packaged_minilm.minilm_folder()


def test_models_that_cannot_be_loaded_say_why(folder, tmp_path):
    with pytest.raises(UsageError, match=r"/no/such/model is no directory here; .* does not load"):
        load("/no/such/model")
    with pytest.raises(UsageError, match=r"llama does not load: .*FlashAttention2.*installed"):
        load(folder / "llama", attention="flash_attention_2")
    with pytest.raises(UsageError, match=r"matryoshka asks for 64 dimensions, and .* has 32"):
        load(folder / "bert", matryoshka=(16, 64))
    own_code = {"model_type": "new", "auto_map": {"AutoConfig": "configuration.NewConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(own_code))
    with pytest.raises(UsageError, match="needs code of its own from its repository, which is never run here"):
        load(tmp_path)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_lacks_weights_is_refused_and_not_completed_at_random(folder, family, tmp_path):
    copied = shutil.copytree(folder / family, tmp_path / family)
    weights = load_file(copied / "model.safetensors")
    gone = next(name for name in weights if name.endswith("1.mlp.down_proj.weight") or "layer" in name)
    save_file({name: weights[name] for name in weights if name != gone}, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(UsageError, match=r"lacks 1 of its weights \(\S+\): is it whole"):
        load(copied)


def test_a_tokenizer_without_an_end_of_text_says_so(folder, tmp_path):
    place = save_backbone(tmp_path, "qwen3")
    tokenizer = tokenizer_of("qwen3")
    tokenizer.eos_token = None
    tokenizer.save_pretrained(place)
    with pytest.raises(UsageError, match="no end-of-text token to append; set append_eos: false"):
        load(place)


def test_cuda_is_refused_where_there_is_none(folder):
    if torch.cuda.is_available():
        pytest.skip("there is a cuda device")
    with pytest.raises(UsageError, match="device is cuda, and torch sees no such device"):
        load_model(folder / "bert", ModelSettings(device="cuda"))


def test_a_model_without_pooling_has_none_to_replace(folder, tmp_path):
    SentenceTransformer(modules=[Transformer(str(folder / "bert")), Normalize()], device="cpu").save(str(tmp_path))
    with pytest.raises(UsageError, match="pooling is mean, and the model has no pooling to replace"):
        load(tmp_path, pooling="mean")


def test_settings_refuse_what_makes_no_sense():
    for wrong in ({"matryoshka": (0,)}, {"pooling": "max"}, {"lora": {"rank": 0}}, {"lora": {"dropout": 1.0}}):
        with pytest.raises(ValidationError):
            ModelSettings(**wrong)


def test_adapters_of_a_loaded_model_need_no_settings(folder):
    model = load(folder / "llama")
    add_lora(model, LoraSettings(rank=2))
    assert targets(model) == SEVEN
