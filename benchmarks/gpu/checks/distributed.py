"""Training on two GPUs against one: vectors and gradients over NCCL, with the losses and weights of one process.

Without a GPU two processes exchange them over gloo.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from benchmarks.gpu.check import Figures, SkippedError, require_close
from benchmarks.gpu.sizes import Sizes
from benchmarks.gpu.world import load, save_model, settings_for, view_of
from foil.trainer.settings import EncodeSettings, ScheduleSettings, TrainSettings
from foil.trainer.train.run.fit import fit

ALLOWED = 1e-4
"""Relative difference of losses and of weights in float32."""
STEPS, TOPICS, WORKERS = 3, 8, 2


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """An encoder of MiniLM's shape in float32."""
    gpus = torch.cuda.device_count()
    if 0 < gpus < WORKERS:
        raise SkippedError(f"needs {WORKERS} GPUs, and there is {gpus}")
    save_model(sizes.shapes["minilm"], folder / "model")
    view_of(STEPS * TOPICS, sizes.lengths, folder)
    start = "spawn" if gpus else "fork"
    for workers in (1, WORKERS):
        start_processes(_worker, (workers, sizes, folder), nprocs=workers, start_method=start)
    one, two = (torch.load(folder / f"workers-{workers}.pt", weights_only=True) for workers in (1, WORKERS))
    losses, weights = (_difference(one[name], two[name]) for name in ("losses", "weights"))
    yield {"backend": two["backend"], "losses_difference": losses, "weights_difference": weights}
    require_close("losses of one worker and of two", losses, ALLOWED)
    require_close("weights of one worker and of two", weights, ALLOWED)


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / one.norm())


def _worker(rank: int, workers: int, sizes: Sizes, folder: Path) -> None:
    """One worker's part of the run; the first leaves its losses and weights in the folder."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
    meeting = f"file://{folder}/meeting-{workers}"
    dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=workers)
    encoder = load(settings := _settings(sizes, folder))
    view = view_of(STEPS * TOPICS, sizes.lengths, folder)
    losses = fit(encoder, encoder, settings, view, folder / f"checkpoints-{workers}")
    if rank == 0:
        weights = torch.cat([weight.detach().flatten().cpu() for weight in encoder.parameters()])
        facts = {"losses": torch.tensor(losses), "weights": weights, "backend": backend}
        torch.save(facts, folder / f"workers-{workers}.pt")
    dist.destroy_process_group()


def _settings(sizes: Sizes, folder: Path) -> TrainSettings:
    return settings_for(
        folder / "model",
        sizes,
        encode=EncodeSettings(precision="float32"),
        schedule=ScheduleSettings(steps=STEPS, topics_per_batch=TOPICS, warmup_steps=1),
    )
