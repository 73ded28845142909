"""Times, memory and rates of the device that torch computes on: the GPU where there is one, else the CPU."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.support import memory

PRODUCTS_CPU = ("mm", "addmm", "bmm", "baddbmm", "scaled_dot_product", "linear", "flash")
PRODUCTS_CUDA = ("gemm", "cutlass", "nvjet", "xmma", "attention", "flash", "fmha", "sdpa")
"""What operators (CPU) and kernels (CUDA) of matrix products and attention have in their names."""


def device() -> str:
    """cuda where torch sees a GPU, else cpu."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def synchronise() -> None:
    """Waits until the GPU has done all that it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_memory() -> int:
    """Bytes: the most that torch held on the GPU, or this process on the CPU, since the start or `forget_peak`."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else memory.peak_memory()


def forget_peak() -> None:
    """Lets `peak_memory` count from now on."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    else:
        memory.forget_peak()


def seconds(work: Callable[[], Any], times: int) -> float:
    """The median of some runs, after one to warm up; with none, that of a cold one."""
    if times:
        work()
    return statistics.median(_once(work) for _ in range(max(1, times)))


def _once(work: Callable[[], Any]) -> float:
    synchronise()
    started = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - started


def product_rate(size: int = 0) -> float:
    """The best rate of a square bf16 matrix product seen here, in operations a second; 0 = what fills the device."""
    size = size or {"cuda": 8192, "cpu": 2048}[device()]
    left, right = torch.randn(2, size, size, dtype=torch.bfloat16, device=device())
    return 2 * size**3 / min(seconds(lambda: left @ right, 5) for _ in range(3))


def product_weights(model: nn.Module) -> int:
    """The weights that every token is multiplied with: all matrices but tables of embeddings and an unused pooler."""
    return sum(
        weight.numel()
        for name, module in model.named_modules()
        for weight in module.parameters(recurse=False)
        if weight.ndim == 2 and not isinstance(module, nn.Embedding) and "pooler" not in name
    )


def profile(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds of the device in each kernel (CUDA) or operator (CPU) while `work` runs, most first."""
    on_gpu = torch.cuda.is_available()
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if on_gpu else activity.CPU]) as profiler:
        work()
        synchronise()
    place, field = ("CUDA", "self_device_time_total") if on_gpu else ("CPU", "self_cpu_time_total")
    events: list[Any] = [event for event in profiler.key_averages() if event.device_type.name == place]
    spent = {event.key: getattr(event, field) for event in events if not event.is_user_annotation}
    return {name: 1e-6 * spent[name] for name in sorted(spent, key=lambda name: -spent[name])}


def outside_products(spent: dict[str, float]) -> float:
    """The share of profiled seconds that is not in matrix products or attention."""
    words = PRODUCTS_CUDA if torch.cuda.is_available() else PRODUCTS_CPU
    inside = sum(value for name, value in spent.items() if any(word in name for word in words))
    return 1 - inside / (sum(spent.values()) or 1)
