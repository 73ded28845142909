"""Several recipes in one job: each seed goes to one of those that take its corpus, by their shares.

    seed -> the recipes of its corpus -> one, by the hash of the seed's id -> that recipe's topics

The choice follows from the seed alone, so it is the same in every process and at every resume.
"""

from collections.abc import Sequence
from itertools import accumulate

from pydantic import Field, SerializeAsAny

from foil.engine.errors import Rejected
from foil.engine.ids import canonical_json, fraction_of, sha256_hex
from foil.engine.protocols import Ask, Recipe, RecipeChoice
from foil.engine.settings import Settings
from foil.engine.topic import Seed, Topic


class RecipePart(Settings):
    """One recipe of several, and which seeds it gets."""

    recipe: SerializeAsAny[Settings]
    share: float = Field(1.0, gt=0, le=1e6, description="of the seeds that it takes, against the others' shares")
    corpora: tuple[str, ...] = Field((), description="it takes the seeds of these corpora; none = of all")

    def takes(self, seed: Seed) -> bool:
        """Whether the seed's corpus is one of its own."""
        return not self.corpora or seed.corpus in self.corpora


class MixedRecipeSettings(Settings):
    """The recipes of a job, in the order of its file."""

    of: tuple[RecipePart, ...]


class MixedRecipe(RecipeChoice):
    """Implements `engine.protocols.Recipe`; `recipes` are built from the parts of the settings, in their order.

    Rejected with `no_recipe` where none takes the seed's corpus, and as the chosen one does.
    """

    name = "mixed"

    def __init__(self, settings: MixedRecipeSettings, recipes: Sequence[Recipe]) -> None:
        self._parts = list(zip(settings.of, recipes, strict=True))
        facts = [[recipe.fingerprint, part.share, part.corpora] for part, recipe in self._parts]
        self.fingerprint = sha256_hex(canonical_json(facts))

    def recipe_for(self, seed: Seed) -> Recipe:
        """The recipe that gets this seed; this one itself, which rejects it, where none takes it."""
        takers = [(part.share, recipe) for part, recipe in self._parts if part.takes(seed)]
        if not takers:
            return self
        ends = list(accumulate(share for share, _ in takers))
        at = fraction_of("recipe", seed.id) * ends[-1]
        return next((recipe for end, (_, recipe) in zip(ends, takers, strict=True) if at < end), takers[-1][1])

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        recipe = self.recipe_for(seed)
        if recipe is self:
            raise Rejected("no_recipe", f"none of the job's recipes takes the corpus {seed.corpus!r}")
        return await recipe(seed, ask)
