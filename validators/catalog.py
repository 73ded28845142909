"""The validators that a job can name, and how they become a chain, cheap to dear."""

from collections.abc import Callable, Sequence
from typing import Any

from foil.engine.protocols import Screen, Validator
from foil.engine.settings import Settings
from foil.validators.checks.label_checks import (
    ConstraintCheck,
    ConstraintCheckSettings,
    DimensionCheck,
    DimensionCheckSettings,
)
from foil.validators.checks.leak import LeakCheck, LeakSettings
from foil.validators.checks.newline_truncation import NewlineTruncation, NewlineTruncationSettings
from foil.validators.checks.pii import PiiCheck, PiiSettings
from foil.validators.checks.shape import ShapeCheck, ShapeSettings
from foil.validators.checks.text_checks import (
    InjectionCheck,
    InjectionSettings,
    LanguageCheck,
    LanguageSettings,
    ReadableCheck,
    ReadableSettings,
    RefusalCheck,
    RefusalSettings,
)
from foil.validators.judges.demands import JudgeDemands, JudgeDemandsSettings
from foil.validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from foil.validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from foil.validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings
from foil.validators.overlap.contamination import Contamination, ContaminationSettings
from foil.validators.overlap.duplicates import Duplicates, DuplicatesSettings

VALIDATORS: dict[str, tuple[type[Settings], Callable[[Any], Validator | Screen]]] = {
    "shape": (ShapeSettings, ShapeCheck),
    "newline_truncation": (NewlineTruncationSettings, NewlineTruncation),
    "leak": (LeakSettings, LeakCheck),
    "constraint_check": (ConstraintCheckSettings, ConstraintCheck),
    "dimension_check": (DimensionCheckSettings, DimensionCheck),
    "language": (LanguageSettings, LanguageCheck),
    "refusal": (RefusalSettings, RefusalCheck),
    "readable": (ReadableSettings, ReadableCheck),
    "pii": (PiiSettings, PiiCheck),
    "injection": (InjectionSettings, InjectionCheck),
    "duplicates": (DuplicatesSettings, Duplicates),
    "contamination": (ContaminationSettings, Contamination),
    "judge_scenarios": (JudgeScenariosSettings, JudgeScenarios),
    "judge_relevance": (JudgeRelevanceSettings, JudgeRelevance),
    "judge_polarity": (JudgePolaritySettings, JudgePolarity),
    "judge_demands": (JudgeDemandsSettings, JudgeDemands),
}

SCREENS = ("duplicates",)
"""The kinds above that see seeds and not topics."""

DEFAULT_VALIDATORS = ("shape", "leak", "constraint_check", "duplicates")
"""For a job that names none. `newline_truncation` is for model writers: topics by rule need their paragraphs."""


def validators_of(chosen: Sequence[Settings]) -> tuple[Validator, ...]:
    """The chain over topics, cheap to dear; of equal cost in the order given."""
    validators = [_build(settings) for settings in chosen if _kind(settings) not in SCREENS]
    return tuple(sorted(validators, key=lambda validator: validator.cost))


def screens_of(chosen: Sequence[Settings]) -> tuple[Screen, ...]:
    """The screens, in the order given; contamination screens the queries of the seeds."""
    screens = []
    for settings in chosen:
        if isinstance(settings, ContaminationSettings):
            screens.append(Contamination(settings).screen)
        elif _kind(settings) in SCREENS:
            screens.append(_build(settings))
    return tuple(screens)


def _build(settings: Settings) -> Any:
    return VALIDATORS[_kind(settings)][1](settings)


def _kind(settings: Settings) -> str:
    return str(settings.model_dump()["kind"])
