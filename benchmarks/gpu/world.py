"""What the checks train on and with: topics of random words, and models of random weights with a tokeniser of words.

Nothing is fetched, and no package of weights is needed. A word is a token, so lengths are exact.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
)
from transformers.utils import logging as transformers_logging

from benchmarks.gpu.sizes import Lengths, Shape, Sizes
from benchmarks.gpu.timing import device
from foil.datasets_out.training.training_view import TopicGroup, TrainingView
from foil.engine.topic import Intent, IntentRole, Judgment, Passage, Topic, intent_id
from foil.trainer.model.encoder import Encoder, load_starting_encoder
from foil.trainer.settings import EncodeSettings, LossSettings, TrainSettings
from foil.trainer.text_templates import template_named
from foil.trainer.train.data.collate import Batch, collate
from tests.support.trainer_world import commit, open_view

PAD, UNKNOWN, START, END = MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = 1_900
INTENTS: tuple[tuple[IntentRole, tuple[int, int]], ...] = (
    ("original", (1, 1)),
    ("instructed", (1, -1)),
    ("reversed", (-1, 1)),
)
"""The role of every intent of a topic, and what it wants of the two passages."""


def texts(count: int, words: int, seed: int) -> list[str]:
    """Random texts of between half of `words` and all of them."""
    draw = np.random.default_rng([seed, words])
    return [" ".join(f"w{word}" for word in draw.integers(WORDS, size=size)) for size in _sizes(draw, count, words)]


def _sizes(draw: np.random.Generator, count: int, words: int) -> list[int]:
    sizes: list[int] = draw.integers(-(-words // 2), words, size=count, endpoint=True).tolist()
    return sizes


def topic(number: int, lengths: Lengths) -> Topic:
    """Two passages and three intents on one query: one that is bare, and two that want a passage each."""
    name = f"topic-{number:06d}"
    [query] = texts(1, lengths.query, number)
    instructions = ["", *texts(2, lengths.instruction, number)]
    passages = tuple(Passage(text, "seed_positive") for text in texts(2, lengths.passage, number))
    intents = [
        Intent(intent_id(name, instruction, query), role, instruction, query)
        for (role, _), instruction in zip(INTENTS, instructions, strict=True)
    ]
    judgments = [
        Judgment(intent.id, passage.id, relevance, "rule")
        for intent, (_, wanted) in zip(intents, INTENTS, strict=True)
        for passage, relevance in zip(passages, wanted, strict=True)
    ]
    return Topic(name, f"seed-{number}", "random", "random", query, tuple(intents), passages, tuple(judgments))


def view_of(count: int, lengths: Lengths, folder: Path) -> TrainingView:
    """So many topics, committed and read back, all of them to train on."""
    run = commit(folder / f"run-{count}", [topic(number, lengths) for number in range(count)], size=64)
    return open_view(run, heldout_share=0.0, dev_share=0.0)


def largest_distance(ours: Tensor, others: Tensor) -> float:
    """The largest 1 - cosine of two unit vectors in the same row, of [rows, D]."""
    return float((1 - (ours * others).sum(1)).max())


def batch_of(groups: list[TopicGroup], settings: TrainSettings) -> Batch:
    """All of these topics as one batch."""
    return collate(groups, template_named(settings.template))


def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each word, between a start and an end."""
    vocabulary = {word: number for number, word in enumerate((*MARKS, *(f"w{word}" for word in range(WORDS))))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(mark, vocabulary[mark]) for mark in (START, END)]
    )
    marks = {"pad_token": PAD, "unk_token": UNKNOWN, "cls_token": START, "sep_token": END, "eos_token": END}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **marks)


def save_model(shape: Shape, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """A folder with bare weights of this shape, the same in every run on one device, and the tokeniser."""
    torch.manual_seed(0)
    transformers_logging.disable_progress_bar()
    with torch.device(device()):
        model: Any = _model(shape).to(dtype)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def _model(shape: Shape) -> Any:
    if shape.both_ways:
        return Gemma3TextModel(Gemma3TextConfig(**_decoder(shape), use_bidirectional_attention=True))
    return Qwen3Model(Qwen3Config(**_decoder(shape))) if shape.kv_heads else BertModel(_encoder(shape))


def _encoder(shape: Shape) -> BertConfig:
    return BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        max_position_embeddings=shape.positions,
    )


def _decoder(shape: Shape) -> dict[str, Any]:
    """What the configs of both kinds of decoder call the parts of a shape."""
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "intermediate_size": shape.inner,
        "max_position_embeddings": shape.positions,
        "pad_token_id": MARKS.index(PAD),
        "eos_token_id": MARKS.index(END),
    }


def settings_for(path: Path, sizes: Sizes, **changes: Any) -> TrainSettings:
    """Settings of a run from the model in this folder: bfloat16 and all matrices trained, but for the `changes`."""
    encode = EncodeSettings(micro_batch_tokens=sizes.micro_batch_tokens or None, shared_prefix=False)
    return TrainSettings(**{"base": path, "encode": encode, "loss": LossSettings(temperature=0.05), **changes})


def load(settings: TrainSettings) -> Encoder:
    """The model that these settings start from, ready to train."""
    return load_starting_encoder(settings).train()
