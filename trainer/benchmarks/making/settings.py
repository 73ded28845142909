"""Every choice of `foil benchmarks make` that changes what is written."""

from typing import Literal

from pydantic import Field

from datasets_out.training.training_view import SplitSettings
from trainer.systems.system import SystemSettings


class MakingSettings(SystemSettings):
    """How a benchmark is made, and how the systems are run that judge it."""

    topics: Literal["heldout", "all"] = Field(
        default="heldout", description="of a run: those that training never sees, or all that were accepted"
    )
    split: SplitSettings = SplitSettings()
    overlap_words: int = Field(default=13, ge=5, le=64, description="words in a row that a training text may not share")
    document_share: float = Field(
        default=0.5, gt=0, le=1, description="share of a relevant document in a row that makes it a training text"
    )
