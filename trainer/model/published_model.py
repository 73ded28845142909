"""A finished run on disk. Nothing heavy is imported, so a command can look for it quickly."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.model.checksums import check_model, read_facts
from foil.trainer.settings import TrainSettings
from foil.trainer.text_templates import CUT

MOST_CHANGES = 5
"""Settings that a refusal names."""

PLACES = {"path", "topics", "documents", "qrels"}
"""Where a benchmark lies; what it holds is compared by its digest (`trainer.train.run.outside`)."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A finished run: the model's directory, and the contents of its foil.json."""

    model: Path
    facts: dict[str, Any]


def fingerprint_of(settings: TrainSettings, digest: str) -> str:
    """Equal for runs that make the same model: settings (but not where it is made, nor of what folders) and the data.

    `digest`: of the data with its choices. How long texts are cut is in it too: a training that began when instructions
    were cut off is neither gone on with nor taken for done. Controls at their defaults are not: there were none then.
    """
    return sha256_hex(canonical_json([choices_of(settings), digest, CUT, *_teacher(settings)]))


def _teacher(settings: TrainSettings) -> list[str]:
    """The digest of the model that teaches, wherever it lies; empty where none does."""
    teacher = settings.loss.teacher
    return [read_facts(teacher.model)["sha256"]] if teacher and teacher.model else []


def choices_of(settings: TrainSettings) -> dict[str, Any]:
    """The settings that decide what the model is."""
    controls = ("instructions", "instruction_negatives", "bare_queries")
    teacher = settings.loss.teacher
    unread = {"device"} if settings.model.late_interaction else {"device", "late_interaction"}
    choices = settings.model_dump(
        mode="json",
        exclude={
            "workers": True, "max_failures": True, "checkpoint_steps": True, "report_to": True, "model": unread,
            "data": True, "protect": True, "mix_temperature": len(settings.data) < 2, "validation": {"benchmarks"},
            "loss": {"teacher": {"model"} if teacher.judge else {"model", "judge"}} if teacher else {"teacher"},
            **({} if settings.reranker else {"reranker": True}),
            **{name: True for name in controls if getattr(settings, name) == TrainSettings.model_fields[name].default},
        },
    )  # fmt: skip
    weights = [source.weight for source in settings.data]
    choices |= {"weights": weights} if len(weights) > 1 else {}
    benchmarks = [source.model_dump(mode="json", exclude=PLACES) for source in settings.validation.benchmarks]
    return choices | ({"benchmarks": benchmarks} if benchmarks else {})


def made_of(settings: TrainSettings, digest: str) -> dict[str, Any]:
    """What a checkpoint and foil.json keep of what a run was made of."""
    parts = {"snapshot": digest, "settings": settings.model_dump(mode="json")}
    return parts | ({"teacher": own} if (own := _teacher(settings)) else {})


def what_changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In words, what a run was made of (`made_of`) that this one is not."""
    try:
        old, new = (dict(_flat(choices_of(TrainSettings.model_validate(each["settings"])))) for each in (then, now))
    except (KeyError, ValueError):
        return "with settings that cannot be read"
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    words = [f"{key}: {_value(old.get(key))}, now {_value(new.get(key))}" for key in keys[:MOST_CHANGES]]
    words += [f"{len(keys) - MOST_CHANGES} more settings"] if len(keys) > MOST_CHANGES else []
    if then["snapshot"] != now["snapshot"]:
        words.append(f"other data (digest {then['snapshot'][:12]}, now {now['snapshot'][:12]})")
    if then.get("teacher") != now.get("teacher"):
        words.append("another teacher")
    return f"with {'; '.join(words)}" if words else "by a Foil that cut long texts otherwise"


def _flat(section: Mapping[str, Any], start: str = "train.") -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{start}{key}.")
        else:
            yield start + key, value


def _value(value: Any) -> str:
    return "none" if value is None else canonical_json(value)


def shorter_run(out: Path, settings: TrainSettings, digest: str) -> str:
    """The fingerprint of the run that ended in `out`, if this one is the same of more steps or epochs, and its last
    checkpoint is there to go on from; else ""."""
    if not (out / "model").exists() or not any((out / "checkpoints").glob("step-*")):
        return ""
    facts, schedule = read_facts(out / "model"), settings.schedule
    then = {name: facts["settings"]["schedule"][name] for name in ("steps", "epochs")}
    unit = "epochs" if schedule.epochs else "steps"
    same = settings.model_copy(update={"schedule": schedule.model_copy(update=then)})
    is_longer = (getattr(schedule, unit) or 0) > (then[unit] or 0) and bool(schedule.epochs) == bool(then["epochs"])
    return str(facts["fingerprint"]) if is_longer and facts["fingerprint"] == fingerprint_of(same, digest) else ""


def is_trained(out: Path, settings: TrainSettings, digest: str) -> bool:
    """Whether nothing is left to train: `out/model` is there, and not of a run that this one goes on from."""
    return (out / "model").exists() and not shorter_run(out, settings, digest)


def measurements_of(out: Path, settings: TrainSettings, digest: str) -> Path:
    """Where a run's measurements lie; those of the run that it goes on from become its own."""
    folder = out / "checkpoints" / f"dev-{fingerprint_of(settings, digest)[:12]}"
    shorter = shorter_run(out, settings, digest)
    if shorter and not folder.exists() and (before := folder.with_name(f"dev-{shorter[:12]}")).exists():
        before.rename(folder)
    return folder


def read_published_model(out: Path, settings: TrainSettings, digest: str) -> PublishedModel:
    """The finished run in `out`, its model's files checked.

    Raises UsageError if it was made with other settings or data, and says which, CorruptDataError if it is damaged.
    """
    facts = read_facts(out / "model")
    if facts["fingerprint"] != fingerprint_of(settings, digest):
        model, changed = out / "model", what_changed(facts, made_of(settings, digest))
        topics = "" if settings.data else f" and `train.data=[{{run: {out}}}]`"
        raise UsageError(
            f"{model} was trained {changed}; choose another `out` (to go on from it, with `train.base={model}`{topics}"
            ") or remove it"
        )
    return PublishedModel(out / "model", check_model(out / "model"))
