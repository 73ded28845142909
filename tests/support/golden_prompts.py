"""The prompts of every recipe over our seeds; `python -m tests.support.golden_prompts` writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from engine.topic import Seed
from prompts.recipes.catalog import RECIPES
from tests.support.paths import GOLDEN
from tests.support.sample_seeds import SEEDS, RuleAsk

PROMPTS = GOLDEN / "prompts"
WRITTEN: Mapping[str, Mapping[str, Any]] = {
    "verifiable": {},
    "infir": {},
    "promptriever": {},
    "dual_view": {"base": {"kind": "promptriever"}},
}


def rendered(kind: str, settings: Mapping[str, Any], seed: Seed) -> str:
    """Every prompt that the recipe asks for a seed, one after the other."""
    ask = RuleAsk()
    settings_class, recipe = RECIPES[kind]
    asyncio.run(recipe(settings_class.model_validate({"kind": kind, **settings}))(seed, ask))
    return "\n".join(
        f"##### {prompt.task}\n" + "".join(f"=== {m.role}\n{m.content}\n" for m in prompt.messages)
        for prompt in ask.prompts
    )


if __name__ == "__main__":
    PROMPTS.mkdir(exist_ok=True)
    for kind, settings in WRITTEN.items():
        for corpus, seed in SEEDS.items():
            (PROMPTS / f"{kind}-{corpus}.txt").write_text(rendered(kind, settings, seed), encoding="utf-8")
