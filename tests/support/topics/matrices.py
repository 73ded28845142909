"""Topics of the published recipes, and the matrix of judgments that each method prescribes."""

import asyncio

from foil.engine.topic import Seed
from foil.prompts.recipes.catalog import RECIPES
from tests.support.topics.character_ask import CharacterAsk

SETTINGS = {"infir": {}, "promptriever": {}, "dual_view": {"base": {"kind": "promptriever"}}}


def build(kind: str, **settings):
    settings_class, recipe = RECIPES[kind]
    return recipe(settings_class.model_validate({"kind": kind, **settings}))


def made(kind: str, seed: Seed, ask=None, **settings):
    (topic,) = asyncio.run(build(kind, **(settings or SETTINGS.get(kind, {})))(seed, ask or CharacterAsk()))
    return topic


def matrix(topic) -> dict[str, dict[str, set[int]]]:
    """Intent role -> passage role -> the relevances judged."""
    intents, passages = {i.id: i.role for i in topic.intents}, {p.id: p.role for p in topic.passages}
    found: dict[str, dict[str, set[int]]] = {}
    for judgment in topic.judgments:
        row = found.setdefault(intents[judgment.intent_id], {})
        row.setdefault(passages[judgment.passage_id], set()).add(judgment.relevance)
    return found


TABLES = {
    "infir": {
        "original": {"seed_positive": {1}, "instruction_negative": {1}, "query_negative": {-1}, "seed_negative": {-1}},
        "instructed": {"seed_positive": {1}, "instruction_negative": {-1}, "query_negative": {-1}},
        "poisoned_instruction": {"seed_positive": {-1}, "instruction_negative": {1}},
        "poisoned_query": {"seed_positive": {-1}, "query_negative": {1}},
    },
    "promptriever": {
        "original": {
            "seed_positive": {1}, "generated_positive": {1}, "instruction_negative": {1}, "seed_negative": {-1},
        },
        "instructed": {"seed_positive": {1}, "generated_positive": {1}, "instruction_negative": {-1}},
    },
    "dual_view": {
        "original": {"seed_positive": {1}, "instruction_negative": {1}, "seed_negative": {-1}},
        "instructed": {"seed_positive": {1}, "instruction_negative": {-1}},
        "dual": {"seed_positive": {-1}, "instruction_negative": {1}},
    },
}  # fmt: skip
