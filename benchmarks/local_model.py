"""What `local_vllm` and its ways to ask for JSON cost, with a real model.

1. Its rate beside vLLM's own offline `LLM.chat`: the same prompts, all in flight, greedy, the same engine arguments, a
   new engine each time: offline, ours, ours, offline, since a machine's speed drifts. The prompts are those of the
   recipes over the stand-in's world.
2. Each way of `structured` on the same prompts: how many replies can be read as what the prompt asks for, and the
   requests and reply tokens a second.

    .venv-vllm/bin/python -m benchmarks.local_model --model FOLDER [--prompts 48] [--quick] [--json]

Without --model a tiny one with random weights is made, and the first part alone is measured.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from foil.engine.answer_forms import Structured
from foil.engine.errors import Rejected, UnreadableReplyError
from foil.engine.flow.ask import schema_of
from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings, engine_arguments, environment
from foil.engine.models.params import Params
from foil.engine.requests import Message, Request
from foil.prompts.parse import parse_reply
from foil.prompts.recipes.infir import Infir, InfirSettings
from foil.prompts.recipes.infosearch import InfoSearch, InfoSearchSettings
from foil.prompts.recipes.promptriever import Promptriever, PromptrieverSettings
from tests.support.topics.character_ask import CharacterAsk
from tests.support.topics.trades import trade_seeds
from tests.support.vllm.tiny_model import make_tiny_model

Asked = tuple[tuple[Message, ...], Any]
"""The messages of a prompt, and the type of its answer."""


def prompts_of(count: int, *, as_json: bool = False) -> list[Asked]:
    """So many prompts of the recipes in turn, each with the type of its answer; those alone that ask for JSON."""
    ask = CharacterAsk()
    for seed in trade_seeds():
        for recipe in (Infir(InfirSettings()), Promptriever(PromptrieverSettings()), InfoSearch(InfoSearchSettings())):
            with suppress(Rejected):
                asyncio.run(recipe(seed, ask))
        messages = [prompt.messages for prompt in ask.prompts]
        pairs = [
            pair for pair in zip(messages, ask.answers, strict=True) if not as_json or schema_of(pair[1]) is not None
        ]
        if len(pairs) >= count:
            return pairs[:count]
    raise ValueError(f"{len(pairs)} prompts in the stand-in's world; --prompts asked for {count}")


def offline(settings: LocalVllmSettings, chosen: list[tuple[Message, ...]]) -> tuple[float, int]:
    """Seconds and reply tokens of vLLM's own offline engine."""
    os.environ.update(environment(settings))
    from vllm import LLM, SamplingParams

    llm = LLM(**engine_arguments(settings))
    turns: list[Any] = [[{"role": turn.role, "content": turn.content} for turn in messages] for messages in chosen]
    sampling = SamplingParams(**settings.params.plain())
    llm.chat(turns[:1], SamplingParams(max_tokens=1), use_tqdm=False)
    began = time.monotonic()
    outputs = llm.chat(turns, sampling, use_tqdm=False)
    took = time.monotonic() - began
    llm.llm_engine.engine_core.shutdown()
    return took, sum(len(output.outputs[0].token_ids) for output in outputs)


async def ours(settings: LocalVllmSettings, requests: list[Request]) -> tuple[float, list[Any]]:
    """Seconds and replies of `local_vllm`, with all requests in flight."""
    model = LocalVllm(settings)
    try:
        first = Request(model.name, requests[0].messages, {"max_tokens": 1})
        await model.complete(first)
        began = time.monotonic()
        replies = await asyncio.gather(*map(model.complete, requests))
        return time.monotonic() - began, list(replies)
    finally:
        await model.close()


def is_readable(text: str, answer: Any) -> bool:
    try:
        parse_reply(text, answer)
    except UnreadableReplyError:
        return False
    return True


def measure_rate(settings: LocalVllmSettings, pairs: Sequence[Asked]) -> dict[str, float]:
    """Both rates over the same prompts, and ours as a share of vLLM's own."""
    params, folder = settings.params, settings.model
    plain = [Request(folder, messages, params.plain()) for messages, _ in pairs]
    figures: dict[str, float] = {"prompts": len(pairs)}
    seconds = {"offline": 0.0, "local_vllm": 0.0}
    tokens = {"offline": 0, "local_vllm": 0}
    for way in ("offline", "local_vllm", "local_vllm", "offline"):
        if way == "offline":
            took, count = offline(settings, [messages for messages, _ in pairs])
        else:
            took, replies = asyncio.run(ours(settings, plain))
            count = sum(reply.completion_tokens for reply in replies)
        seconds[way] += took
        tokens[way] += count
    for way, took in seconds.items():
        figures |= {f"{way}_s": took, f"{way}_tokens_s": tokens[way] / took}
    figures["ratio_rate"] = figures["local_vllm_tokens_s"] / figures["offline_tokens_s"]
    return figures


def measure_forms(settings: LocalVllmSettings, pairs: Sequence[Asked]) -> dict[str, float]:
    """What each way to ask for JSON brings, over prompts that ask for some."""
    params, folder = settings.params, settings.model
    shaped = [Request(folder, messages, params.plain(), schema=schema_of(answer)) for messages, answer in pairs]
    figures: dict[str, float] = {"with_schema": len(shaped)}
    for way in get_args(Structured):
        took, replies = asyncio.run(ours(settings.model_copy(update={"structured": way}), shaped))
        read = sum(
            is_readable(reply.text, answer)
            for reply, answer in zip(replies, (answer for _, answer in pairs), strict=True)
        )
        figures |= {
            f"{way}_readable": read / len(shaped),
            f"{way}_requests_s": len(shaped) / took,
            f"{way}_tokens_s": sum(reply.completion_tokens for reply in replies) / took,
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder with an instruct model; without it a tiny one with random weights")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=400, help="most tokens of a reply")
    parser.add_argument("--quick", action="store_true", help="4 prompts, 8 tokens")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("vLLM is not installed here; make setup-vllm, then run this with .venv-vllm/bin/python")
        return
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    count, tokens = (4, 8) if options.quick else (options.prompts, options.tokens)
    pairs = prompts_of(count)
    with tempfile.TemporaryDirectory() as folder:
        if options.model is None:
            texts = [turn.content for messages, _ in pairs for turn in messages]
            make_tiny_model(Path(folder), texts, words=4096, context=8192)
        params = Params(temperature=0.0, max_tokens=tokens)
        model = options.model or folder
        settings = LocalVllmSettings(
            kind="local_vllm", model=model, enforce_eager=True, max_model_len=8192, structured="words", params=params
        )
        figures = measure_rate(settings, pairs)
        if options.model:
            figures |= measure_forms(settings, prompts_of(count, as_json=True))
    for name, value in figures.items():
        print(f"{name:24} {value:10.3f}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
