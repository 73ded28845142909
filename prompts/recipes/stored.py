"""The recipe `stored`: the topics of another run as that run stored them, for other validators. No model is asked.

    seed (seeds: {kind: stored}) -> its topics, decoded -> validators

A topic comes without what validators said of it; one that is rejected or failed already stays as it is. `pack_topics`
is how a seed carries them. Price: the JSON of the topics, read once.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import TypeAdapter

from foil.engine.errors import Rejected
from foil.engine.protocols import Ask, Recipe, RecipeChoice
from foil.engine.settings import Settings
from foil.engine.topic import Seed, Topic
from foil.prompts.render import recipe_fingerprint

VERSION = "1"
"""Raised when the same stored topics would give other ones."""

_ATTRIBUTE = "stored_topics"
_TOPICS: TypeAdapter[tuple[Topic, ...]] = TypeAdapter(tuple[Topic, ...])


class StoredSettings(Settings):
    """Has nothing to set."""

    kind: Literal["stored"] = "stored"


class Stored(RecipeChoice):
    """Implements `engine.protocols.Recipe`. Rejected with `not_stored` where a seed carries no topics."""

    name = "stored"

    def __init__(self, settings: StoredSettings) -> None:
        self.fingerprint = recipe_fingerprint(VERSION, [], settings)

    def recipe_for(self, seed: Seed) -> Recipe:
        """The recipe under the name of the one that made the topics, so that a row without a topic keeps its id."""
        topics = unpack_topics(seed)
        return _Returning(topics[0].recipe, self.fingerprint, topics) if topics else self

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        recipe = self.recipe_for(seed)
        if recipe is self:
            raise Rejected("not_stored", "the seed carries no topics: give `recipe: {kind: stored}` seeds of that kind")
        return await recipe(seed, ask)


class _Returning:
    """The recipe of one seed."""

    def __init__(self, name: str, fingerprint: str, topics: Sequence[Topic]) -> None:
        self.name, self.fingerprint, self._topics = name, fingerprint, topics

    async def __call__(self, _seed: Seed, _ask: Ask) -> Sequence[Topic]:
        return self._topics


def pack_topics(topics: Sequence[Topic]) -> dict[str, str]:
    """The attributes of a seed that carries these topics."""
    return {_ATTRIBUTE: _TOPICS.dump_json(tuple(topics)).decode()}


def unpack_topics(seed: Seed) -> tuple[Topic, ...]:
    """The topics that a seed carries; none, if none."""
    packed = seed.attributes.get(_ATTRIBUTE)
    return _TOPICS.validate_json(packed) if packed else ()
