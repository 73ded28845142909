"""What is said of the mistakes in a job, and what an unknown key may have meant."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from foil.cluster.yaml_page import KeyPath, cut, is_hidden, shown
from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.trainer.settings import TrainSettings

_OTHER_NAMES = {  # as sentence-transformers, transformers and others have them
    "schedule.topics_per_batch": "batch_size per_device_train_batch_size train_batch_size",
    "encode.micro_batch_tokens": "mini_batch_size",
    "gradient_cache": "gradient_accumulation_steps",
    "model.gradient_checkpointing": "gradient_checkpointing",
    "schedule.epochs": "num_train_epochs num_epochs",
    "schedule.steps": "max_steps",
    "schedule.learning_rate": "lr learning_rate",
    "schedule.decay": "lr_scheduler_type",
    "schedule.warmup_steps": "warmup_steps warmup_ratio",
    "schedule.weight_decay": "weight_decay",
    "schedule.clip_norm": "max_grad_norm",
    "schedule.seed": "seed data_seed",
    "encode.precision": "bf16 fp16",
    "encode.max_tokens": "max_seq_length max_length passage_max_len",
    "encode.query_tokens": "query_max_len",
    "loss.temperature": "scale temperature",
    "model.pooling": "pooling_mode",
    "model.matryoshka": "matryoshka_dims",
    "model.lora": "use_lora peft_config",
    "template": "prompts",
    "distractors": "num_negatives train_group_size",
    "validation.steps": "eval_steps",
    "checkpoint_steps": "save_steps",
    "validation.keep": "load_best_model_at_end",
    "validation.measure": "metric_for_best_model",
    "base": "model_name_or_path",
}
NAMES = {other_name: key for key, other_names in _OTHER_NAMES.items() for other_name in other_names.split()}
"""The usual name of an argument -> the key in a job's section `train`."""

MAX_MISTAKES = 50
"""That one refusal lists."""


def found(key_path: KeyPath, value: Any, joint: str = ", ") -> str:
    """What stands there, where it may be shown."""
    return "" if is_hidden(key_path) else f"{joint}found {shown(value)}"


def describe(error: Any, settings: type[Settings], ending: str) -> str:
    """What is wrong with a section, of one of pydantic's errors; `ending`: what stands there."""
    if error["type"] == "extra_forbidden" and (words := unknown_key(settings, error["loc"])):
        return words
    if error["type"] == "missing":
        return "is missing; add it"
    if error["type"] == "secret_in_job":
        return str(error["msg"])
    return f"{error['msg']}{ending}"


def refusal(title: str, mistakes: Sequence[str]) -> UsageError:
    """One error that lists the mistakes."""
    more = [f"and {len(mistakes) - MAX_MISTAKES:,} more"] if len(mistakes) > MAX_MISTAKES else []
    return UsageError(f"{title}:\n  " + "\n  ".join([*(cut(each, 2_000) for each in mistakes[:MAX_MISTAKES]), *more]))


def unknown_key(settings: type[Settings], place: Sequence[str | int]) -> str:
    """Words on a key that the settings do not have at `place`: what there is, and what comes nearest."""
    *parents, key = place
    section: type[Settings] | None = settings
    for step in parents:
        field = section.model_fields.get(str(step)) if section and isinstance(step, str) else None
        section = _settings_in(field.annotation) if field else section
    if section is None:
        return ""
    nearest = _nearest(settings, str(key))
    question = f"did you mean {nearest}? " if nearest else ""
    return f"unknown key; {question}{section.__name__} has {', '.join(section.model_fields)}"


def _nearest(settings: type[Settings], key: str) -> str | None:
    """The key that has this name elsewhere (in other libraries, in another section), or nearly this name."""
    keys = list(_keys(settings))
    if settings is TrainSettings and NAMES.get(key) in keys:
        return NAMES[key]
    names = {dotted.rpartition(".")[2]: dotted for dotted in reversed(keys)}
    return next((names[name] for name in get_close_matches(key, names, 1, 0.7)), None)


def _keys(settings: type[Settings], start: str = "") -> Iterator[str]:
    """The dotted key of every setting, sections before what they hold."""
    for name, field in settings.model_fields.items():
        yield start + name
        if inner := _settings_in(field.annotation):
            yield from _keys(inner, f"{start}{name}.")


def _settings_in(annotation: object) -> type[Settings] | None:
    """The settings that a field holds, alone or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := _settings_in(part))), None)
