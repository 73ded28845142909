"""What the order of a prompt is worth: the share of prompt tokens that vLLM finds in its prefix cache.

The five prompts of the recipe `infir` are asked one after the other, for each seed, over passages of our own. Once as
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
import random
import tempfile
from contextlib import suppress
from itertools import chain
from pathlib import Path

from engine.errors import Rejected
from engine.models.local_vllm import LocalVllm, LocalVllmSettings
from engine.models.params import Params
from engine.requests import Message, Request
from engine.topic import Passage, Seed
from prompts.recipes.infir import Infir, InfirSettings
from tests.support.topics.sample_seeds import RuleAsk
from tests.support.vllm.tiny_model import make_tiny_model

SUBJECTS = (
    "tide tables", "rye bread", "bicycle chains", "barn owls", "paper mills", "harbour cranes", "winter barley",
    "church bells", "slate roofs", "canal locks", "wool dyes", "glass lenses", "peat bogs", "railway signals",
    "honey bees", "salt pans", "sailing knots", "brick kilns", "weather ships", "apple grafting",
)  # fmt: skip
ASKED = ("who still trades in", "the price of", "museums of", "a short history of", "where to learn about")
SENTENCES = (
    "People who work with {s} learn early that the first hour decides how the rest of the day will go.",
    "In {y} a survey counted {n} places in the county where {s} still mattered to somebody's living.",
    "The older books on {s} disagree about the cause, and only a few of them report what was measured.",
    "A careful keeper writes down the temperature, the hour and the result, and changes one thing at a time.",
    "What looks like a fault in {s} is often the effect of damp, which a dry week will put right.",
    "By {y} most of the {n} workshops had closed, and the knowledge of {s} passed to schools and clubs.",
    "The cost of a mistake with {s} is rarely large, but it is usually noticed only after {n} days.",
    "Newcomers are told to watch for a season before they touch anything, which few of them do.",
    "There is no single rule for {s}; the soil, the water and the maker's patience each have a part.",
    "An inspector came in {y}, found {n} small defects, and praised the way the records had been kept.",
)


def seed_of(number: int) -> Seed:
    """A query, two passages that answer it and five that do not, on a subject of its own."""
    rng = random.Random(number)
    subject = SUBJECTS[number % len(SUBJECTS)]

    def text() -> str:
        chosen = rng.sample(SENTENCES, 8)
        return " ".join(s.format(s=subject, y=rng.randrange(1880, 1990), n=rng.randrange(3, 90)) for s in chosen)

    positives = tuple(Passage(text(), "seed_positive") for _ in range(2))
    others = tuple(Passage(text(), "seed_negative", attributes={"query": f"{ask} {subject}"}) for ask in ASKED)
    return Seed(f"seed {number}", "ours", f"what should one know about {subject}", positives, others)


def prompts_of(number: int, *, shared_first: bool) -> list[tuple[Message, ...]]:
    """The prompts about one seed, with their parts in one of the two orders."""
    ask = RuleAsk()
    with suppress(Rejected):
        asyncio.run(Infir(InfirSettings())(seed_of(number), ask))
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
    parser.add_argument("--seeds", type=int, default=20)
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
