"""A finished run on disk. Nothing heavy is imported, so a command can look for it quickly."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.model.checksums import check_model, read_facts
from foil.trainer.settings import TrainSettings
from foil.trainer.text_templates import CUT

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
    controls = ("instructions", "instruction_negatives", "bare_queries")
    choices = settings.model_dump(
        mode="json",
        exclude={
            "workers": True, "max_failures": True, "checkpoint_steps": True, "model": {"device"}, "data": True,
            "protect": True, "mix_temperature": len(settings.data) < 2, "validation": {"benchmarks"},
            **({} if settings.reranker else {"reranker": True}),
            **{name: True for name in controls if getattr(settings, name) == TrainSettings.model_fields[name].default},
        },
    )  # fmt: skip
    weights = [source.weight for source in settings.data]
    choices |= {"weights": weights} if len(weights) > 1 else {}
    benchmarks = [source.model_dump(mode="json", exclude=PLACES) for source in settings.validation.benchmarks]
    choices |= {"benchmarks": benchmarks} if benchmarks else {}
    return sha256_hex(canonical_json([choices, digest, CUT]))


def read_published_model(out: Path, fingerprint: str) -> PublishedModel:
    """The finished run in `out`, its model's files checked.

    Raises UsageError if it was made with other settings or data, CorruptDataError if it is damaged.
    """
    if read_facts(out / "model")["fingerprint"] != fingerprint:
        raise UsageError(
            f"{out / 'model'} was trained with other settings or data, or by a Foil that cut long texts otherwise; "
            "choose another `out` or remove it"
        )
    return PublishedModel(out / "model", check_model(out / "model"))
