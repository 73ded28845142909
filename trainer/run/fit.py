"""The training loop: batch = f(seed, epoch, step), one loss, one AdamW step; the same code for one worker and for many.

    sampler -> view.read -> collate -> step_loss -> sum of the workers' gradients -> AdamW, to the last step
    (weights of some steps -> dev topics; all steps -> logs)
    -> the last step's weights or the best one's -> finish -> out/model

Promise: on CPU a run that was stopped and resumed ends with the very weights of one that was not, and N workers end
with those of one (to rounding). Price: without the gradient cache, the activations of a whole batch at once.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from datasets_out.training.training_view import TopicGroup, TrainingView
from trainer.data.collate import Batch, collate, made_pairs, plain, trim
from trainer.data.sampler import Sampler, share_of
from trainer.evaluation.validation import Validation
from trainer.loss.batch_loss import step as add_gradients
from trainer.loss.distributed import barrier, rank_and_workers, sum_gradients, sum_scalar
from trainer.model.checkpoint import State, load_state, save_state
from trainer.model.encoder import Encoder, starting_encoder
from trainer.model.published_model import Trained, fingerprint_of, read_trained
from trainer.run.logs import LogRow
from trainer.run.monitor import NOBODY, Callbacks, HandOver, Monitor
from trainer.run.publish import TrainingResult, finish
from trainer.settings import RetentionSettings, ScheduleSettings, TrainSettings
from trainer.text_templates import template_named


def train(
    settings: TrainSettings, view: TrainingView, out: Path, command: str = "", told: Callbacks = NOBODY
) -> Trained:
    """Trains (or resumes, or finds done) and publishes `out/model`. Every worker calls it; the first one writes.

    Raises UsageError if `out` holds another run, or if there are fewer topics than a batch takes.
    """
    fingerprint = fingerprint_of(settings, view.digest)
    if not (out / "model").exists():
        learnt = learn(settings, view, out, told)
        if rank_and_workers()[0] == 0:
            finish(learnt, settings, view, out, command)
    barrier()
    if rank_and_workers()[0] == 0:
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return read_trained(out, fingerprint)


def learn(
    settings: TrainSettings, view: TrainingView, out: Path, told: Callbacks = NOBODY, hand_over: HandOver | None = None
) -> TrainingResult:
    """All steps, and what is measured on the way; then all that is needed lies in `out/checkpoints`.

    Every worker calls it. With `hand_over` another process measures.
    """
    base, encoder = starting_encoder(settings, adapters=False), starting_encoder(settings)
    validation = validation_of(settings, view, out)
    watch = Monitor(validation, out / "logs", told, settings.checkpoint_steps, hand_over)
    losses = fit(encoder, base, settings, view, out / "checkpoints", on_step=watch.row, on_weights=watch.weights)
    return TrainingResult(encoder, base, losses, validation, watch)


def validation_of(settings: TrainSettings, view: TrainingView, out: Path) -> Validation:
    """The measurements of this run, beside its checkpoints; those of other settings or data are not seen."""
    return Validation(out / "checkpoints" / f"dev-{fingerprint_of(settings, view.digest)[:12]}", settings, view)


def fit(
    encoder: Encoder,
    base: Encoder,
    settings: TrainSettings,
    view: TrainingView,
    checkpoints: Path,
    *,
    on_step: Callable[[LogRow], None] = lambda _: None,
    on_weights: Callable[[int, Encoder], None] = lambda _step, _encoder: None,
) -> list[float]:
    """Trains `encoder` in place, from its newest checkpoint on; `base` stays as it is. The losses of all steps.

    `on_weights` is called where it begins or resumes, and like `on_step` after each step, before its checkpoint.
    """
    plan = settings.schedule.over(len(view.partitions("train")))
    freeze(encoder.train(), settings.retention)
    optimiser = make_optimiser(encoder, plan)
    state = load_state(checkpoints, fingerprint_of(settings, view.digest), encoder, optimiser)
    batches = Batches(view, settings)
    rank = rank_and_workers()[0]
    on_weights(state.step, encoder)
    for step in range(state.step, plan.steps):
        clock = _Clock(encoder)
        batch = batches.own(step)
        optimiser.zero_grad()
        loss = sum_scalar(add_gradients(encoder, base, batch, settings, seed=_seed(plan.seed, step, rank)))
        rate = learning_rate(step, plan)
        norm = optimise(encoder, optimiser, rate, plan.clip_norm)
        state = State(step + 1, state.fingerprint, [*state.losses, loss])
        speeds = clock.speeds(plan.topics_per_batch)
        on_step(LogRow(state.step, batches.epoch(step), loss, rate, norm, *speeds))
        on_weights(state.step, encoder)
        if rank == 0 and (state.step % settings.checkpoint_steps == 0 or state.step == plan.steps):
            save_state(checkpoints, state, encoder, optimiser)
    return state.losses


class _Clock:
    """The time of one step and what was done in it, over all workers."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._tokens, self._started = encoder, encoder.tokens, time.perf_counter()

    def speeds(self, topics: int) -> tuple[float, float, float]:
        """Seconds, topics a second, tokens a second."""
        tokens = sum_scalar(self._encoder.tokens - self._tokens)
        seconds = time.perf_counter() - self._started
        return seconds, topics / seconds, tokens / seconds


class Batches:
    """This worker's share of every step's batch: its topics, and what further topics bring of plain retrieval."""

    def __init__(self, view: TrainingView, settings: TrainSettings) -> None:
        plan, partition_of = settings.schedule, view.partitions("train")
        self._view, self._settings, self._plain = view, settings, settings.retention.plain_topics
        self._topics = Sampler(partition_of[: plan.topics], plan.topics_per_batch, plan.seed, plan.window_partitions)
        if self._plain:
            self._others = Sampler(partition_of, self._plain, _seed(plan.seed, 1), plan.window_partitions)

    def epoch(self, step: int) -> int:
        """The epoch of a step, from 0."""
        return step // self._topics.steps_per_epoch

    def own(self, step: int) -> Batch:
        """The batch of a step; where blocks reach beyond topics, those of all workers are read."""
        rank, workers = rank_and_workers()
        topics = self._topics.batch(step)
        own, known = self._whole(share_of(topics, rank, workers)), []
        if self._plain:
            others = self._others.batch(step)
            others = others[~np.isin(others, topics)]
            known = self._read(share_of(others, rank, workers))
            own += map(plain, known)
        everyone = own
        if self._settings.loss.instructions == "batch" and workers > 1:
            everyone = [*self._whole(topics), *(map(plain, self._read(others)) if self._plain else ())]
        made = made_pairs(own, everyone, self._settings.loss, step)
        return collate(own, template_named(self._settings.template), made, known)

    def _read(self, topics: NDArray[np.int64]) -> list[TopicGroup]:
        return self._view.read("train", topics.tolist())

    def _whole(self, topics: NDArray[np.int64]) -> list[TopicGroup]:
        own = self._settings
        return [trim(group, own.distractors, own.other_queries) for group in self._read(topics)]


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def freeze(model: nn.Module, keep: RetentionSettings) -> None:
    """Stops gradients of the embeddings and of the first layers, as the settings ask."""
    for name, parameter in model.named_parameters():
        layer = re.search(r"\.layers?\.(\d+)\.", name)
        if int(layer[1]) < keep.frozen_layers if layer else keep.frozen_embeddings and "embeddings." in name:
            parameter.requires_grad_(False)


def make_optimiser(model: nn.Module, plan: ScheduleSettings) -> torch.optim.AdamW:
    """AdamW over what is not frozen; weight decay on matrices only."""
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in learnt if p.ndim >= 2], "weight_decay": plan.weight_decay},
        {"params": [p for p in learnt if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, foreach=True)


def learning_rate(step: int, plan: ScheduleSettings) -> float:
    """The rate of step `step`, from 0: a linear rise over the warm-up, then the decay to zero at the end."""
    if step < plan.warmup_steps:
        return plan.learning_rate * (step + 1) / plan.warmup_steps
    done = (step - plan.warmup_steps) / max(1, plan.steps - plan.warmup_steps)
    return plan.learning_rate * (1 - done if plan.decay == "linear" else (1 + math.cos(math.pi * done)) / 2)


def optimise(model: nn.Module, optimiser: torch.optim.AdamW, rate: float, clip_norm: float) -> float:
    """One step down the gradient summed over all workers, and the norm that it had before it was cut."""
    sum_gradients(model.parameters())
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    return float(norm)
