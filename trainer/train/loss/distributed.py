"""What workers exchange in a step: vectors (with gradients), keys, and at the end the sum of the gradients.

Each worker scores its own anchors against the columns of all. The backward pass of the gather returns to every worker
the sum of all workers' gradients for its vectors, so the sum over workers is exactly the gradient of one process.
Keys and counts are on the CPU, vectors and gradients on the model's device: with GPUs the process group needs both
(backend `cpu:gloo,cuda:nccl`). Without a process group every function is the identity.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor


def rank_and_workers() -> tuple[int, int]:
    """This worker's rank and their number; (0, 1) outside a process group."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all workers, in the order of their ranks; differentiable."""
    workers = rank_and_workers()[1]
    if workers == 1:
        return rows
    gathered: Tensor = _GatherRows.apply(rows, _counts(len(rows), workers))  # type: ignore[no-untyped-call]
    return gathered


def gather_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The integer keys of all workers, in the order of their ranks, and the position of this worker's first."""
    rank, workers = rank_and_workers()
    if workers == 1:
        return keys, 0
    return gather_rows(torch.from_numpy(keys)).numpy(), sum(_counts(len(keys), workers)[:rank])


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Adds up the gradients of all workers, in one exchange; a parameter without any gradient keeps none."""
    if rank_and_workers()[1] == 1:
        return
    targets = [parameter for parameter in parameters if parameter.requires_grad]
    grads = [torch.zeros_like(t) if t.grad is None else t.grad for t in targets]
    flags = grads[0].new_tensor([t.grad is not None for t in targets])
    flat = torch.cat([grad.reshape(-1) for grad in (*grads, flags)])
    dist.all_reduce(flat)
    *sums, holders = torch.split(flat, [t.numel() for t in (*targets, flags)])
    for target, total, holder in zip(targets, sums, holders.tolist(), strict=True):
        target.grad = total.view_as(target) if holder else None


def sum_scalar(value: float) -> float:
    """The sum of one number over all workers."""
    return sum_scalars((value,))[0]


def sum_scalars(values: tuple[float, ...]) -> list[float]:
    """The sums of some numbers over all workers, in one exchange."""
    totals = torch.tensor(values, dtype=torch.float64)
    if rank_and_workers()[1] > 1:
        dist.all_reduce(totals)
    sums: list[float] = totals.tolist()
    return sums


def barrier() -> None:
    """Waits until every worker calls it; over the CPU, so that no GPU has to be named."""
    sum_scalar(0.0)


def _counts(rows: int, workers: int) -> list[int]:
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(workers)]
    dist.all_gather(counts, torch.tensor([rows]))
    return [int(count) for count in counts]


class _GatherRows(torch.autograd.Function):
    """Forward: all_gather, padded to the longest. Backward: all_reduce of the whole, then this worker's slice."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return torch.split(total, ctx.counts)[dist.get_rank()], None
