"""The golden prompts: every template once over a text of the character's world, which answers them, and the first
prompt of each recipe over every other kind of text; byte for byte.

`python -m tests.support.topics.golden_prompts` writes them anew; read the diff.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from foil.engine.errors import Rejected
from foil.engine.flow.ask import schema_of
from foil.engine.ids import sha256_hex
from foil.engine.topic import Seed
from foil.prompts.constraints.dimensions import DIMENSIONS
from foil.prompts.recipes.catalog import RECIPES
from foil.prompts.recipes.written_query import WrittenQuery
from foil.validators.catalog import VALIDATORS
from tests.support.paths import GOLDEN
from tests.support.topics.character_ask import CharacterAsk
from tests.support.topics.sample_seeds import SEEDS
from tests.support.topics.trades import trade_seeds

PROMPTS = GOLDEN / "prompts"
TEXT, CODE, MATHEMATICS = trade_seeds()[0], SEEDS["leetcode"], SEEDS["metamath"]
DUAL = {"kind": "dual_view", "base": {"kind": "promptriever"}}
UNASKED = [replace(TEXT, query="", positives=TEXT.positives[:count]) for count in (1, 2)]
BY_DIMENSION = [{"kind": "infosearch", "dimensions": [d], "query_negative": "written"} for d in DIMENSIONS]
CASES: Mapping[str, tuple[list[dict[str, Any]], list[Seed], str]] = {
    "infir": ([{"kind": "infir"}], [TEXT, CODE], ""),
    "promptriever": ([{"kind": "promptriever"}], [TEXT, MATHEMATICS], ""),
    "dual_view": ([DUAL], [TEXT], ""),
    "contrast": ([{"kind": "contrast"}], [TEXT], ""),
    "infosearch": (BY_DIMENSION, [TEXT], ""),
    "query": ([{"kind": "plain"}], UNASKED, ""),
    "judge_scenarios": ([{"kind": "infir"}], [TEXT], "judge_scenarios"),
    "judge_relevance": ([{"kind": "promptriever"}], [TEXT], "judge_relevance"),
    "judge_polarity": ([DUAL], [TEXT], "judge_polarity"),
    "judge_demands": ([{"kind": "infir"}], [TEXT], "judge_demands"),
}
"""file -> (the settings of recipes, their seeds, the judge whose questions are kept instead of the recipe's)."""


class Recorder(CharacterAsk):
    """Keeps one prompt of each task with each set of rules, and the hash of the schema that it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[tuple[Any, ...], str] = {}
        self.templates: set[str] = set()

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        form = (prompt.task, prompt.messages[0].content.partition("\nExample\n")[0])
        schema = f"schema {sha256_hex(json.dumps(known))[:12]}" if (known := schema_of(answer)) else "plain text"
        messages = "".join(f"=== {m.role}\n{m.content}\n" for m in prompt.messages)
        self.pages.setdefault(form, f"##### {prompt.task}, {schema}\n{messages}")
        self.templates.add(prompt.template.partition("@")[0])
        return await super().__call__(prompt, answer, role=role, check=check)


def recorded(name: str) -> Recorder:
    """What the case asks."""
    recipes, seeds, judge = CASES[name]
    ask, topics = Recorder(), []
    for settings, seed in product(recipes, seeds):
        settings_class, recipe = RECIPES[settings["kind"]]
        with suppress(Rejected):
            topics += asyncio.run(WrittenQuery(recipe(settings_class.model_validate(settings)))(seed, ask))
    if judge:
        ask = Recorder()
        settings_class, validator = VALIDATORS[judge]
        asyncio.run(validator(settings_class.model_validate({"canaries": {"share": 0}}))(topics[0], ask))
    return ask


if __name__ == "__main__":
    for case in CASES:
        (PROMPTS / f"{case}.txt").write_text("\n".join(recorded(case).pages.values()), encoding="utf-8")
