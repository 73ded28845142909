"""Packed texts against the same texts one by one: states, gradients, budgets, and who is refused."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    BertConfig,
    BertModel,
    BloomConfig,
    BloomModel,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    MistralModel,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3Model,
)

from foil.engine.errors import UsageError
from foil.trainer.model.packing import LENGTH_STEP, check_packable, encode_packed, is_causal, last_states, pack, pad

torch.set_num_threads(1)

SIZES = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.3,
}  # fmt: skip
DECODERS = {
    "llama": (LlamaModel, LlamaConfig, {"num_key_value_heads": 2}),
    "qwen2": (Qwen2Model, Qwen2Config, {"num_key_value_heads": 2}),
    "qwen3": (Qwen3Model, Qwen3Config, {"num_key_value_heads": 2, "head_dim": 4}),
    "mistral": (MistralModel, MistralConfig, {"num_key_value_heads": 2, "head_dim": 4, "sliding_window": None}),
}
TOKENS = st.lists(st.integers(0, 31), min_size=1, max_size=9)
GROUPS = st.lists(st.tuples(st.lists(st.integers(0, 31), max_size=12), st.lists(TOKENS, min_size=1, max_size=6)))


@cache
def decoder(name, attention="sdpa", **more):
    model, config, own = DECODERS[name]
    torch.manual_seed(0)
    return model(config(**SIZES | own | more, attn_implementation=attention)).eval()


def alone(model, texts):
    return torch.cat([model(input_ids=torch.tensor([text])).last_hidden_state[:, -1] for text in texts])


def packed(model, texts, groups, sequence_tokens=40, batch_tokens=96):
    return encode_packed(model, pack(texts, groups, sequence_tokens=sequence_tokens, batch_tokens=batch_tokens))


def gradients(model, states):
    weights = torch.sin(torch.arange(states.numel(), dtype=states.dtype)).view_as(states)
    return torch.cat([g.flatten() for g in torch.autograd.grad((states * weights).sum(), list(model.parameters()))])


def spread(groups):
    """Texts and their keys, taken from the groups in turn, so that a group's texts do not stand together."""
    texts = [
        (turn, number, front + end) for number, (front, ends) in enumerate(groups) for turn, end in enumerate(ends)
    ]
    texts.sort(key=lambda one: one[:2])
    return [text for _, _, text in texts], [number for _, number, _ in texts]


@pytest.mark.parametrize("name", DECODERS)
@settings(deadline=None, max_examples=8)
@given(groups=GROUPS.filter(len), attention=st.sampled_from(["sdpa", "eager"]))
def test_states_and_gradients_are_those_of_the_texts_one_by_one(name, attention, groups):
    model = decoder(name, attention)
    texts, keys = spread(groups)
    together, apart = packed(model, texts, keys), alone(model, texts)
    assert (together - apart).abs().max() < 1e-5
    ours, theirs = gradients(model, together), gradients(model, apart)
    assert (ours - theirs).abs().max() < 1e-5 * max(1.0, float(theirs.abs().max()))


def test_a_prefix_stands_once_and_positions_start_again_behind_it():
    (batch,) = pack([[7, 8, 9], [7, 8, 5, 6], [7, 8, 9]], "aaa", sequence_tokens=40, batch_tokens=40)
    assert batch.ids.tolist() == [[7, 8, 9, 5, 6, 9] + [0] * 10]
    assert batch.positions.tolist() == [[0, 1, 2, 2, 3, 2] + [0] * 10]
    assert batch.segments.tolist() == [[0, 0, 1, 2, 2, 3] + [-1] * 10]
    assert (batch.rows.tolist(), batch.sequence.tolist(), batch.last.tolist()) == ([0, 1, 2], [0, 0, 0], [2, 4, 5])


def test_a_text_that_another_begins_with_keeps_a_token_of_its_own():
    (batch,) = pack([[7, 8], [7, 8, 9]], "aa", sequence_tokens=40, batch_tokens=40)
    assert batch.ids[0, :4].tolist() == [7, 8, 8, 9]
    assert batch.segments[0, :4].tolist() == [0, 1, 2, 2]


@settings(deadline=None, max_examples=40)
@given(groups=GROUPS, sequence_tokens=st.integers(1, 60), batch_tokens=st.integers(1, 200))
def test_every_text_is_packed_once_and_budgets_hold(groups, sequence_tokens, batch_tokens):
    texts, keys = spread(groups)
    batches = pack(texts, keys, sequence_tokens=sequence_tokens, batch_tokens=batch_tokens)
    assert sorted(row for batch in batches for row in batch.rows.tolist()) == list(range(len(texts)))
    for batch in batches:
        assert batch.ids.numel() <= batch_tokens or len(batch.ids) == 1
        for sequence, line in enumerate(batch.segments):
            held = int((line >= 0).sum())
            assert held <= sequence_tokens or int((batch.sequence == sequence).sum()) == 1
        ends = batch.ids[batch.sequence, batch.last].tolist()
        assert ends == [texts[row][-1] for row in batch.rows.tolist()]


def test_a_long_group_is_split_and_each_strip_has_the_prefix():
    texts = [[9, 9, 9, 9, number] for number in range(10)]
    (batch,) = pack(texts, [0] * 10, sequence_tokens=7, batch_tokens=1000)
    assert (batch.segments == 0).sum(1).tolist() == [4, 4, 4, 4]
    assert (batch.segments > 0).sum(1).tolist() == [3, 3, 3, 1]


def test_what_is_shared_is_computed_once():
    texts = [[*range(20), 20 + number] for number in range(10)]
    (batch,) = pack(texts, [0] * 10, sequence_tokens=40, batch_tokens=40)
    assert batch.ids.numel() == 32


@given(
    st.lists(st.lists(st.integers(4, 60), min_size=1, max_size=40), min_size=1, max_size=5),
    st.sampled_from(["left", "right"]),
)
def test_texts_are_padded_as_their_tokeniser_does_it(tokens, side):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"[PAD]": 7}, unk_token="[PAD]")))
    tokenizer.pad_token, tokenizer.padding_side = "[PAD]", side
    wanted = tokenizer.pad({"input_ids": tokens}, pad_to_multiple_of=LENGTH_STEP, return_tensors="pt")
    found = pad(tokens, tokenizer.pad_token_id, side)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in found)


def test_no_texts_make_no_batches():
    assert pack([], [], sequence_tokens=8, batch_tokens=8) == []


def test_a_text_without_tokens_is_refused():
    with pytest.raises(UsageError, match="text 1 has no tokens"):
        pack([[1], []], "aa", sequence_tokens=8, batch_tokens=8)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bfloat16_autocast_differs_by_its_own_rounding_alone(attention):
    model = decoder("llama", attention)
    texts, keys = [[*range(1, 15), number] for number in range(8)], [0] * 8
    with torch.no_grad():
        exact = alone(model, texts)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounding = float((alone(model, texts) - exact).abs().max())
            assert 0 < (packed(model, texts, keys) - exact).abs().max() < 2 * rounding


def test_gradient_checkpointing_changes_no_gradient():
    model = decoder("qwen3", "sdpa", num_hidden_layers=3)
    texts, keys = spread([([3, 4, 5, 6], [[7], [8, 9], [10]]), ([], [[11, 12]])])
    plain = gradients(model, packed(model, texts, keys))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    assert model.layers[0].gradient_checkpointing
    assert torch.equal(gradients(model, packed(model, texts, keys)), plain)


def test_a_sliding_window_holds_texts_that_fit_and_refuses_longer_ones():
    model = decoder("mistral", "sdpa", sliding_window=8)
    fit = [[5, 6, 7, 8, number, 9, 10, 11] for number in range(6)]
    assert (packed(model, fit, [0] * 6) - alone(model, fit)).abs().max() < 1e-5
    batches = pack([[*text, 12] for text in fit], [0] * 6, sequence_tokens=40, batch_tokens=40)
    with pytest.raises(UsageError, match=r"9 tokens is longer than the sliding window of MistralModel \(8\)"):
        last_states(model, batches[0])


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_pass_the_check_and_stay_in_their_mode(name):
    model = decoder(name).train()
    check_packable(model)
    assert model.training
    assert is_causal(model.eval())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", [(BertModel, BertConfig), (ModernBertModel, ModernBertConfig)])
def test_encoders_that_look_ahead_are_refused(kind, attention):
    model, config = kind
    own = {"cls_token_id": 1, "sep_token_id": 2} if config is ModernBertConfig else {}
    encoder = model(config(**SIZES | own, attn_implementation=attention)).eval()
    assert not is_causal(encoder)
    with pytest.raises(UsageError, match=r"BertModel tokens see later ones; turn packing off"):
        check_packable(encoder)


def test_a_decoder_that_takes_no_mask_of_ours_is_refused():
    config = BloomConfig(vocab_size=32, hidden_size=16, n_layer=1, n_head=2, pad_token_id=0)
    with pytest.raises(UsageError, match="BloomModel takes no attention mask of our own"):
        check_packable(BloomModel(config).eval())


def test_a_decoder_that_ignores_positions_is_refused():
    class Deaf(LlamaModel):
        def forward(self, *args, position_ids=None, **more):
            return super().forward(*args, **more)

    torch.manual_seed(0)
    with pytest.raises(UsageError, match="Deaf gives other states packed than alone"):
        check_packable(Deaf(LlamaConfig(**SIZES)).eval())


def test_attention_without_a_mask_is_refused():
    model = LlamaModel(LlamaConfig(**SIZES)).eval()
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UsageError, match="flash_attention_2 has no place for; set attention to sdpa or eager"):
        check_packable(model)
