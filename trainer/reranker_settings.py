"""A reranker in place of an embedder, and the settings that have no meaning for one. Nothing heavy is imported."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from foil.engine.settings import Settings

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
        default="softmax", description="softmax over the list, or of pairs of its passages: ranknet, margin"
    )
    margin: float = Field(default=1.0, gt=0, le=1_000, description="between relevant and irrelevant, of `loss: margin`")
    other_passages: int = Field(
        default=4,
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
