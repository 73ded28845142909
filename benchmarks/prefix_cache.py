"""What the order of a prompt is worth: the share of prompt tokens that vLLM finds in its prefix cache.

The five prompts of the recipe `infir` are asked one after the other, for each seed of the stand-in's world. Once as
the templates have them (rules, then query and passage, then the task), once with the task first. Same words, same order
of requests, a fresh engine each; the counts are vLLM's own (`num_cached_tokens` of each reply). A tiny model with
random weights is made here: hits do not depend on what a model answers.

    .venv-vllm/bin/python -m benchmarks.prefix_cache [--seeds 20] [--quick] [--json]
"""

import argparse
import asyncio
import importlib.util
import json
import os
import tempfile
from contextlib import suppress
from itertools import chain
from pathlib import Path

from foil.engine.errors import Rejected
from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings
from foil.engine.models.params import Params
from foil.engine.requests import Message, Request
from foil.prompts.recipes.infir import Infir, InfirSettings
from tests.support.topics.character_ask import CharacterAsk
from tests.support.topics.trades import trade_seeds
from tests.support.vllm.tiny_model import make_tiny_model


def prompts_of(number: int, *, shared_first: bool) -> list[tuple[Message, ...]]:
    """The prompts about one seed, with their parts in one of the two orders."""
    ask = CharacterAsk()
    with suppress(Rejected):
        asyncio.run(Infir(InfirSettings())(trade_seeds()[number % 40], ask))
    return [prompt.messages if shared_first else _task_first(prompt.messages) for prompt in ask.prompts]


def _task_first(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The task before the rules, and the rest as it was."""
    system, user = messages
    shared, end, task = user.content.partition("--- end ---\n\n")
    return Message("system", f"{task}\n\n{system.content}"), Message("user", shared + end)


async def count(folder: str, chosen: list[list[tuple[Message, ...]]]) -> tuple[int, int]:
    """Prompt tokens, and those of them that came from the cache."""
    settings = LocalVllmSettings(
        kind="local_vllm",
        model=folder,
        enforce_eager=True,
        max_model_len=4096,
        engine_args={"block_size": 32},
        params=Params(temperature=0.0, max_tokens=1),
    )
    model = LocalVllm(settings)
    try:
        await model.complete(Request(model.name, (Message("user", "Are you there?"),), model.traits.params))
        prompt, cached = 0, 0
        for messages in chain.from_iterable(chosen):
            reply = await model.complete(Request(model.name, messages, model.traits.params))
            prompt, cached = prompt + reply.prompt_tokens, cached + reply.cached_tokens
        return prompt, cached
    finally:
        await model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="at most 40")
    parser.add_argument("--quick", action="store_true", help="5 seeds")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    told = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("vLLM is not installed here; make setup-vllm, then run this with .venv-vllm/bin/python")
        return
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    seeds = 5 if told.quick else told.seeds
    ours, naive = ([prompts_of(seed, shared_first=first) for seed in range(seeds)] for first in (True, False))
    asked = sum(map(len, ours))
    with tempfile.TemporaryDirectory() as folder:
        texts = [message.content for messages in chain.from_iterable(ours) for message in messages]
        make_tiny_model(Path(folder), texts, words=4096, context=4096)
        (tokens, hits), (_, without) = (asyncio.run(count(folder, chosen)) for chosen in (ours, naive))
    found = {
        "seeds": seeds,
        "prompts": asked,
        "prompt_tokens_each": tokens / asked,
        "hit_rate": hits / tokens,
        "hit_rate_task_first": without / tokens,
        "ratio_hit_rate": hits / max(without, 1),
    }
    for name, value in found.items():
        print(f"{name:24} {value:10.3f}")
    if told.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
