"""Every choice of mining hard negatives. Nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from foil.datasets_out.training.training_view import Split, SplitSettings
from foil.engine.settings import Settings
from foil.trainer.settings import EncodeSettings

MINING_VERSION = 1
"""Raised when the same run and settings would give other negatives."""


class MineSettings(Settings):
    """Who mines, what for, and what is refused."""

    miner: Literal["bm25", "model"] = Field("bm25", description="words in common, or cosines of a model")
    model: Path | None = Field(None, description="directory of the model that mines; none = packaged MiniLM")
    template: str | None = Field(None, description="how a model gets instruction and query; none = as it learnt")
    instruction_words: bool = Field(
        False, description="BM25 counts the words of instructions too, not the query's alone"
    )
    encode: EncodeSettings = EncodeSettings(max_tokens=256)
    corpus: Literal["run", "seeds", "file"] = Field(
        "run", description="what is mined: passages of accepted topics, of the job's seeds, or of a file"
    )
    file: Path | None = Field(None, description="the file of `corpus: file`: rows of id (or _id), title, text")
    licence: str = Field("", description="licence of the file's texts")
    redistributable: bool = Field(False, description="whether the file's texts may be exported to others")
    roles: tuple[Literal["original", "instructed", "reversed", "dual"], ...] = Field(
        ("original", "instructed"), min_length=1, description="intents that are mined for"
    )
    splits: tuple[Split, ...] = Field(
        ("train",), min_length=1, description="topics that are mined for; what measures stays as it is"
    )
    split: SplitSettings = SplitSettings()
    per_intent: int = Field(4, ge=1, le=10_000, description="negatives that an intent gets at most")
    skip: int = Field(0, ge=0, le=10**6, description="ranks from the top that are passed over unseen")
    depth: int = Field(50, ge=1, le=10**6, description="ranks that are looked at, from the top")
    max_relative: float = Field(
        0.95, gt=0, le=1, description="share of the lowest positive's score that a negative may have"
    )
    min_gap: float = Field(0.0, ge=0, le=1e6, description="what a negative's score lacks to the lowest positive's")
    max_overlap: float = Field(
        0.75, gt=0, le=1, description="share of the smaller one's distinct words that it and a positive share"
    )
    satisfying: Literal["refuse", "keep"] = Field(
        "refuse", description="what becomes of a passage that satisfies the intent's constraints"
    )

    @model_validator(mode="after")
    def _consistent(self) -> MineSettings:
        if self.skip >= self.depth:
            raise ValueError(f"skip is {self.skip} and depth {self.depth}; depth must be larger")
        if (self.corpus == "file") != (self.file is not None):
            raise ValueError("`file` and `corpus: file` go together; give both or neither")
        return self
