"""Tokens a second of Foil's local vLLM over a tiny model of random weights, many requests at a time."""

import asyncio
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.check import Figures, SkippedError
from benchmarks.gpu.sizes import Sizes
from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings
from foil.engine.requests import Message, Reply, Request
from tests.support.vllm.tiny_model import make_tiny_model

REPO = Path(__file__).resolve().parents[3]
CONTEXT = 2_048


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """A Qwen2 of two layers, so that the figure is what vLLM and Foil cost around the model."""
    if importlib.util.find_spec("vllm") is None:
        raise SkippedError("vLLM is not installed here")
    make_tiny_model(folder / "model", [(REPO / "LICENSE").read_text(encoding="utf-8")], context=CONTEXT)
    yield asyncio.run(_measure(sizes, folder / "model"))


async def _measure(sizes: Sizes, model: Path) -> Figures:
    settings = LocalVllmSettings(
        kind="local_vllm",
        model=str(model),
        max_model_len=CONTEXT,
        gpu_memory_utilization=0.3,
        enforce_eager=True,
    )
    vllm, started = LocalVllm(settings), time.perf_counter()
    try:
        await _ask(vllm, 1, sizes.generated_tokens)
        start_s, started = time.perf_counter() - started, time.perf_counter()
        replies = await _ask(vllm, sizes.generated_requests, sizes.generated_tokens)
        spent = time.perf_counter() - started
    finally:
        await vllm.close()
    tokens = sum(reply.completion_tokens for reply in replies)
    return {"start_s": start_s, "requests": len(replies), "tokens": tokens, "tokens_per_s": tokens / spent}


async def _ask(vllm: LocalVllm, count: int, tokens: int) -> list[Reply]:
    params = {"temperature": 1.0, "max_tokens": tokens}
    prompts = [f"Passage {number} answers the question of another." for number in range(count)]
    requests = [Request(vllm.name, (Message("user", prompt),), params) for prompt in prompts]
    return await asyncio.gather(*map(vllm.complete, requests))
