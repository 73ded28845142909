"""The validators that a job can name, and how the named ones become a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.protocols import Screen, Validator
from engine.settings import Settings
from validators.constraint_check import ConstraintCheck, ConstraintCheckSettings
from validators.contamination import Contamination, ContaminationSettings
from validators.dimension_check import DimensionCheck, DimensionCheckSettings
from validators.duplicates import Duplicates, DuplicatesSettings
from validators.injection import Injection, InjectionSettings
from validators.judge_polarity import JudgePolarity, JudgePolaritySettings
from validators.judge_relevance import JudgeRelevance, JudgeRelevanceSettings
from validators.judge_scenarios import JudgeScenarios, JudgeScenariosSettings
from validators.language import Language, LanguageSettings
from validators.leak import Leaks, LeakSettings
from validators.newline_truncation import NewlineTruncation, NewlineTruncationSettings
from validators.pii import Pii, PiiSettings
from validators.refusal import Refusal, RefusalSettings
from validators.shape import Shape, ShapeSettings

VALIDATORS: dict[str, tuple[type[Settings], Callable[[Any], Validator | Screen]]] = {
    "shape": (ShapeSettings, Shape),
    "newline_truncation": (NewlineTruncationSettings, NewlineTruncation),
    "leak": (LeakSettings, Leaks),
    "constraint_check": (ConstraintCheckSettings, ConstraintCheck),
    "dimension_check": (DimensionCheckSettings, DimensionCheck),
    "language": (LanguageSettings, Language),
    "refusal": (RefusalSettings, Refusal),
    "pii": (PiiSettings, Pii),
    "injection": (InjectionSettings, Injection),
    "duplicates": (DuplicatesSettings, Duplicates),
    "contamination": (ContaminationSettings, Contamination),
    "judge_scenarios": (JudgeScenariosSettings, JudgeScenarios),
    "judge_relevance": (JudgeRelevanceSettings, JudgeRelevance),
    "judge_polarity": (JudgePolaritySettings, JudgePolarity),
}

SCREENS = ("duplicates",)
"""The kinds above that see seeds and not topics."""

DEFAULT_VALIDATORS = ("shape", "leak", "constraint_check", "duplicates")
"""What a job gets that names none. `newline_truncation` is for other writers: the rule writer means its paragraphs."""


def validators_of(chosen: Sequence[Settings]) -> tuple[Validator, ...]:
    """The chain over topics, cheap to dear; of equal cost in the order given."""
    built = [_built(settings) for settings in chosen if _kind(settings) not in SCREENS]
    return tuple(sorted(built, key=lambda validator: validator.cost))


def screens_of(chosen: Sequence[Settings]) -> tuple[Screen, ...]:
    """What sees the seeds first, in the order given: the screens, and for contamination its check of the query."""
    screens = []
    for settings in chosen:
        if isinstance(settings, ContaminationSettings):
            screens.append(Contamination(settings).screen)
        elif _kind(settings) in SCREENS:
            screens.append(_built(settings))
    return tuple(screens)


def _built(settings: Settings) -> Any:
    return VALIDATORS[_kind(settings)][1](settings)


def _kind(settings: Settings) -> str:
    return str(settings.model_dump()["kind"])
