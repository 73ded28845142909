"""Every choice of a training run and of an evaluation. Nothing heavy is imported, so a job file is checked at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from foil.datasets_out.training.sources import SourceSettings
from foil.datasets_out.training.training_view import CACHED_PARTITIONS, SplitSettings
from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.model_settings import (
    EMBEDDERS_ALONE,
    ONE_VECTOR_ALONE,
    ModelSettings,
    RerankerSettings,
    changed_among,
)
from foil.trainer.presets import PRESETS, Preset, merge_settings

Block = Literal["P", "I", "IQ", "Q"]
Instructions = Literal["given", "none", "repeat", "generic", "swap"]
Measure = Literal["both_views", "net", "should_fall", "instructed_ndcg", "outside"]
TeacherLoss = Literal["kl", "margin_mse"]
Reporter = Literal["tensorboard", "wandb"]
Share = Annotated[float, Field(ge=0, le=1)]

MAX_STEPS = 10**9
"""Of a run, in steps or in epochs."""


class EncodeSettings(Settings):
    """How texts are cut and computed."""

    max_tokens: int = Field(
        128,
        ge=2,
        le=10**6,
        description="longer texts lose their end; a query with an instruction, the end of the query",
    )
    query_tokens: int | None = Field(
        None, ge=2, le=10**6, description="the same for queries with instructions; none = max_tokens"
    )
    shared_prefix: bool = Field(
        True, description="a causal decoder that takes the last token computes what pairs share at their start once"
    )
    micro_batch_tokens: int | None = Field(
        None, ge=1, le=10**9, description="padded tokens that go through the model at once; none = as suits the device"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of the forward pass; auto = bfloat16 where the device has it; vectors are float32"
    )


class TeacherSettings(Settings):
    """Whose scores an embedder learns too, a trained reranker's or a judge's; see `trainer.train.loss.teacher`."""

    model: Path | None = Field(None, description="a reranker that Foil trained, OUT/model of its job")
    judge: Literal["judge_demands"] | None = Field(
        None, description="in its place: P(relevant) as this validator wrote it into the runs of `data`"
    )
    loss: TeacherLoss = Field("kl", description="of whole lists, or of differences of scores")
    weight: float = Field(1.0, gt=0, le=1e6, description="of this loss, against 1 for the contrastive one")

    @model_validator(mode="after")
    def _one_teaches(self) -> TeacherSettings:
        if (self.model is None) is (self.judge is None):
            raise ValueError("a teacher is a `model`, a reranker that Foil trained, or a `judge`: name one of the two")
        return self


class LossSettings(Settings):
    """What an anchor is contrasted with, and how; see `trainer.train.loss.losses`."""

    blocks: tuple[Block, ...] = Field(("P", "I"), min_length=1, description="what varies: passages, ...")
    combine: Literal["multivariate", "sum"] = Field("multivariate", description="one denominator, or one a block")
    positive_counted: Literal["once", "each_block"] = Field("once", description="in the multivariate denominator")
    duplicates: Literal["masked", "kept"] = Field(
        "masked", description="kept: one column a row, equal or relevant ones too, as the equations are printed"
    )
    instructions: Literal["topic", "batch"] = Field(
        "topic", description="instructions that block I (queries that block Q) puts to a query: its topic's or all"
    )
    instruction_samples: int | None = Field(None, ge=1, le=10**6, description="of those of the batch, so many a query")
    temperature: float = Field(0.05, gt=0, le=1_000, description="cosines are divided by it")
    teacher: TeacherSettings | None = Field(
        None,
        description="whose scores are learnt in addition: `{model: OUT/model}`, a reranker's, or `judge`, short for "
        "`{judge: judge_demands}`",
    )

    @field_validator("teacher", mode="before")
    @classmethod
    def _judge_for_short(cls, value: Any) -> Any:
        return {"judge": "judge_demands"} if value == "judge" else value

    @model_validator(mode="after")
    def _literal_blocks_need_all_pairs(self) -> LossSettings:
        literal = self.duplicates == "kept" and {"I", "Q"} & set(self.blocks)
        if literal and (self.instructions == "topic" or self.instruction_samples):
            raise ValueError(
                "duplicates: kept puts every instruction of the batch to every query; set instructions: batch"
            )
        return self


class ScheduleSettings(Settings):
    """AdamW and its learning rate over the steps."""

    steps: int = Field(60, ge=1, le=10**9, description="batches in all")
    epochs: int | None = Field(None, ge=1, le=10**6, description="in place of steps: passes over the topics")
    topics: int | None = Field(None, ge=1, le=10**9, description="train on the first so many topics; all if absent")
    topics_per_batch: int = Field(24, ge=1, le=10**6, description="over all workers")
    learning_rate: float = Field(1e-4, gt=0, le=100, description="at its peak")
    warmup_steps: int = Field(6, ge=0, le=10**9, description="linear rise from zero")
    decay: Literal["cosine", "linear"] = Field("cosine", description="fall to zero at the last step")
    weight_decay: float = Field(0.01, ge=0, le=1_000, description="AdamW's, on matrices only")
    clip_norm: float = Field(1.0, gt=0, le=1e9, description="norm to which gradients are cut")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="of the order of topics")
    window_partitions: int = Field(32, ge=1, le=CACHED_PARTITIONS, description="partitions shuffled together")

    def with_steps_for(self, topic_count: int) -> ScheduleSettings:
        """The same schedule with its epochs over `topic_count` topics turned into steps."""
        if self.epochs is None:
            return self
        used = min(topic_count, self.topics or topic_count)
        steps = max(1, self.epochs * (used // self.topics_per_batch))
        if steps > MAX_STEPS:
            raise UsageError(f"{self.epochs} epochs are {steps:,} steps, of at most {MAX_STEPS:,}; lower `epochs`")
        return self.model_copy(update={"steps": steps, "epochs": None})


class RetentionSettings(Settings):
    """How the base model's abilities are kept while instructions are learnt."""

    plain_weight: float = Field(1.0, ge=0, le=1e6, description="weight of anchors without an instruction, against 1")
    plain_topics: int = Field(
        0,
        ge=0,
        le=10**6,
        description="further topics a batch, of all, that bring their bare query and a passage",
    )
    pull_queries: float = Field(0.0, ge=0, le=1e6, description="weight of 1 - cos(now, base) over bare queries")
    pull_passages: float = Field(0.0, ge=0, le=1e6, description="weight of 1 - cos(now, base) over passages")
    frozen_layers: int = Field(0, ge=0, le=10_000, description="transformer layers, from the input up, that stay")
    frozen_embeddings: bool = Field(True, description="token, position and type embeddings stay")
    blends: tuple[Share, ...] = Field((1.0,), min_length=1, description="shares of trained weights to try on dev")
    plain_loss_allowed: float = Field(
        1.0,
        ge=0,
        le=100,
        description="points of dev plain nDCG, and of `outside`, that a blend or the best step may lose",
    )
    drawn_shares: tuple[Share, ...] = Field(
        (0.25, 0.5, 0.75), description="shares that are measured for the drawing alone, where `blends` is one"
    )


class ValidationSettings(Settings):
    """What is measured on dev topics while a run goes on, and which step's weights it gives."""

    steps: int = Field(0, ge=0, le=10**9, description="steps between two measurements; 0 = only the first and the last")
    topics: int = Field(200, ge=0, le=10**9, description="dev topics at most, spread evenly; 0 = nothing is measured")
    keep: Literal["last", "best"] = Field("last", description="of which step the weights are published")
    measure: Measure = Field(
        "both_views", description="the best step, and blend, has most of it, within `plain_loss_allowed`"
    )
    benchmarks: tuple[BenchmarkSource, ...] = Field(
        (), description="tasks of others that are measured too; `outside` is the mean of the first measure of each"
    )

    @model_validator(mode="after")
    def _best_is_measured(self) -> ValidationSettings:
        if self.keep == "best" and not (self.topics or self.benchmarks):
            raise ValueError("keep: best chooses on dev topics; give `topics` above 0")
        if self.measure == "outside" and not self.benchmarks:
            raise ValueError("measure: outside is of `benchmarks`; give one, or another measure")
        return self


class TrainSettings(Settings):
    """One training run; a preset gives the defaults."""

    preset: Preset | None = Field(None, description="a published system's choices; see docs/trainers.md")
    base: Path | str | None = Field(
        None, description="directory or hub name of the model to start from; none = packaged MiniLM"
    )
    model: ModelSettings = ModelSettings()
    reranker: RerankerSettings | None = Field(
        None,
        description="train a cross-encoder, `{}` with its defaults: `loss` (softmax, ranknet or margin), `margin` and "
        "`other_passages` (docs/trainers.md); none = an embedder",
    )
    template: str = Field("query_instruction", description="how instruction and query are joined (docs/trainers.md)")
    data: tuple[SourceSettings, ...] = Field(
        (), description="runs to train on, mixed in every batch; none = the job's own `out`, all of it"
    )
    mix_temperature: float = Field(
        1.0,
        ge=1,
        le=1e9,
        description="runs without a `weight` take part by their number of topics to the power of 1 over this",
    )
    split: SplitSettings = SplitSettings()
    protect: tuple[SourceSettings, ...] = Field(
        (), description="runs that give no topics, and whose held-out and dev texts are not trained on either"
    )
    encode: EncodeSettings = EncodeSettings()
    loss: LossSettings = LossSettings()
    distractors: int = Field(
        1, ge=0, le=1_000, description="passages of a topic that none of its intents wants, at most"
    )
    other_queries: bool = Field(False, description="also train on a topic's poisoned queries")
    instructions: Instructions = Field(
        "given",
        description="what stands in their place: `none`, `repeat`, `generic` or `swap`, Promptriever's controls; all "
        "but `given` leave the instruction negatives out",
    )
    instruction_negatives: bool = Field(
        True, description="keep passages that the bare query wants and no instruction of the topic does"
    )
    bare_queries: bool = Field(True, description="also train on the bare query of a topic with instructions")
    schedule: ScheduleSettings = ScheduleSettings()
    retention: RetentionSettings = RetentionSettings()
    validation: ValidationSettings = ValidationSettings()
    gradient_cache: bool = Field(False, description="memory of one micro-batch for one more forward pass")
    checkpoint_steps: int = Field(100, ge=1, le=10**9, description="steps between two checkpoints")
    workers: int = Field(
        0,
        ge=0,
        le=1_024,
        description="Ray Train workers, 0 = in this process; of a GPU each where Ray has as many, or by `model.device`",
    )
    max_failures: int = Field(2, ge=-1, le=10**6, description="restarts of the Ray workers; -1 = no end of them")
    report_to: tuple[Reporter, ...] = Field(
        ("tensorboard",), description="gets steps and measurements, besides the CSV files; wandb must be installed"
    )

    @model_validator(mode="after")
    def _weights_are_all_or_none(self) -> TrainSettings:
        weighted = [source.weight is not None for source in self.data]
        if any(weighted) and not all(weighted):
            raise ValueError("give every entry of `data` a `weight`, or none of them")
        return self

    @model_validator(mode="after")
    def _reranker_has_no_vectors(self) -> TrainSettings:
        if self.reranker and (keys := changed_among(self, EMBEDDERS_ALONE)):
            raise ValueError(
                f"a reranker has no vectors and trains in one process, so it has no use for {', '.join(keys)}; leave "
                "them out, or leave out `reranker`"
            )
        return self

    @model_validator(mode="after")
    def _tokens_have_no_single_vector(self) -> TrainSettings:
        if self.model.late_interaction and (keys := changed_among(self, ONE_VECTOR_ALONE)):
            raise ValueError(
                f"with model.late_interaction one encoder compares tokens, in one process, so there is no use for "
                f"{', '.join(keys)}; leave them out"
            )
        return self

    @model_validator(mode="after")
    def _teacher_teaches_one_process(self) -> TrainSettings:
        if self.loss.teacher and self.workers:
            raise ValueError("loss.teacher scores the batches of one process; leave out `workers`")
        if self.loss.teacher and self.loss.teacher.judge and self.instructions != "given":
            raise ValueError(
                f"a judge scored passages under the instructions given, and instructions is {self.instructions!r}; "
                "leave out one of the two"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        preset = values.get("preset") if isinstance(values, dict) else None
        if not isinstance(preset, str) or preset not in PRESETS:
            return values
        return merge_settings(values, PRESETS[preset])


TOPIC_MEASURES = ("both_views", "should_fall", "should_stay", "net", "plain_ndcg", "plain_rr", "instructed_ndcg")
"""What a run's own topics are measured by."""
_GONE = {
    "cutoff": "write it behind names in `evaluate.measures`, such as plain_ndcg@20",
    "rerank": "name the lists as a benchmark, `foil evaluate MODEL --on FILE.yaml` with `kind: rank_llm` in the file",
}


class EvaluateSettings(Settings):
    """What is measured, and how finely."""

    encode: EncodeSettings = EncodeSettings(max_tokens=256)
    measures: tuple[str, ...] = Field(
        TOPIC_MEASURES, min_length=1, description="of topics; with a cutoff as in plain_ndcg@20"
    )
    resamples: int = Field(2000, ge=100, le=10**6, description="of the paired bootstrap")

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_gone(cls, values: Any) -> Any:
        for name in _GONE if isinstance(values, dict) else ():
            if name in values:
                raise ValueError(f"`{name}` is no setting any more: {_GONE[name]}")
        return values
