"""Texts to unit vectors, the same way for training and for evaluation; the one place that knows sentence-transformers.

The model *is* a SentenceTransformer: its own pooling and normalisation are trained through, and what is saved is what
`SentenceTransformer(path)` loads. Dropout stays off, in training too: a step is then a function of weights and batch
alone, which is what makes resuming exact and the number of workers immaterial; the price is one regulariser less.

Texts are sorted by length and cut into micro-batches of equal padded tokens, so that little of a batch is padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers.utils import logging as transformers_logging

from engine.errors import UsageError
from trainer.settings import EncodeSettings

LENGTH_STEP = 16
"""Padded lengths are multiples of it: the CPU kernels keep memory for every shape that they have seen."""


def load_encoder(path: Path) -> SentenceTransformer:
    """The model in a local directory, dropout off; nothing is downloaded."""
    if not (path / "config.json").is_file():
        raise UsageError(f"{path} holds no model (no config.json); give the directory of a saved model")
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(str(path), device="cpu", local_files_only=True).eval()


def encode(model: SentenceTransformer, texts: Sequence[str], settings: EncodeSettings) -> Tensor:
    """Unit vectors in float32, [len(texts), D], in the order given; with gradients where these are enabled."""
    if not texts:
        return torch.zeros(0, model.get_embedding_dimension() or 0)
    features = model.tokenizer(list(texts), truncation=True, max_length=settings.max_tokens)
    lengths = [len(ids) for ids in features["input_ids"]]
    order, vectors = [], []
    for chunk in micro_batches(lengths, settings.micro_batch_tokens):
        order += chunk
        vectors.append(_forward(model, _pad(model, features, chunk), settings.precision))
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    return torch.nn.functional.normalize(torch.cat(vectors).float(), dim=1)[back]


def micro_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions by falling length, cut so that longest x count stays within `tokens` (a single text may pass it)."""
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    while order:
        count = max(1, tokens // (-(-lengths[order[0]] // LENGTH_STEP) * LENGTH_STEP))
        yield order[:count]
        order = order[count:]


def _pad(model: SentenceTransformer, features: Any, chunk: list[int]) -> dict[str, Tensor]:
    rows = {name: [values[position] for position in chunk] for name, values in features.items()}
    return dict(model.tokenizer.pad(rows, pad_to_multiple_of=LENGTH_STEP, return_tensors="pt"))


def _forward(model: SentenceTransformer, features: dict[str, Tensor], precision: str) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        vectors: Tensor = model(features)["sentence_embedding"]
    return vectors
