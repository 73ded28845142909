"""The training loop: batch = f(seed, epoch, step), one loss, one AdamW step; the same code for one worker and for many.

    sampler -> view.read -> collate -> add_gradients -> sum of the workers' gradients -> AdamW, to the last step
    (weights of some steps -> dev topics; all steps -> logs)
    -> the last step's weights or the best one's -> publish_result -> out/model

Promise: on CPU a resumed run ends with exactly the weights of an uninterrupted one, and N workers end with those of one
(to rounding). A run that ended goes on to more steps from its last checkpoint, with AdamW's moments. From there the
learning rate is that of the new number of steps, so its weights are not those of a run of so many from the start.
Price: without the gradient cache, the activations of a whole batch are held at once.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from foil.datasets_out.training.training_view import TopicGroup, TrainingView
from foil.engine.errors import TrainingDivergedError
from foil.trainer.model.checkpoint import DIVERGED, TrainingState, keep_newest, load_state, require_finite, save_state
from foil.trainer.model.encoder import Encoder, MicroBatch, load_starting_encoder
from foil.trainer.model.pair_scorer import PairScorer
from foil.trainer.model.published_model import (
    PublishedModel,
    fingerprint_of,
    is_trained,
    made_of,
    measurements_of,
    read_published_model,
    shorter_run,
)
from foil.trainer.settings import RetentionSettings, ScheduleSettings, TrainSettings
from foil.trainer.text_templates import TextForms
from foil.trainer.train.data.collate import Batch, collate, make_contrast_pairs, reduce_to_plain, trim_group
from foil.trainer.train.data.instructions import control
from foil.trainer.train.data.sampler import Sampler, mixture, share_of
from foil.trainer.train.loss.batch_loss import BatchLoss, GradientStep, add_gradients
from foil.trainer.train.loss.distributed import barrier, rank_and_workers, sum_gradients, sum_scalar, sum_scalars
from foil.trainer.train.loss.teacher import Teacher
from foil.trainer.train.run.logs import LogRow, logs_of
from foil.trainer.train.run.monitor import NO_CALLBACKS, Callbacks, Monitor, ValidationDelegate
from foil.trainer.train.run.publish import TrainingResult, publish_result
from foil.trainer.train.run.validation import Validation


def train(
    settings: TrainSettings, view: TrainingView, out: Path, command: str = "", callbacks: Callbacks = NO_CALLBACKS
) -> PublishedModel:
    """Trains (or resumes, or finds done) and publishes `out/model`. Every worker calls it; the first one writes.

    Raises UsageError if `out` holds another run, or if there are fewer topics than a batch takes.
    """
    if not is_trained(out, settings, view.digest):
        result = fit_and_validate(settings, view, out, callbacks)
        if rank_and_workers()[0] == 0:
            publish_result(result, settings, view, out, command)
    barrier()
    if rank_and_workers()[0] == 0:
        keep_newest(out / "checkpoints", 1)
    return read_published_model(out, settings, view.digest)


def fit_and_validate(
    settings: TrainSettings,
    view: TrainingView,
    out: Path,
    callbacks: Callbacks = NO_CALLBACKS,
    delegate: ValidationDelegate | None = None,
) -> TrainingResult:
    """All steps with their measurements; all that publishing needs is then in `out/checkpoints`.

    Every worker calls it. With `delegate` another process measures.
    """
    base, encoder = load_starting_encoder(settings, adapters=False), load_starting_encoder(settings)
    validation = open_validation(settings, view, out)
    monitor = Monitor(validation, logs_of(settings, out), callbacks, settings.checkpoint_steps, delegate)
    checkpoints = out / "checkpoints"
    losses = fit(encoder, base, settings, view, checkpoints, hooks=Hooks(monitor.on_step, monitor.on_weights))
    return TrainingResult(encoder, base, losses, validation, monitor)


def open_validation(settings: TrainSettings, view: TrainingView, out: Path) -> Validation:
    """The measurements of this run, next to its checkpoints; those of other settings or data are ignored."""
    return Validation(measurements_of(out, settings, view.digest), settings, view)


@dataclass(frozen=True, slots=True)
class Hooks:
    """Both are called after each step, before its checkpoint; `on_weights` also at the start or resume."""

    on_step: Callable[[LogRow], None] = lambda _: None
    on_weights: Callable[[int, Encoder | PairScorer], None] = lambda _step, _model: None


NO_HOOKS = Hooks()


def fit(
    encoder: Encoder,
    base: Encoder,
    settings: TrainSettings,
    view: TrainingView,
    checkpoints: Path,
    *,
    hooks: Hooks = NO_HOOKS,
) -> list[float]:
    """Trains `encoder` in place, from its newest checkpoint on; returns the losses of all steps.

    Raises TrainingDivergedError, in every worker, at the first loss, gradient or saved weight that is not finite.
    """
    return run_steps(_Embedder(encoder, base, settings, view), settings, view, checkpoints, hooks)


class Learner(Protocol):
    """What the loop trains."""

    @property
    def model(self) -> Encoder | PairScorer:
        """Its weights."""

    @property
    def batches(self) -> BatchReader:
        """Its topics."""

    def add_gradients(self, step: int, seed: int) -> BatchLoss:
        """Adds the gradient of this worker's part of a step's loss to the parameters; returns that part."""


class _Input(NamedTuple):
    """What a step is made of, and the tokens of its texts."""

    batch: Batch
    micro_batches: list[MicroBatch]
    tokens: int


class _Embedder:
    """An encoder, and the base that its regulariser pulls it to. A batch is read while the one before it computes."""

    def __init__(self, model: Encoder, base: Encoder, settings: TrainSettings, view: TrainingView) -> None:
        self.model, self.base, self.batches = model, base, BatchReader(view, settings, model.texts)
        self._settings = settings
        self._teacher = Teacher(settings, view) if settings.loss.teacher else None
        self._steps = settings.schedule.with_steps_for(len(view.partitions("train"))).steps
        self._ahead: dict[int, _Input] = {}

    def add_gradients(self, step: int, seed: int) -> BatchLoss:
        batch, micro_batches, tokens = self._ahead.pop(step) if step in self._ahead else self._read(step)
        self.model.tokens += tokens
        taught = self._teacher.lists(batch) if self._teacher else ()
        how = GradientStep(seed, micro_batches, partial(self._read_ahead, step + 1), taught)
        return add_gradients(self.model, self.base, batch, self._settings, how)

    def _read_ahead(self, step: int) -> None:
        if step < self._steps:
            self._ahead[step] = self._read(step)

    def _read(self, step: int) -> _Input:
        """The input of a step, whose tokens count when it is used."""
        before = self.model.tokens
        batch = self.batches.read(step)
        micro_batches = self.model.micro_batches(batch.passages, batch.pairs)
        tokens, self.model.tokens = self.model.tokens - before, before
        return _Input(batch, micro_batches, tokens)


def run_steps(
    learner: Learner, settings: TrainSettings, view: TrainingView, checkpoints: Path, hooks: Hooks
) -> list[float]:
    """`fit` for any learner."""
    schedule, model = settings.schedule.with_steps_for(len(view.partitions("train"))), learner.model
    freeze(model.train(), settings.retention)
    optimiser = make_optimiser(model, schedule)
    fresh = TrainingState(0, fingerprint_of(settings, view.digest), [], made_of(settings, view.digest))
    shorter = shorter_run(checkpoints.parent, settings, view.digest)
    state = load_state(checkpoints, fresh, model, optimiser, shorter)
    rank = rank_and_workers()[0]
    hooks.on_weights(state.step, model)
    for step in range(state.step, schedule.steps):
        timer = _StepTimer(model)
        optimiser.zero_grad()
        loss, equal_scores_loss = sum_scalars(learner.add_gradients(step, _seed(schedule.seed, step, rank)))
        _require_finite("the loss", loss, step)
        rate = learning_rate(step, schedule)
        gradient_norm = optimise(model, optimiser, rate, schedule.clip_norm)
        _require_finite("the norm of the gradient", gradient_norm, step)
        is_saved = (step + 1) % settings.checkpoint_steps == 0 or step + 1 == schedule.steps
        if is_saved:
            require_finite(model, f"after step {step + 1}")
        state = replace(state, step=step + 1, losses=[*state.losses, loss])
        speeds, epoch = timer.speeds(schedule.topics_per_batch), learner.batches.epoch(step)
        hooks.on_step(LogRow(state.step, epoch, loss, rate, gradient_norm, *speeds, equal_scores_loss))
        hooks.on_weights(state.step, model)
        if is_saved and rank == 0:
            save_state(checkpoints, state, model, optimiser)
    return state.losses


def _require_finite(name: str, value: float, step: int) -> None:
    """The same value at every worker, so all of them stop together."""
    if not math.isfinite(value):
        raise TrainingDivergedError(f"training diverged: {name} of step {step + 1} is {value}; {DIVERGED}")


class _StepTimer:
    """The time of one step and what was done in it, over all workers."""

    def __init__(self, model: Encoder | PairScorer) -> None:
        self._model, self._tokens, self._started = model, model.tokens, time.perf_counter()

    def speeds(self, topics: int) -> tuple[float, float, float]:
        """Seconds, topics a second, tokens a second."""
        tokens = sum_scalar(self._model.tokens - self._tokens)
        seconds = time.perf_counter() - self._started
        return seconds, topics / seconds, tokens / seconds


class BatchReader:
    """This worker's share of every step's batch: its topics, and the bare queries of further topics."""

    def __init__(self, view: TrainingView, settings: TrainSettings, forms: TextForms) -> None:
        schedule, partition_of, sources = settings.schedule, view.partitions("train"), view.members("train")
        seed, window = schedule.seed, schedule.window_partitions
        shares = mixture([source.weight for source in view.sources], list(map(len, sources)), settings.mix_temperature)
        first = [topics[: _part(schedule.topics, len(topics), len(partition_of))] for topics in sources]
        self._forms = forms
        self._view, self._settings, self._plain_topics = view, settings, settings.retention.plain_topics
        self._sampler = Sampler(partition_of, schedule.topics_per_batch, seed, window, sources=first, shares=shares)
        if self._plain_topics:
            self._plain_sampler = Sampler(
                partition_of, self._plain_topics, _seed(seed, 1), window, sources=sources, shares=shares
            )

    def epoch(self, step: int) -> int:
        """The epoch of a step, from 0."""
        return step // self._sampler.steps_per_epoch

    def read(self, step: int) -> Batch:
        """The batch of a step; if instructions of other topics are contrasted, the topics of all workers are read."""
        topics, plain_topics = self._topics(step)
        own, plain_groups = self._own(topics, plain_topics)
        all_groups = own
        if self._settings.loss.instructions == "batch" and rank_and_workers()[1] > 1:
            all_groups = [*self._read_trimmed(topics), *map(reduce_to_plain, self._read(plain_topics))]
        contrast_pairs = make_contrast_pairs(own, all_groups, self._settings.loss, step)
        return collate(own, self._forms, contrast_pairs, plain_groups)

    def groups(self, step: int) -> list[TopicGroup]:
        """This worker's topics of a step, trimmed, the plain ones last."""
        return self._own(*self._topics(step))[0]

    def _own(
        self, topics: NDArray[np.int64], plain_topics: NDArray[np.int64]
    ) -> tuple[list[TopicGroup], list[TopicGroup]]:
        """This worker's part, as `groups` has it, and its plain topics as they were."""
        rank, workers = rank_and_workers()
        own = self._read_trimmed(topics, rank, workers)
        plain_groups = self._read(share_of(plain_topics, rank, workers))
        return [*own, *map(reduce_to_plain, plain_groups)], plain_groups

    def _topics(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The topics of a step, and those of which it takes the bare query alone."""
        topics = self._sampler.batch(step)
        if not self._plain_topics:
            return topics, topics[:0]
        plain_topics = self._plain_sampler.batch(step)
        return topics, plain_topics[~np.isin(plain_topics, topics)]

    def _read(self, topics: NDArray[np.int64]) -> list[TopicGroup]:
        return self._view.read("train", topics.tolist())

    def _read_trimmed(self, topics: NDArray[np.int64], rank: int = 0, workers: int = 1) -> list[TopicGroup]:
        """This worker's share of these topics; a swap of instructions reads them all, so that workers agree on it."""
        settings, share = self._settings, share_of(topics, rank, workers)
        read = self._read(topics if settings.instructions == "swap" else share)
        groups = control(read, settings.instructions, settings.instruction_negatives)
        if len(groups) != len(share):
            groups = [groups[place] for place in share_of(np.arange(len(groups)), rank, workers)]
        return [
            trim_group(group, settings.distractors, settings.other_queries, settings.bare_queries) for group in groups
        ]


def _part(topics: int | None, of_source: int, of_all: int) -> int:
    """How many of a source's topics are among the first `topics` of all, when each source gives its part."""
    return of_source if topics is None else -(-topics * of_source // of_all)


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def freeze(model: nn.Module, retention: RetentionSettings) -> None:
    """Stops gradients of the embeddings and of the first layers, as the settings ask."""
    for name, parameter in model.named_parameters():
        layer = re.search(r"\.layers?\.(\d+)\.", name)
        if int(layer[1]) < retention.frozen_layers if layer else retention.frozen_embeddings and "embeddings." in name:
            parameter.requires_grad_(False)


def make_optimiser(model: nn.Module, schedule: ScheduleSettings) -> torch.optim.AdamW:
    """AdamW over what is not frozen; weight decay on matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": schedule.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, foreach=True)


def learning_rate(step: int, schedule: ScheduleSettings) -> float:
    """The rate of step `step`, from 0: a linear rise over the warm-up, then the decay to zero at the end."""
    if step < schedule.warmup_steps:
        return schedule.learning_rate * (step + 1) / schedule.warmup_steps
    share_done = (step - schedule.warmup_steps) / max(1, schedule.steps - schedule.warmup_steps)
    return schedule.learning_rate * (
        1 - share_done if schedule.decay == "linear" else (1 + math.cos(math.pi * share_done)) / 2
    )


def optimise(model: nn.Module, optimiser: torch.optim.AdamW, rate: float, clip_norm: float) -> float:
    """One step down the gradient summed over all workers, and the norm that it had before it was cut.

    No step is made where that norm is not finite.
    """
    sum_gradients(model.parameters())
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    for group in optimiser.param_groups:
        group["lr"] = rate
    length = float(norm)
    if math.isfinite(length):
        optimiser.step()
    return length
