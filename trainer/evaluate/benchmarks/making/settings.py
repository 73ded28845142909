"""Every choice of `foil benchmarks make` that changes what is written."""

from typing import Literal

from pydantic import Field

from foil.datasets_out.training.training_view import SplitSettings
from foil.trainer.evaluate.systems.system import SystemSettings


class MakingSettings(SystemSettings):
    """How a benchmark is made, and how the systems are run that judge it."""

    topics: Literal["heldout", "all"] = Field(
        "heldout", description="of a run: those that training never sees, or all that were accepted"
    )
    split: SplitSettings = SplitSettings()
    queries: int = Field(0, ge=0, le=10**7, description="cores to sample; 0 = all")
    documents: int = Field(0, ge=0, le=10**9, description="documents to sample; 0 = all")
    seed: int = Field(0, ge=0, lt=2**32, description="of both samples")
    pool_depth: int = Field(100, ge=10, le=10**6, description="ranks of each system whose documents come first")
    least_tau: float = Field(
        0.9, ge=-1, le=1, description="Kendall's tau of the systems below which a sample is refused"
    )
    overlap_words: int = Field(13, ge=5, le=64, description="words in a row that a training text may not share")
    document_share: float = Field(
        0.5, gt=0, le=1, description="share of a relevant document in a row that makes it a training text"
    )
    candidates: int = Field(100, ge=2, le=10_000, description="of IFEval: responses ranked for a prompt")
    followers: int = Field(10, ge=1, le=10_000, description="of IFEval: most of these that follow")
