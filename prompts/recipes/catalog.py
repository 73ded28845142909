"""The recipes that a job file can name. To add one: write its file, and add its line here."""

from collections.abc import Callable, Mapping
from typing import Any

from engine.protocols import Recipe
from engine.settings import Settings
from prompts.recipes.custom.recipe import Custom
from prompts.recipes.custom.settings import CustomSettings
from prompts.recipes.dual_view import DualView, DualViewSettings
from prompts.recipes.infir import Infir, InfirSettings
from prompts.recipes.infosearch import InfoSearch, InfoSearchSettings
from prompts.recipes.plain import Plain, PlainSettings
from prompts.recipes.promptriever import Promptriever, PromptrieverSettings
from prompts.recipes.stored import Stored, StoredSettings
from prompts.recipes.verifiable import Verifiable, VerifiableSettings

RECIPES: Mapping[str, tuple[type[Settings], Callable[[Any], Recipe]]] = {
    "verifiable": (VerifiableSettings, Verifiable),
    "infir": (InfirSettings, Infir),
    "promptriever": (PromptrieverSettings, Promptriever),
    "dual_view": (DualViewSettings, DualView),
    "infosearch": (InfoSearchSettings, InfoSearch),
    "plain": (PlainSettings, Plain),
    "custom": (CustomSettings, Custom),
    "stored": (StoredSettings, Stored),
}
"""kind -> (its settings, what builds it)."""
