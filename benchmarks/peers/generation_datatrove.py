"""datatrove's InferenceRunner on the prompts of benchmarks/generation.py; runs in an environment that has it.

Its own client for plain HTTP at localhost is what runs (one connection a request); a 429 or a 5xx ends its run. That
client and the readiness probe want the URL without /v1.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from generation_prompts import MAX_TOKENS, MODEL, SYSTEM, TEMPERATURE, measured, usable, user


async def rollout(document: Any, generate: Callable[[dict[str, Any]], Awaitable[Any]]) -> str:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": document.text}]
    return str((await generate({"messages": messages})).text)


def work(told: argparse.Namespace) -> int:
    from datatrove.data import Document
    from datatrove.pipeline.inference.run_inference import InferenceConfig, InferenceRunner
    from datatrove.pipeline.writers import JsonlWriter

    config = InferenceConfig(
        server_type="endpoint",
        model_name_or_path=MODEL,
        endpoint_url=told.base_url.removesuffix("/v1"),
        max_concurrent_generations=told.concurrency,
        default_generation_params={"max_tokens": MAX_TOKENS, "temperature": TEMPERATURE},
    )
    with tempfile.TemporaryDirectory() as folder:
        writer = JsonlWriter(folder, "${rank}.jsonl", compression=None)
        runner = InferenceRunner(rollout, config, writer)
        runner.run((Document(text=user(i), id=str(i)) for i in range(told.requests)), rank=0, world_size=1)
        lines = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.open()]
    return sum(usable(line["metadata"]["rollout_results"][0]) for line in lines)


if __name__ == "__main__":
    measured(work, "datatrove", ["datatrove.pipeline.inference.run_inference", "datatrove.pipeline.writers"])
