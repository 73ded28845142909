"""The validators that a job can name, and how the named ones become a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.protocols import Screen, Validator
from engine.settings import Settings
from validators.checks.constraint_check import ConstraintCheck, ConstraintCheckSettings
from validators.checks.dimension_check import DimensionCheck, DimensionCheckSettings
from validators.checks.injection import Injection, InjectionSettings
from validators.checks.language import Language, LanguageSettings
from validators.checks.leak import Leaks, LeakSettings
from validators.checks.newline_truncation import NewlineTruncation, NewlineTruncationSettings
from validators.checks.pii import Pii, PiiSettings
from validators.checks.refusal import Refusal, RefusalSettings
from validators.checks.shape import Shape, ShapeSettings
from validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings
from validators.overlap.contamination import Contamination, ContaminationSettings
from validators.overlap.duplicates import Duplicates, DuplicatesSettings

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
