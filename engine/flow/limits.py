"""How far a run goes, and where it runs: the job file's `limits` and `runtime`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from foil.engine.settings import Settings


class BudgetSettings(Settings):
    """What a run may spend in all, over every resume. An amount is reserved before its request is sent."""

    calls: int | None = Field(None, ge=1, le=10**12, description="requests that models answer")
    tokens: int | None = Field(None, ge=1, le=10**15, description="prompt and completion tokens together")
    usd: float | None = Field(None, gt=0, le=1e9, description="US dollars")


class BreakerSettings(Settings):
    """When a run stops by itself with exit code 13, because what goes on would only cost. They decide no row."""

    share: float = Field(
        0.5, gt=0, le=1, description="stop when more than this share of the last seeds failed; 1 never stops"
    )
    last: int = Field(500, ge=1, le=10**6, description="the last seeds that `share` is taken of")
    at_least: int = Field(100, ge=1, le=10**6, description="seeds that must have ended before `share` counts")
    usd_per_hour: float | None = Field(
        None, gt=0, le=1e9, description="US dollars that a session may spend within any hour; no limit if absent"
    )
    accepted_share: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="stop when surely (99.9 %) less than this share of the last seeds that asked a model was accepted; "
        "0 never stops",
    )
    accepted_tokens: int | None = Field(
        None,
        ge=1,
        le=10**12,
        description="tokens that an accepted topic may take, over the last seeds that asked; no limit if absent",
    )

    @model_validator(mode="after")
    def _counts_within_the_last(self) -> Self:
        if self.at_least > self.last:
            raise ValueError("`at_least` must not exceed `last`; lower it")
        return self


class Limits(Settings):
    """How many seeds a run takes, how it cuts them, and when it stops."""

    seeds: int | None = Field(
        None, ge=1, le=10**9, description="take this many seeds of the corpus; all of them if absent"
    )
    partition_seeds: int = Field(
        256, ge=1, le=100_000, description="seeds in a partition, the unit of commit and of resume"
    )
    accept: int | None = Field(
        None, ge=1, le=10**9, description="stop after the partition that brings the accepted topics here"
    )
    budget: BudgetSettings = Field(BudgetSettings(), description="what the run may spend; without limit if absent")
    breakers: BreakerSettings = Field(BreakerSettings(), description="when the run stops by itself")


class ReplySettings(Settings):
    """What is done about a reply that cannot be read, or that a check of the recipe refuses."""

    corrections: int = Field(
        2, ge=0, le=8, description="further turns in which the model reads what is wrong and answers anew"
    )
    candidates: int = Field(
        3, ge=0, le=64, description="answers then drawn anew, by one request if the endpoint can; the first that passes"
    )


class WorkerRange(Settings):
    """As many workers as find room, up to `max`; an autoscaler of the cluster is asked to hold room for `min`."""

    min: int = Field(ge=1, le=10_000, description="workers for which an autoscaler holds room")
    max: int = Field(ge=1, le=10_000, description="workers that are started where there is room")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"`min: {self.min}` is more than `max: {self.max}`; set `min` to at most `max`")
        return self


class RuntimeSettings(Settings):
    """Where the flow runs. `local` with no workers runs in this process, which cannot outlive a crashing validator."""

    kind: Literal["local", "ray"] = Field("local", description="processes of this machine, or actors of a Ray cluster")
    window: int = Field(16, ge=1, le=100_000, description="seeds in flight in each worker")
    workers: Annotated[int, Field(ge=0, le=10_000)] | WorkerRange = Field(
        0, description="worker processes, or {min: M, max: N}; 0 runs in this process"
    )
    start_timeout_s: float = Field(
        600.0,
        gt=0,
        le=86_400,
        description="seconds that a worker may take to be placed and to build its parts; then it is asked for again",
    )
    readers: int = Field(
        1, ge=1, le=256, description="processes that make seeds of the rows of a corpus; other corpora are read by one"
    )
    seeds_ahead_mb: int = Field(
        64,
        ge=1,
        le=65_536,
        description="MiB of seeds that are read ahead of worker processes and lie in `out/spool` for them",
    )
    stall_s: float = Field(
        120.0,
        gt=0,
        le=86_400,
        description="seconds without a reply or commit after which the progress says what the run waits for",
    )
    seed_timeout_s: float = Field(
        600.0, gt=0, le=604_800, description="seconds that one seed may take, waits for models aside; then it fails"
    )
    drain_s: float = Field(
        8.0, ge=0, le=86_400, description="seconds that seeds in flight may still take after SIGINT, SIGTERM or SIGHUP"
    )
    worker_gpus: float = Field(
        0.0,
        ge=0,
        le=1_024,
        description="GPUs that a Ray worker claims; for local_vllm its tensor x pipeline parallel size",
    )
    worker_memory_mb: int = Field(
        0, ge=0, le=2**24, description="MiB of address space a worker may add to what its parts hold; 0 sets no limit"
    )
    metrics_port: int = Field(
        0, ge=0, le=65_535, description="port where a local run serves metrics to Prometheus; 0 serves none"
    )
    metrics_host: str = Field(
        "127.0.0.1", description="address that metrics are served at; 0.0.0.0 shows them to the network"
    )
    log_format: Literal["text", "json"] = Field("text", description="what the lines on stderr are")
    ray_address: str = Field(
        "", description="a running cluster; else RAY_ADDRESS, else a Ray of our own on this machine"
    )

    @property
    def most_workers(self) -> int:
        """The worker processes that are wanted where there is room; 0 runs in this process."""
        return self.workers if isinstance(self.workers, int) else self.workers.max

    @property
    def least_workers(self) -> int:
        """The worker processes below which the progress says that more are waited for."""
        return self.workers if isinstance(self.workers, int) else self.workers.min

    @model_validator(mode="after")
    def _ray_has_workers(self) -> Self:
        if self.kind == "ray" and self.workers == 0:
            raise ValueError("kind: ray needs `workers` of at least 1; set it to the number of actors wanted")
        return self
