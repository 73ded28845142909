"""What the order of a prompt is worth: the share of prompt tokens that vLLM finds in its prefix cache.

For each seed four prompts are asked one after the other, as a recipe of InF-IR's kind asks them: write a positive
instruction, a negative instruction, a query negative, and two passages. Once with what they share first (the rules,
then the passage, then the task), once with the task first. Same words, same order of requests, a fresh engine each; the
counts are vLLM's own (`num_cached_tokens` of each reply). A tiny model with random weights is made here: hits do not
depend on what a model answers.

    .venv-vllm/bin/python benchmarks/prefix_cache.py [--seeds 20] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from engine.models.local_vllm import LocalVllm, LocalVllmSettings
from engine.models.params import Params
from engine.topic import Message, Request

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from tiny_model import make_tiny_model

RULES = """You help to build a collection for testing whether a search engine follows instructions.
You are shown a query and a passage that answers it. Keep to these rules in all that you write.
1. Use only what the passage says. Add no fact, name or number of your own.
2. An instruction says what kind of answer is wanted, never which passage: it must not quote the passage, and nobody
should be able to tell the passage from the instruction alone.
3. Two texts that are to differ must differ in the one point that the task names, and in nothing else.
4. Write plain English in whole sentences. No headings, no lists, no remarks about the task.
5. Keep to the length that the task names. A passage is as long as the one shown, an instruction has one sentence
or two.
6. If the passage does not allow what is asked, say `impossible` and nothing more.
Answer with one JSON object that has the single key `text`."""

TASKS = (
    "Task: write an instruction under which the passage above stays a right answer to the query.",
    "Task: write an instruction under which the passage above is no longer a right answer, though it fits the query.",
    "Task: write another query on the same subject that the passage above does not answer.",
    "Task: write two passages that both answer the query, only the first of which is what the instruction asks.",
)

SUBJECTS = (
    "tide tables", "rye bread", "bicycle chains", "barn owls", "paper mills", "harbour cranes", "winter barley",
    "church bells", "slate roofs", "canal locks", "wool dyes", "glass lenses", "peat bogs", "railway signals",
    "honey bees", "salt pans", "sailing knots", "brick kilns", "weather ships", "apple grafting",
)  # fmt: skip
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


def prompts_of(seed: int, *, shared_first: bool) -> list[str]:
    """The four prompts about one seed, with their parts in one of the two orders."""
    rng = random.Random(seed)
    subject = SUBJECTS[seed % len(SUBJECTS)]
    chosen = rng.sample(SENTENCES, 8)
    passage = " ".join(s.format(s=subject, y=rng.randrange(1880, 1990), n=rng.randrange(3, 90)) for s in chosen)
    about = f"Query: what should one know about {subject}?\n\nPassage:\n{passage}"
    return ["\n\n".join((RULES, about, task) if shared_first else (task, RULES, about)) for task in TASKS]


async def count(folder: str, seeds: int, *, shared_first: bool) -> tuple[int, int]:
    """Prompt tokens, and those of them that came from the cache."""
    settings = LocalVllmSettings(
        kind="local_vllm",
        model=folder,
        enforce_eager=True,
        max_model_len=4096,
        engine_args={"block_size": 32},
        params=Params(max_tokens=1),
    )
    model = LocalVllm(settings)
    try:
        await model.complete(Request(model.name, (Message("user", "Are you there?"),), model.params))
        prompt, cached = 0, 0
        for seed in range(seeds):
            for text in prompts_of(seed, shared_first=shared_first):
                reply = await model.complete(Request(model.name, (Message("user", text),), model.params))
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
    with tempfile.TemporaryDirectory() as folder:
        texts = [text for seed in range(20) for text in prompts_of(seed, shared_first=True)]
        make_tiny_model(Path(folder), texts, words=4096, context=4096)
        (prompt, ours), (_, naive) = (asyncio.run(count(folder, seeds, shared_first=first)) for first in (True, False))
    found = {
        "seeds": seeds,
        "prompt_tokens_each": prompt / (seeds * len(TASKS)),
        "hit_rate": ours / prompt,
        "hit_rate_task_first": naive / prompt,
        "ratio_hit_rate": ours / max(naive, 1),
    }
    for name, value in found.items():
        print(f"{name:24} {value:10.3f}")
    if told.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
