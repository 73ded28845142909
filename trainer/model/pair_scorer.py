"""A query and a passage, read together, to one score: the same way for training and for evaluation.

The model *is* a CrossEncoder of sentence-transformers, and what is saved is what `CrossEncoder(path)` loads. Scores are
raw logits (its saved activation is the identity), in float32 whatever the precision of the layers below. Pairs are
sorted by length and cut into micro-batches of equal padded tokens. A base without a head gets one, whose weights follow
from the seed. Reference: Nogueira and Cho, Passage Re-ranking with BERT, arXiv 1901.04085.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder
from torch import Tensor, nn
from torch.nn import functional
from transformers import BatchEncoding, PreTrainedModel
from transformers.utils import logging as transformers_logging

from foil.engine.errors import FoilError, UsageError
from foil.trainer.model.attention import attend_in_float32
from foil.trainer.model.checksums import FACTS, check_model
from foil.trainer.model.encoder import MICRO_BATCH_TOKENS, positions_of
from foil.trainer.model.fitted_texts import of_cross_encoder
from foil.trainer.model.loading import (
    broken_model,
    check_finite,
    device_of,
    missing_weights,
    precision_on,
    switch_dropout_off,
)
from foil.trainer.model.packaged_minilm import minilm_folder
from foil.trainer.model.packing import LENGTH_STEP, evaluating, micro_batches
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings, TrainSettings
from foil.trainer.text_templates import TextTemplate, template_named

TextPair = tuple[str, str]
"""The text of a query with its instruction, and that of a passage, as their template forms them."""


class PairScorer(nn.Module):
    """A cross-encoder, the template of its texts, and their limit; `tokens` counts all that were tokenised.

    A pair is cut after `max_tokens`, the longer of its texts first, or after as many as the model has positions for.
    """

    def __init__(self, model: CrossEncoder, template: TextTemplate, settings: EncodeSettings) -> None:
        super().__init__()
        self.model, self.template, self.settings = model, template, settings
        self.model.max_seq_length = min(settings.max_tokens, positions_of(transformer_of(model)))
        self.texts = of_cross_encoder(template, model.tokenizer, model.max_seq_length)
        self.tokens = 0

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def budget(self) -> int:
        """The padded tokens that go through the model together."""
        return self.settings.micro_batch_tokens or MICRO_BATCH_TOKENS[self.device.type]

    def tokenise(self, pairs: Sequence[TextPair]) -> list[dict[str, list[int]]]:
        """The features of each pair, without padding."""
        if not pairs:
            return []
        queries, passages = map(list, zip(*pairs, strict=True))
        limit = self.model.max_seq_length
        encoded = self.model.tokenizer(queries, passages, truncation="longest_first", max_length=limit)
        rows = [{name: values[row] for name, values in encoded.items()} for row in range(len(pairs))]
        self.tokens += sum(len(row["input_ids"]) for row in rows)
        return rows

    def pad(self, rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        """The features of tokenised pairs as one batch, on the CPU."""
        padded: BatchEncoding = self.model.tokenizer.pad(
            {name: [row[name] for row in rows] for name in rows[0]}, pad_to_multiple_of=LENGTH_STEP, return_tensors="pt"
        )
        return dict(padded)

    def forward(self, rows: Sequence[dict[str, list[int]]]) -> Tensor:
        """The scores of tokenised pairs, which go through the model together, in float32, [n]."""
        features = {name: values.to(self.device, non_blocking=True) for name, values in self.pad(rows).items()}
        enabled = self.settings.precision == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled):
            scores: Tensor = self.model(features)["scores"]
        return scores.float().reshape(-1)

    def score(self, pairs: Sequence[TextPair]) -> Tensor:
        """The scores of pairs, in their order, [n]; without gradients and dropout."""
        rows, scores = self.tokenise(pairs), torch.zeros(len(pairs))
        with torch.inference_mode(), evaluating(self):
            for chunk in micro_batches([len(row["input_ids"]) for row in rows], self.budget):
                scores[chunk] = self([rows[row] for row in chunk]).cpu()
        return scores


def load_pair_scorer(
    name: str | Path,
    template: TextTemplate,
    settings: EncodeSettings,
    model: ModelSettings | None = None,
    head_seed: int | None = None,
) -> PairScorer:
    """The cross-encoder in a local directory or of that hub name, in evaluation mode.

    With `head_seed`, an embedder or bare weights get a head of one score, drawn from it. Raises UsageError where there
    is no such model or where it gives no single score, CorruptDataError where Foil published it and it is damaged.
    """
    model_settings = model or ModelSettings()
    if (Path(name) / FACTS).exists():
        check_model(Path(name))
    device = device_of(model_settings)
    try:
        loaded = _load(str(name), model_settings, head_seed)
    except MemoryError:
        raise
    except Exception as error:  # over a damaged folder the libraries raise errors of any kind
        raise broken_model(name, f"{name} does not load as a cross-encoder: {error}") from error
    _check(name, loaded, headless=head_seed is not None)
    _score_in_float32(transformer_of(loaded))
    if device == "cpu":
        attend_in_float32(transformer_of(loaded))
    if not model_settings.dropout:
        switch_dropout_off(loaded)
    if model_settings.gradient_checkpointing:
        transformer_of(loaded).gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    settings = settings.model_copy(update={"precision": precision_on(device, settings.precision)})
    scorer = PairScorer(loaded.to(device), template, settings).eval()
    _check_scores(scorer, name)
    return scorer


def load_starting_scorer(settings: TrainSettings) -> PairScorer:
    """The model before the first step of a run."""
    base = settings.base or minilm_folder()
    template = template_named(settings.template)
    return load_pair_scorer(base, template, settings.encode, settings.model, head_seed=settings.schedule.seed)


def transformer_of(model: CrossEncoder) -> PreTrainedModel:
    """The transformer of a cross-encoder, with its head."""
    assert model.model is not None
    return model.model


class _Float32Linear(nn.Linear):
    """A layer of the head: its products and its result are float32, under autocast too."""

    def forward(self, states: Tensor) -> Tensor:
        with torch.autocast(states.device.type, enabled=False):
            return functional.linear(states.float(), self.weight, self.bias)


def _score_in_float32(model: PreTrainedModel) -> None:
    """Keeps scores apart that bfloat16 makes equal: around 8 its steps are 0.06; edited passages may differ by less."""
    of_backbone = set(model.base_model.modules())
    for module in model.modules():
        if type(module) is nn.Linear and module not in of_backbone:
            module.__class__ = _Float32Linear


def save_pair_scorer(scorer: PairScorer, path: Path) -> None:
    """Writes a directory that `CrossEncoder(path)` loads."""
    scorer.model.save(str(path), create_model_card=False)


def _load(name: str, settings: ModelSettings, head_seed: int | None) -> CrossEncoder:
    attention = {"attn_implementation": settings.attention} if settings.attention else {}
    with torch.random.fork_rng([]), _without_notes():
        torch.default_generator.manual_seed(head_seed or 0)
        model: CrossEncoder = CrossEncoder(
            name, device="cpu", local_files_only=Path(name).is_dir(), activation_fn=nn.Identity(),
            model_kwargs={"dtype": torch.float32, **attention}, num_labels=1 if head_seed is not None else None,
        )  # fmt: skip
    return model


@contextmanager
def _without_notes() -> Iterator[None]:
    """The libraries do not tell that a head is new: `_check` refuses it where it should not be."""
    transformers_logging.disable_progress_bar()
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers.base.model")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check(name: str | Path, model: CrossEncoder, *, headless: bool) -> None:
    """UsageError, or CorruptDataError over what Foil published, for a model that cannot be taken."""
    if len(model) != 1 or model.num_labels != 1:
        raise UsageError(f"{name} is no encoder with one score a pair; take another base for a reranker")
    backbone = f"{transformer_of(model).base_model_prefix}."
    missing = [weight for weight in missing_weights(model) if not headless or weight.startswith(backbone)]
    if missing:
        raise broken_model(name, f"{name} lacks {len(missing)} weights of a reranker ({', '.join(missing[:3])})")
    check_finite(name, model)


def _check_scores(scorer: PairScorer, name: str | Path) -> None:
    """UsageError unless the scores of two pairs, of which one is padded, are finite numbers."""
    tokens = scorer.tokens
    try:
        scores = scorer.score([("a query", "a passage"), ("a query", "a passage of some more words")])
    except FoilError:
        raise
    except Exception as error:  # whatever a library raises over a config that does not fit its weights
        raise UsageError(f"{name} loads, and scores no pair ({error!r}); take another model") from error
    scorer.tokens = tokens
    if not scores.isfinite().all():
        raise UsageError(f"{name} loads, and its scores are not finite numbers; take another model")
