"""Passages and (instruction, query) pairs to unit vectors, the same way for training and for evaluation.

The model *is* a SentenceTransformer: its own pooling and normalisation are trained through, and what is saved is what
`SentenceTransformer(path)` loads. Texts are sorted by length and cut into micro-batches of equal padded tokens, so that
little of a batch is padding. A micro-batch is the unit of dropout's random numbers and of the gradient cache.
With late interaction a text has a vector for each token. With a causal decoder's last token, pairs that share a prefix
are packed behind it (`packing`). With cross-attention an instruction and its query are encoded separately, and
attention combines their tokens.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from torch import Tensor, nn

from foil.engine.errors import FoilError, TrainingDivergedError, UsageError
from foil.trainer.model.checksums import FACTS, check_model, ranks_pairs
from foil.trainer.model.cross_attention import CrossAttention, PoolingMode
from foil.trainer.model.fitted_texts import FittedTexts
from foil.trainer.model.late_interaction import TextModel, stack, token_vectors
from foil.trainer.model.loading import backbone_of, load_model, precision_on, save_model
from foil.trainer.model.packaged_minilm import minilm_folder
from foil.trainer.model.packing import (
    LENGTH_STEP,
    PackedBatch,
    check_packable,
    evaluating,
    is_causal,
    last_states,
    micro_batches,
    pack,
    pad,
)
from foil.trainer.model.two_encoders import join_encoders, split_encoders
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings, TrainSettings
from foil.trainer.text_templates import OWN, QueryPair, TextTemplate, behind_prompts, template_named


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Texts that go through the model together: `rows` [n] are their rows in the table of vectors.

    `route` is 0 for the encoder of queries and 1 for that of documents; in most models these are one.
    """

    rows: Tensor
    features: dict[str, Tensor]
    route: int = 0


@dataclass(frozen=True, slots=True)
class CrossAttentionBatch:
    """Pairs encoded separately: `instruction` and `query` [n] are each row's positions in the encoded parts."""

    rows: Tensor
    instruction: Tensor
    query: Tensor
    instructions: dict[str, Tensor]
    queries: dict[str, Tensor]


MicroBatch = PaddedBatch | PackedBatch | CrossAttentionBatch


MICRO_BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}
"""Few on a CPU, so that texts have equal lengths and fit its caches; on a GPU enough to fill it."""

POSITIONS = ("position_embeddings", "embed_positions", "wpe")
"""What transformers calls a table of learnt positions."""

CROSS_ATTENTION_FOLDER = "cross_attention"
"""The folder of a saved model that sentence-transformers does not read."""

SEQUENCE_TEXTS = 8
"""A packed sequence has the length of so many of the longest texts: attention over it grows with its square."""


class Encoder(nn.Module):
    """A model, the template of its pairs, and the limits of its texts. All trained weights are its parameters.

    A text is cut after as many tokens as the settings allow, or as the model has positions for; of an instruction with
    its query the query is cut.

    `tokens` counts the tokens of all texts that were tokenised, without padding.
    """

    def __init__(
        self,
        model: TextModel,
        template: TextTemplate,
        settings: EncodeSettings,
        attention: CrossAttention | None = None,
    ) -> None:
        super().__init__()
        self.model, self.template, self.settings, self.attention = model, template, settings, attention
        self.is_late = isinstance(model, MultiVectorEncoder)
        self._encoders = split_encoders(model)
        self._positions = [positions_of(backbone_of(encoder)) for encoder in self._encoders]
        self.texts = FittedTexts(
            template,
            self._encoders[0].tokenizer,
            min(self._pair_limit, self._positions[0]),
            min(settings.max_tokens, self._positions[1]),
            self._encoders[1].tokenizer,
        )
        """What forms texts as they are read; with cross-attention the parts of a pair are cut by themselves."""
        self._packs_pairs = settings.shared_prefix and _takes_last_token(self._encoders[0])
        self.tokens = 0

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def _budget(self) -> int:
        return self.settings.micro_batch_tokens or MICRO_BATCH_TOKENS[self.device.type]

    @property
    def _pair_limit(self) -> int:
        return self.settings.query_tokens or self.settings.max_tokens

    def micro_batches(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> list[MicroBatch]:
        """The micro-batches that fill a table of vectors: the passages in their order, then the pairs."""
        passage_tokens = self._tokenise(1, passages, self.settings.max_tokens)
        start = len(passage_tokens)
        if self.attention:
            return [*self._padded_batches(1, passage_tokens, 0), *self._cross_attention_batches(pairs, start)]
        pair_tokens = self._tokenise(0, self.texts.format_pairs(pairs), self._pair_limit)
        if self._packs_pairs:
            return [*self._padded_batches(1, passage_tokens, 0), *self._packed_batches(pair_tokens, pairs, start)]
        if self._encoders[0] is not self._encoders[1]:
            return [*self._padded_batches(1, passage_tokens, 0), *self._padded_batches(0, pair_tokens, start)]
        return list(self._padded_batches(0, passage_tokens + pair_tokens, 0))

    def forward(self, batch: MicroBatch) -> Tensor:
        """The unit vectors of one micro-batch in float32, [n, D], or of its tokens, [n, T, D]; with gradients where
        these are enabled."""
        with self._precision():
            if isinstance(batch, PackedBatch):
                vectors = last_states(backbone_of(self._encoders[0]), batch)
            elif isinstance(batch, CrossAttentionBatch):
                vectors = self._attend(batch)
            else:
                features = self._encoders[batch.route](self._to_device(batch.features))
                if self.is_late:
                    return token_vectors(features)
                vectors = features["sentence_embedding"]
        return nn.functional.normalize(vectors.float(), dim=1)

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Tensor:
        """The vectors of passages, then of pairs, [len(passages) + len(pairs), D], or of their tokens, [..., T, D]."""
        batches, vectors = [], []
        for batch, own in self.encode_batches(passages, pairs):
            batches.append(batch)
            vectors.append(own)
        if not batches:
            shape = (0, 0) if self.is_late else (0,)
            return torch.zeros(*shape, self.model.get_embedding_dimension() or 0, device=self.device)
        return restore_order(batches, vectors)

    def encode_batches(
        self, passages: Sequence[str], pairs: Sequence[QueryPair]
    ) -> Iterator[tuple[MicroBatch, Tensor]]:
        """Each micro-batch with its vectors, so that no more of them need to be held than of one."""
        with self._precision():  # around all of them, so that weights are cast once
            for batch in self.micro_batches(passages, pairs):
                yield batch, self(batch)

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bfloat16")

    def _tokenise(self, route: int, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        if not texts:
            return []
        tokenizer, limit = self._encoders[route].tokenizer, min(max_tokens, self._positions[route])
        token_ids: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]
        self.tokens += sum(map(len, token_ids))
        return token_ids

    def _attend(self, batch: CrossAttentionBatch) -> Tensor:
        """Cross-attention of each row's instruction with its query, over the states of their tokens, [n, D]."""
        assert self.attention is not None
        arguments = []
        for features, row in ((batch.instructions, batch.instruction), (batch.queries, batch.query)):
            inputs, rows = self._to_device(features), row.to(self.device)
            states = self._encoders[0][0](inputs)["token_embeddings"]
            arguments += [states[rows], inputs["attention_mask"][rows]]
        arguments[1] = arguments[1] * (batch.instruction > 0).to(self.device)[:, None]
        vectors: Tensor = self.attention(*arguments)
        return vectors

    def _to_device(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: values.to(self.device, non_blocking=True) for name, values in features.items()}

    def _padded_batches(self, route: int, tokens: list[list[int]], start: int) -> Iterator[PaddedBatch]:
        """Texts of similar length together, padded; their rows begin at `start`."""
        for chunk in micro_batches([len(ids) for ids in tokens], self._budget):
            yield PaddedBatch(torch.tensor(chunk) + start, self._pad(route, [tokens[row] for row in chunk]), route)

    def _pad(self, route: int, tokens: list[list[int]]) -> dict[str, Tensor]:
        tokenizer = self._encoders[route].tokenizer
        return pad(tokens, tokenizer.pad_token_id, tokenizer.padding_side)

    def _cross_attention_batches(self, pairs: Sequence[QueryPair], start: int) -> Iterator[CrossAttentionBatch]:
        """Pairs with their parts, each part once a batch; the first instruction is the empty one."""
        parts = (["", *(instruction for instruction, _ in pairs)], [query for _, query in pairs])
        instructions, queries = (self._tokenise_by_text(list(dict.fromkeys(texts))) for texts in parts)
        lengths = [len(instructions[instruction]) + len(queries[query]) for instruction, query in pairs]
        for chunk in micro_batches(lengths, self._budget):
            instruction_rows = _positions(["", *(pairs[row][0] for row in chunk)])
            query_rows = _positions(pairs[row][1] for row in chunk)
            yield CrossAttentionBatch(
                torch.tensor(chunk) + start,
                torch.tensor([instruction_rows[pairs[row][0]] for row in chunk]),
                torch.tensor([query_rows[pairs[row][1]] for row in chunk]),
                self._pad(0, [instructions[text] for text in instruction_rows]),
                self._pad(0, [queries[text] for text in query_rows]),
            )

    def _tokenise_by_text(self, texts: list[str]) -> dict[str, list[int]]:
        return dict(zip(texts, self._tokenise(0, texts, self._pair_limit), strict=True))

    def _packed_batches(self, tokens: list[list[int]], pairs: Sequence[QueryPair], start: int) -> Iterator[PackedBatch]:
        """Pairs with the same instruction (or query, by the template) share it as a prefix."""
        groups = [pair[self.template.first_part] for pair in pairs]
        sequence_tokens = SEQUENCE_TEXTS * max(map(len, tokens), default=1)
        for batch in pack(tokens, groups, sequence_tokens=sequence_tokens, batch_tokens=self._budget):
            yield replace(batch, rows=batch.rows + start)


def load_encoder(
    name: str | Path, template: TextTemplate, settings: EncodeSettings, model: ModelSettings | None = None
) -> Encoder:
    """The model in a local directory or of that hub name, in evaluation mode, with saved cross-attention.

    Raises UsageError where there is no such model, where it encodes no text, or where it does not allow what the
    settings ask, CorruptDataError where a model that Foil published is damaged.
    """
    model_settings = model or ModelSettings()
    if (Path(name) / FACTS).exists() and ranks_pairs(check_model(Path(name))):
        raise UsageError(f"{name} is a reranker and has no vectors; take an embedder, or write rerank:{name}")
    sentence_model = load_model(name, model_settings)
    if model_settings.encoders == "separate" and split_encoders(sentence_model)[0] is sentence_model:
        sentence_model = join_encoders(sentence_model, load_model(name, model_settings)).eval()
    attention, folder = None, Path(name) / CROSS_ATTENTION_FOLDER
    if folder.is_dir():
        attention = CrossAttention.load(folder)
    elif attention_settings := model_settings.cross_attention:
        query = split_encoders(sentence_model)[0]
        width = backbone_of(query).config.hidden_size
        pooling: PoolingMode = "last" if _pools_last_token(query) else "mean"
        attention = CrossAttention(width, attention_settings.direction, attention_settings.residual, pooling)
    if template.name == OWN:
        template = behind_prompts(template_named("query_instruction"), sentence_model.prompts)
    settings = settings.model_copy(update={"precision": precision_on(sentence_model.device.type, settings.precision)})
    encoder = Encoder(sentence_model, template, settings, attention.to(sentence_model.device) if attention else None)
    _check_encodes(encoder.eval(), name)
    return encoder


def _check_encodes(encoder: Encoder, name: str | Path) -> None:
    """UsageError unless a passage and a pair of a model that was just loaded have finite vectors."""
    try:
        check_vectors(encoder)
    except TrainingDivergedError as error:
        raise UsageError(f"{name} loads, and {error}") from error
    except FoilError:
        raise
    except Exception as error:  # whatever a library raises over a config that does not fit its weights
        raise UsageError(f"{name} loads, and encodes no text ({error!r}); restore it or take another model") from error


def check_vectors(encoder: Encoder) -> None:
    """TrainingDivergedError unless the vectors of a passage and of a pair are finite numbers."""
    tokens = encoder.tokens
    with torch.no_grad(), evaluating(encoder):
        vectors = encoder.encode(["a passage"], [("an instruction", "a query")])
    encoder.tokens = tokens
    if not vectors.isfinite().all():
        raise TrainingDivergedError(
            "its vectors are not finite numbers; take another model, or train it again with a lower `learning_rate`"
        )


def save_encoder(encoder: Encoder, path: Path) -> None:
    """Writes a directory that `load_encoder` and SentenceTransformer(path), or MultiVectorEncoder(path), load.

    LoRA is merged in. The cross-attention is in a directory of its own, which SentenceTransformer does not read.
    """
    save_model(encoder.model, path)
    if encoder.attention:
        encoder.attention.save(path / CROSS_ATTENTION_FOLDER)


def load_starting_encoder(settings: TrainSettings, *, adapters: bool = True) -> Encoder:
    """The model before the first step of a run; without `adapters`, before LoRA was added."""
    model = settings.model if adapters else settings.model.model_copy(update={"lora": None})
    base = settings.base or minilm_folder()
    encoder = load_encoder(base, template_named(settings.template), settings.encode, model)
    if encoder.is_late and not model.late_interaction:
        raise UsageError(f"the base {base} has a vector for each token; set model.late_interaction, or take another")
    return encoder


def positions_of(backbone: nn.Module) -> int:
    """The tokens of a text for which a model has learnt positions; no limit where positions are computed.

    Padding of a text takes positions too, unless the model numbers it apart.
    """
    for name, module in backbone.named_modules():
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in POSITIONS:
            count, padding = module.num_embeddings, module.padding_idx
            return max(1, count - count % LENGTH_STEP if padding is None else count - padding - 1)
    return sys.maxsize


def _positions(texts: Iterable[str]) -> dict[str, int]:
    return {text: position for position, text in enumerate(dict.fromkeys(texts))}


def restore_order(batches: Sequence[MicroBatch], vectors: Sequence[Tensor]) -> Tensor:
    """The table of vectors of micro-batches that together fill its rows, [texts, ...]; differentiable."""
    rows = torch.cat([batch.rows for batch in batches])
    order = torch.empty_like(rows)
    order[rows] = torch.arange(len(rows))
    return stack(vectors)[order.to(vectors[0].device)]


def _pools_last_token(model: TextModel) -> bool:
    return any(isinstance(module, Pooling) and module.pooling_mode == "lasttoken" for module in model.children())


def _takes_last_token(model: TextModel) -> bool:
    """Whether a vector is the state of a causal decoder's last token and nothing more; then texts can be packed."""
    _, *modules = model.children()
    only_pools = bool(modules) and isinstance(modules[0], Pooling)
    only_normalises = all(isinstance(module, Normalize) for module in modules[1:])
    if not (only_pools and _pools_last_token(model) and only_normalises and is_causal(backbone_of(model))):
        return False
    check_packable(backbone_of(model))
    return True


def plain_vectors(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors [texts, dimensions] of texts as they are, without gradients."""
    with torch.inference_mode():
        vectors: NDArray[np.float32] = encoder.encode(list(texts), []).float().cpu().numpy()
    return vectors
