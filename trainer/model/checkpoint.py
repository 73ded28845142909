"""What training writes: checkpoints to resume from, and the model. Safetensors and JSON only; nothing is unpickled.

    out/checkpoints/step-00000100/       weights, AdamW's moments, state.json, checksums.json; the last one stays
    out/checkpoints/dev-*/               measurements of some steps, and the weights of the best
    out/model/                           what SentenceTransformer(path) loads, foil.json, README.md

A directory is written next to its place, synced, and renamed into it, so one that bears its name is complete. Its
checksums tell whether it still is; a run whose newest checkpoint is damaged continues from the one before.
"""

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from foil.engine.atomic_files import publish_folder
from foil.engine.errors import CommitError, CorruptDataError, TrainingDivergedError, UsageError
from foil.engine.storage.trees import remove, upload
from foil.trainer.model.checksums import check_folder, write_checksums
from foil.trainer.model.published_model import what_changed

LOG = logging.getLogger(__name__)

KEPT_CHECKPOINTS = 2
"""Checkpoints that stay; older ones are removed once a newer one is complete."""


WEIGHTS, MOMENTS = "weights.safetensors", "moments.safetensors"


DIVERGED = (
    "none of it was saved. Lower `schedule.learning_rate` or raise `schedule.warmup_steps`; with bfloat16 try "
    "`encode.precision: float32`; remove the checkpoints of this run, or choose another `out`, and train again"
)
"""What a message says where training met NaN or infinity."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The progress of a run: `step` batches are done; `losses` has one number for each; what it is made of."""

    step: int
    fingerprint: str
    losses: list[float]
    made_of: Mapping[str, Any] = field(default_factory=dict)


def publish(folder: Path, write: Callable[[Path], None], *, over: bool = False) -> None:
    """Makes a folder of a run appear complete or not at all. The run has one writer: what a killed one left goes.
    `over`: one that is there goes when the new one is written.

    Raises CommitError where the storage fails.
    """
    try:
        for draft in folder.parent.glob(f".{folder.name}.*"):
            if draft.is_dir():  # what a killed `put_json` left of `step-00000000.json` is a file
                shutil.rmtree(draft)
            else:
                draft.unlink()
        publish_folder(folder, write, over=over)
        upload(folder, whole=True)
    except (OSError, SafetensorError) as error:
        raise CommitError(
            f"{folder} could not be written ({error}); see to the storage (space, quota, mount) and run again: "
            "training goes on from its newest checkpoint"
        ) from error


def save_state(folder: Path, state: TrainingState, model: nn.Module, optimiser: torch.optim.AdamW) -> None:
    """Publishes the checkpoint of this step, then removes all but the newest KEPT. A damaged one of this step or a
    later one, which `load_state` passed over, goes too."""
    moments = {
        f"{name}/{key}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }

    def write(draft: Path) -> None:
        save_file(_contiguous(model), draft / WEIGHTS)
        save_file(moments, draft / MOMENTS)
        (draft / "state.json").write_text(json.dumps(asdict(state)), encoding="utf-8")
        write_checksums(draft)

    place = folder / f"step-{state.step:08d}"
    for damaged in (path for path in folder.glob("step-*") if path >= place):
        remove(damaged)
    publish(place, write)
    keep_newest(folder, KEPT_CHECKPOINTS)


def keep_newest(folder: Path, count: int) -> None:
    """Removes all checkpoints but so many."""
    for old in sorted(folder.glob("step-*"))[:-count]:
        remove(old)


def load_state(
    folder: Path, fresh: TrainingState, model: nn.Module, optimiser: torch.optim.AdamW, shorter: str = ""
) -> TrainingState:
    """Puts the newest whole checkpoint into model and optimiser; where there is none, gives the fresh state.

    `shorter`: the fingerprint of a run of fewer steps that ended here, whose last checkpoint this one begins with.
    A damaged one is passed over with a warning. Raises UsageError if the checkpoint is of other settings or data, which
    it names, CorruptDataError if none is whole.
    """
    checkpoints = sorted(folder.glob("step-*"), reverse=True)
    for checkpoint in checkpoints:
        try:
            state, stored, moments = _read_checkpoint(checkpoint, fresh, model, shorter)
        except CorruptDataError as error:
            LOG.warning("the checkpoint %s is damaged and is passed over: %s", checkpoint, error)
            continue
        put_weights(model, stored)
        _put_moments(moments, model, optimiser)
        return replace(state, fingerprint=fresh.fingerprint, made_of=fresh.made_of)
    if checkpoints:
        names = ", ".join(path.name for path in checkpoints)
        raise CorruptDataError(
            f"no checkpoint in {folder} is whole ({names}); restore one from a copy, or remove {folder} to train from "
            "the first step"
        )
    return fresh


def _read_checkpoint(
    checkpoint: Path, fresh: TrainingState, model: nn.Module, shorter: str
) -> tuple[TrainingState, dict[str, Tensor], dict[str, Tensor]]:
    """A checkpoint that is whole; CorruptDataError if it is not, UsageError if it is of another run."""
    try:
        check_folder(checkpoint)
        state = TrainingState(**json.loads((checkpoint / "state.json").read_text(encoding="utf-8")))
        stored, moments = load_file(checkpoint / WEIGHTS), load_file(checkpoint / MOMENTS)
    except (OSError, ValueError, TypeError, RecursionError, SafetensorError) as error:
        raise CorruptDataError(f"it does not read: {error}") from error
    if state.fingerprint not in (fresh.fingerprint, shorter):
        changed = what_changed(state.made_of, fresh.made_of)
        raise UsageError(
            f"{checkpoint.parent} holds checkpoints of a training {changed}; remove it or choose another folder"
        )
    if not isinstance(state.losses, list) or state.step != len(state.losses):
        raise CorruptDataError("its state.json has not one loss for each step")
    shapes = {name: value.shape for name, value in weights(model).items()}
    moments_fit = all(value.ndim == 0 or shapes.get(_parameter(key)) == value.shape for key, value in moments.items())
    _check_shapes(stored, shapes)
    if not moments_fit or not {*map(_parameter, moments)} <= {*shapes}:
        raise CorruptDataError(f"its {MOMENTS} is of another model")
    return state, stored, moments


def _parameter(moment: str) -> str:
    return moment.rpartition("/")[0]


def _check_shapes(stored: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> None:
    if {name: value.shape for name, value in stored.items()} != shapes:
        raise CorruptDataError(f"its {WEIGHTS} is of another model")


def require_finite(model: nn.Module, place: str) -> None:
    """Raises TrainingDivergedError if a parameter holds NaN or infinity. Price: one pass over the weights."""
    if bad := non_finite(model):
        raise TrainingDivergedError(
            f"training diverged: {place}, {len(bad)} tensors hold NaN or infinity, the first is {bad[0]}; {DIVERGED}"
        )


def non_finite(model: nn.Module) -> list[str]:
    """The names of the parameters that hold NaN or infinity."""
    return [name for name, value in weights(model).items() if not value.isfinite().all()]


def _put_moments(moments: Mapping[str, Tensor], model: nn.Module, optimiser: torch.optim.AdamW) -> None:
    parameters = dict(model.named_parameters())
    for key, value in moments.items():
        name, _, moment = key.rpartition("/")
        device = parameters[name].device if value.ndim else value.device
        optimiser.state[parameters[name]][moment] = value.to(device)


def save_weights(model: nn.Module, folder: Path) -> None:
    """Writes the parameters of a model, and their checksum, into a draft."""
    save_file(_contiguous(model), folder / WEIGHTS)
    write_checksums(folder)


def load_weights(folder: Path, model: nn.Module) -> None:
    """Puts what `save_weights` wrote into a model; CorruptDataError if it is not whole."""
    try:
        check_folder(folder)
        stored = load_file(folder / WEIGHTS)
        _check_shapes(stored, {name: value.shape for name, value in weights(model).items()})
    except (CorruptDataError, OSError, SafetensorError) as error:
        raise CorruptDataError(
            f"the weights in {folder} are damaged ({error}); restore them from a copy, or remove "
            f"{folder.parent.parent} to train from the first step"
        ) from error
    put_weights(model, stored)


def _contiguous(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.contiguous() for name, value in weights(model).items()}


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
