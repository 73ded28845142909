"""What training writes: checkpoints to resume from, and the model. Safetensors and JSON only; nothing is unpickled.

    out/checkpoints/step-00000100/       weights, AdamW's moments, state.json
    out/checkpoints/dev-*/               measurements of some steps, and the weights of the best
    out/model/                           what SentenceTransformer(path) loads, foil.json, README.md

A directory is written beside its place, synced, and renamed into it, so one that bears its name is complete.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.atomic_files import publish_folder
from engine.errors import CorruptDataError, UsageError

KEPT_CHECKPOINTS = 2
"""Checkpoints that stay; older ones are removed once a newer one is complete."""


WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The progress of a run: `step` batches are done; `losses` has one number for each."""

    step: int
    fingerprint: str
    losses: list[float]


def publish(folder: Path, write: Callable[[Path], None]) -> None:
    """Makes a folder of a run appear complete or not at all. The run has one writer: what a killed one left goes."""
    for draft in folder.parent.glob(f".{folder.name}.*"):
        shutil.rmtree(draft)
    publish_folder(folder, write)


def save_state(folder: Path, state: TrainingState, model: nn.Module, optimiser: torch.optim.AdamW) -> None:
    """Publishes the checkpoint of this step, then removes all but the newest KEPT."""
    moments = {
        f"{name}/{key}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }

    def write(draft: Path) -> None:
        save_weights(model, draft)
        save_file(moments, draft / "moments.safetensors")
        facts = {"step": state.step, "fingerprint": state.fingerprint, "losses": state.losses}
        (draft / "state.json").write_text(json.dumps(facts), encoding="utf-8")

    publish(folder / f"step-{state.step:08d}", write)
    for old in sorted(folder.glob("step-*"))[:-KEPT_CHECKPOINTS]:
        shutil.rmtree(old)


def load_state(folder: Path, fingerprint: str, model: nn.Module, optimiser: torch.optim.AdamW) -> TrainingState:
    """Puts the newest checkpoint into model and optimiser; a fresh State where there is none.

    Raises UsageError if the checkpoint is of other settings or data, CorruptDataError if it does not read.
    """
    newest = max(folder.glob("step-*"), default=None)
    if newest is None:
        return TrainingState(0, fingerprint, [])
    try:
        state = TrainingState(**json.loads((newest / "state.json").read_text(encoding="utf-8")))
        stored = load_file(newest / WEIGHTS)
        moments = load_file(newest / "moments.safetensors")
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise CorruptDataError(f"checkpoint {newest} does not read ({error}); remove that directory") from error
    if state.fingerprint != fingerprint:
        raise UsageError(f"{folder} holds checkpoints of other settings or data; remove it or choose another folder")
    put_weights(model, stored)
    parameters = dict(model.named_parameters())
    for key, value in moments.items():
        name, _, moment = key.rpartition("/")
        device = parameters[name].device if value.ndim else value.device
        optimiser.state[parameters[name]][moment] = value.to(device)
    return state


def save_weights(model: nn.Module, folder: Path) -> None:
    """Writes the parameters of a model into an existing folder."""
    save_file({name: value.contiguous() for name, value in weights(model).items()}, folder / WEIGHTS)


def load_weights(folder: Path, model: nn.Module) -> None:
    """Puts what `save_weights` wrote into a model; CorruptDataError if it does not read."""
    try:
        stored = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise CorruptDataError(f"{folder / WEIGHTS} does not read ({error}); remove {folder}") from error
    put_weights(model, stored)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, detached; they share memory with the model."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@torch.no_grad()
def put_weights(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copies values into the parameters of these names."""
    for name, parameter in model.named_parameters():
        parameter.copy_(values[name])


def blend_weights(base: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Weights on the straight line between two models: 0 is the base, 1 the trained one (WiSE-FT)."""
    return {name: torch.lerp(base[name], trained[name], share) for name in base}
