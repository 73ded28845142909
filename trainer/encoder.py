"""Passages and (instruction, query) pairs to unit vectors, the same way for training and for evaluation.

The model *is* a SentenceTransformer: its own pooling and normalisation are trained through, and what is saved is what
`SentenceTransformer(path)` loads. Texts are sorted by length and cut into micro-batches of equal padded tokens, so that
little of a batch is padding; a micro-batch is the unit of work, of dropout's random numbers and of the gradient cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers.utils import logging as transformers_logging

from engine.errors import UsageError
from trainer.fusion import Template
from trainer.settings import EncodeSettings

LENGTH_STEP = 16
"""Padded lengths are multiples of it: the CPU kernels keep memory for every shape that they have seen."""

Pair = tuple[str, str]
"""(instruction, query), with "" for no instruction."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Texts that go through the model together: `rows` [n] are their places in the table of vectors."""

    rows: Tensor
    features: dict[str, Tensor]


class Encoder(nn.Module):
    """A model, how pairs become one text for it, and how texts are cut. Its parameters are all that is learnt."""

    def __init__(self, model: SentenceTransformer, template: Template, settings: EncodeSettings) -> None:
        super().__init__()
        self.model, self.template, self.settings = model, template, settings

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def micro_batches(self, passages: Sequence[str], pairs: Sequence[Pair]) -> list[MicroBatch]:
        """All the work for a table of vectors: the passages in their order, then the pairs."""
        if not passages and not pairs:
            return []
        own = self.settings
        texts, fused = list(passages), [self.template.fuse(*pair) for pair in pairs]
        tokens = self._tokens(texts, own.max_tokens) + self._tokens(fused, own.query_tokens or own.max_tokens)
        chunks = micro_batches([len(ids) for ids in tokens], own.micro_batch_tokens)
        return [MicroBatch(torch.tensor(chunk), self._pad([tokens[row] for row in chunk])) for chunk in chunks]

    def forward(self, batch: MicroBatch) -> Tensor:
        """The unit vectors of one micro-batch in float32, [n, D]; with gradients where these are enabled."""
        device = self.device
        features = {name: values.to(device, non_blocking=True) for name, values in batch.features.items()}
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            vectors: Tensor = self.model(features)["sentence_embedding"]
        return nn.functional.normalize(vectors.float(), dim=1)

    def encode(self, passages: Sequence[str], pairs: Sequence[Pair]) -> Tensor:
        """The vectors of passages, then of pairs, [len(passages) + len(pairs), D]."""
        batches = self.micro_batches(passages, pairs)
        if not batches:
            return torch.zeros(0, self.model.get_embedding_dimension() or 0)
        return in_order(batches, [self(batch) for batch in batches])

    def _tokens(self, texts: list[str], most: int) -> list[list[int]]:
        if not texts:
            return []
        found: list[list[int]] = self.model.tokenizer(texts, truncation=True, max_length=most)["input_ids"]
        return found

    def _pad(self, tokens: list[list[int]]) -> dict[str, Tensor]:
        return dict(
            self.model.tokenizer.pad({"input_ids": tokens}, pad_to_multiple_of=LENGTH_STEP, return_tensors="pt")
        )


def load_encoder(path: Path, template: Template, settings: EncodeSettings) -> Encoder:
    """The model in a local directory, dropout off; nothing is downloaded."""
    if not (path / "config.json").is_file():
        raise UsageError(f"{path} holds no model (no config.json); give the directory of a saved model")
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    return Encoder(model, template, settings).eval()


def in_order(batches: Sequence[MicroBatch], vectors: Sequence[Tensor]) -> Tensor:
    """The table of vectors of micro-batches that together fill its rows, [texts, D]; differentiable."""
    rows = torch.cat([batch.rows for batch in batches])
    back = torch.empty_like(rows)
    back[rows] = torch.arange(len(rows))
    return torch.cat(list(vectors))[back.to(vectors[0].device)]


def micro_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions by falling length, cut so that longest x count stays within `tokens` (a single text may pass it)."""
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    while order:
        count = max(1, tokens // (-(-lengths[order[0]] // LENGTH_STEP) * LENGTH_STEP))
        yield order[:count]
        order = order[count:]
