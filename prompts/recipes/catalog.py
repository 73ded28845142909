"""The recipes that a job file can name. To add one: write its file, and add its line here."""

from collections.abc import Callable, Mapping
from typing import Any

from foil.engine.protocols import Recipe
from foil.engine.settings import Settings
from foil.prompts.recipes.contrast import Contrast, ContrastSettings
from foil.prompts.recipes.custom.recipe import Custom
from foil.prompts.recipes.custom.settings import CustomSettings
from foil.prompts.recipes.dual_view import DualView, DualViewSettings
from foil.prompts.recipes.infir import Infir, InfirSettings
from foil.prompts.recipes.infosearch import InfoSearch, InfoSearchSettings
from foil.prompts.recipes.mixed import MixedRecipeSettings
from foil.prompts.recipes.plain import Plain, PlainSettings
from foil.prompts.recipes.promptriever import Promptriever, PromptrieverSettings
from foil.prompts.recipes.stored import Stored, StoredSettings
from foil.prompts.recipes.verifiable import Verifiable, VerifiableSettings

RECIPES: Mapping[str, tuple[type[Settings], Callable[[Any], Recipe]]] = {
    "verifiable": (VerifiableSettings, Verifiable),
    "infir": (InfirSettings, Infir),
    "promptriever": (PromptrieverSettings, Promptriever),
    "dual_view": (DualViewSettings, DualView),
    "contrast": (ContrastSettings, Contrast),
    "infosearch": (InfoSearchSettings, InfoSearch),
    "plain": (PlainSettings, Plain),
    "custom": (CustomSettings, Custom),
    "stored": (StoredSettings, Stored),
}
"""kind -> (its settings, what builds it)."""

WITHOUT_MODEL = (PlainSettings, VerifiableSettings)


def roles_asked(settings: Settings) -> tuple[str, ...]:
    """The roles of the models that a recipe asks; `writer` where it names none."""
    if isinstance(settings, MixedRecipeSettings):
        return tuple(dict.fromkeys(role for part in settings.of for role in roles_asked(part.recipe)))
    return () if isinstance(settings, WITHOUT_MODEL) else settings.asks() or ("writer",)
