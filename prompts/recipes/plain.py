"""The recipe `plain`: the seed as it stands, its bare query over its judged passages. No model is asked.

It brings published rows (MS MARCO's training rows in Tevatron's layout, any table of query, positives, negatives) into
a run: screened, deduplicated, queried and pinned like all others, and mixed into training by `train.data`
(Promptriever's joint training takes them with instructed ones, section 3.1).
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from foil.engine.errors import Rejected
from foil.engine.protocols import Ask
from foil.engine.settings import Settings
from foil.engine.topic import Seed, Topic
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.render import recipe_fingerprint

VERSION = "1"
"""Raised when the same seed and settings would give other topics."""


class PlainSettings(Settings):
    """How much of a seed is kept."""

    kind: Literal["plain"] = "plain"
    positives: int = Field(8, ge=1, le=1_000, description="relevant passages kept, the first ones")
    negatives: int = Field(30, ge=0, le=1_000, description="other passages kept, the first ones")


class Plain:
    """Implements `engine.protocols.Recipe`. Rejected with `empty_query` or `no_positive`."""

    name = "plain"

    def __init__(self, settings: PlainSettings) -> None:
        self._settings = settings
        self.fingerprint = recipe_fingerprint(VERSION, [], settings)

    async def __call__(self, seed: Seed, _ask: Ask) -> Sequence[Topic]:
        if not seed.query.strip():
            raise Rejected("empty_query", "the seed has no query")
        builder = TopicBuilder(self.name, seed)
        positives = builder.add_new(seed.positives, self._settings.positives)
        negatives = builder.add_new(seed.negatives, self._settings.negatives)
        if not positives:
            raise Rejected("no_positive", "the seed has no relevant passage with a text")
        intent = builder.add_intent("original")
        builder.judge(intent, "seed", *((p, 1) for p in positives), *((p, -1) for p in negatives))
        return [builder.build(rows="plain")]
