"""How a base model is loaded, which weights learn, and whether it ranks pairs. Nothing heavy is imported."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from foil.engine.settings import Settings

AttentionDirection = Literal["instruction_queries", "query_queries"]


class LoraSettings(Settings):
    """Low-rank updates in place of full matrices; the defaults are those of Tevatron, which Promptriever used."""

    rank: int = Field(32, ge=1, le=65_536, description="of an update, in columns")
    alpha: int = Field(64, ge=1, le=10**6, description="an update is scaled by alpha / rank")
    dropout: float = Field(0.1, ge=0, lt=1, description="of an update's input; acts where `model.dropout` is on")
    targets: tuple[str, ...] = Field(
        (),
        description="last names of linear modules; none = q, k, v, o, up, down and gate projections of a decoder, or "
        "all linear modules of a model that lacks one of these",
    )


class AttentionSettings(Settings):
    """InF-Embed's cross-attention between instruction and query, encoded apart; see `trainer.model.cross_attention`."""

    direction: AttentionDirection = Field(
        "instruction_queries", description="whose tokens ask, and are pooled over; the first is eq. 4"
    )
    residual: bool = Field(True, description="the query's own vector is added")


class LateInteractionSettings(Settings):
    """A vector for each token in place of one a text; see `trainer.model.late_interaction`."""

    dimensions: int = Field(96, ge=1, le=65_536, description="of a token's vector")


class ModelSettings(Settings):
    """What becomes of the base model when it is loaded for training."""

    encoders: Literal["shared", "separate"] = Field(
        "shared", description="separate = queries and passages each learn their own copy of the base"
    )
    cross_attention: AttentionSettings | None = Field(
        None, description="none = instruction and query are one text, joined by `train.template`"
    )
    late_interaction: LateInteractionSettings | None = Field(
        None,
        description="texts are compared token by token, by MeanMaxSim; `{}` takes the defaults; none = a vector a text",
    )
    pooling: Literal["cls", "mean", "last"] | None = Field(
        None, description="none = the saved model's own; for bare weights mean, or last for a causal decoder"
    )
    append_eos: bool | None = Field(
        None,
        description="end every text with the end-of-text token; none = where pooling is `last` and the tokenizer "
        "appends nothing; kept in the saved tokenizer",
    )
    attention: Literal["eager", "sdpa", "flash_attention_2"] | None = Field(
        None, description="none = what transformers chooses"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute activations again in the backward pass instead of keeping them"
    )
    dropout: bool = Field(False, description="the base model's own and LoRA's; false = off in training too")
    lora: LoraSettings | None = Field(None, description="none = all weights learn")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto = cuda where there is one")
    matryoshka: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] = Field(
        (), description="also train so many first dimensions of the vectors to stand alone"
    )


RankingLoss = Literal["softmax", "ranknet", "margin"]

EMBEDDERS_ALONE = (
    "preset", "loss", "gradient_cache", "workers", "encode.query_tokens", "encode.shared_prefix",
    "model.encoders", "model.cross_attention", "model.late_interaction", "model.pooling", "model.append_eos",
    "model.lora", "model.matryoshka",
    "retention.pull_queries", "retention.pull_passages", "retention.blends", "retention.drawn_shares",
    "validation.benchmarks",
)  # fmt: skip
"""What a training run of a reranker does not read, as dotted keys of `train`."""
ONE_VECTOR_ALONE = (
    "workers", "model.encoders", "model.cross_attention", "model.pooling", "model.matryoshka",
    "retention.pull_queries", "retention.pull_passages",
)  # fmt: skip
"""The same of an embedder with a vector for each token."""


class RerankerSettings(Settings):
    """A cross-encoder: one score for a query and passage read together; see `trainer.train.reranker.losses`."""

    loss: RankingLoss = Field(
        "softmax", description="softmax over the list, or of pairs of its passages: ranknet, margin"
    )
    margin: float = Field(1.0, gt=0, le=1_000, description="between relevant and irrelevant, of `loss: margin`")
    other_passages: int = Field(
        4,
        ge=0,
        le=1_000,
        description="passages of other topics of the batch that each list has too, as irrelevant ones",
    )


def changed_among(train: BaseModel, names: Sequence[str]) -> list[str]:
    """The dotted keys of `train` that differ from their defaults and are, or lie in, one of these."""
    changed = list(_changed(train, ""))
    return [key for key in changed if any(key == name or key.startswith(f"{name}.") for name in names)]


def _changed(settings: BaseModel, prefix: str) -> Iterator[str]:
    for name, field in type(settings).model_fields.items():
        value: Any = getattr(settings, name)
        if isinstance(value, BaseModel) and isinstance(field.default, type(value)):
            yield from _changed(value, f"{prefix}{name}.")
        elif value != field.default:
            yield f"{prefix}{name}"
