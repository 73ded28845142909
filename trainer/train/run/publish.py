"""Chooses the weights of a finished run, and publishes them as `out/model`.

    the last step's weights, or the best one's -> blends with the base, on dev topics -> one share
    -> model files, foil.json, README.md, training.png, curve.png

Price: one encoding of the dev topics for each share that was not measured before.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from foil.datasets_out.training.training_view import TrainingView
from foil.engine.atomic_files import write_json
from foil.engine.errors import UsageError
from foil.engine.storage.trees import upload
from foil.trainer.model.card import DRAWINGS, model_card
from foil.trainer.model.checkpoint import blend_weights, publish, put_weights, require_finite, weights
from foil.trainer.model.checksums import FACTS, digests_of, read_facts, sealed
from foil.trainer.model.encoder import Encoder, save_encoder
from foil.trainer.model.published_model import fingerprint_of, made_of
from foil.trainer.model.two_encoders import ROUTES
from foil.trainer.settings import TrainSettings
from foil.trainer.train.run.blend import BlendPoint, base_weights, choose_share, draw_curve, measure_blends
from foil.trainer.train.run.logs import LogRow, draw_training, read_rows
from foil.trainer.train.run.monitor import Monitor
from foil.trainer.train.run.validation import Measurement, Validation

LOG = logging.getLogger(__name__)

NOTHING_LEFT = 0.0005
"""A loss below this, which is shown as 0.000, leaves nothing to learn."""
NOTHING_LEARNED = 0.02
"""A loss that lies so near that of equal scores, as a share of it, has learned nothing."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A run whose steps are all done: the encoder has the last step's weights, the base those of step 0."""

    encoder: Encoder
    base: Encoder
    losses: list[float]
    validation: Validation
    monitor: Monitor


def publish_result(
    result: TrainingResult, settings: TrainSettings, view: TrainingView, out: Path, command: str
) -> None:
    """Chooses and publishes `out/model`; the encoder is left with its weights.

    Raises TrainingDivergedError if these are not finite.
    """
    results = result.monitor.close()
    step = len(result.losses)
    if settings.validation.keep == "best":
        step = result.validation.best_step(results) or 0
        result.validation.load(step, result.encoder)
    curve, share = _choose_share(result, settings, {measurement.step: measurement for measurement in results}, step)
    put_weights(
        result.encoder, blend_weights(base_weights(result.base, result.encoder), weights(result.encoder), share)
    )
    require_finite(result.encoder, f"with the share {share:g} of the trained weights")
    warnings = tell_warnings(out)
    facts = {
        **facts_of_run(settings, view, result.losses, command, results),
        "benchmarks": result.validation.outside.digests(),
        "template": asdict(result.encoder.template),
        "step": step,
        "blend": share,
        "curve": [asdict(point) for point in curve],
        "warnings": warnings,
    }
    result.encoder.model.prompts = dict.fromkeys(ROUTES, "")
    publish_model(partial(save_encoder, result.encoder), facts, curve, results, out)


def facts_of_run(
    settings: TrainSettings, view: TrainingView, losses: list[float], command: str, results: Sequence[Measurement]
) -> dict[str, Any]:
    """What foil.json says of a run, whatever it trained."""
    return {
        "fingerprint": fingerprint_of(settings, view.digest),
        **made_of(settings, view.digest),
        "sources": [
            {**source.facts(), "topics": len(topics)}
            for source, topics in zip(view.sources, view.members("train"), strict=True)
        ],
        "command": command,
        "validations": [asdict(measurement) for measurement in results],
        "data": view.facts,
        "licences": view.licences(),
        "losses": losses,
    }


def tell_warnings(out: Path) -> list[str]:
    """The warnings of the run in `out`, which are logged too."""
    warnings = find_warnings(read_rows(out / "logs" / "train.csv"))
    for warning in warnings:
        LOG.warning("%s", warning)
    return warnings


def find_warnings(rows: Sequence[LogRow]) -> list[str]:
    """What the log of a finished run says against its model, in words; empty where nothing does.

    A model that learned nothing: over the last tenth of the steps the mean loss lies within 2 % of the mean of
    log(number of candidates of an anchor), the loss of a model to which all candidates are alike
    (`losses.equal_scores_losses`).
    A loss of nothing: that mean lies below NOTHING_LEFT, so that no candidate was left to learn from.
    """
    end = rows[-max(1, len(rows) // 10) :]
    if end and fmean(row.loss for row in end) < NOTHING_LEFT:
        return [_nothing_left(rows)]
    last = [row for row in end if row.equal_scores_loss]
    if not last:
        return []
    loss, alike = fmean(row.loss for row in last), fmean(row.equal_scores_loss for row in last)
    if abs(loss - alike) > NOTHING_LEARNED * alike:
        return []
    words = (
        f"the model learned nothing: its loss at the end, {loss:.4f}, is that of a model to which all candidates are "
        f"alike, {alike:.4f}; look at `schedule.learning_rate`, `schedule.steps` and the data"
    )
    return [words]


def _nothing_left(rows: Sequence[LogRow]) -> str:
    first = next(row.step for row in rows if row.loss < NOTHING_LEFT)
    return (
        f"the loss fell to {rows[-1].loss:.4f}, and below {NOTHING_LEFT} at step {first} of {rows[-1].step}: the model "
        "tells all candidates apart, so the last steps taught it nothing, and a loss of 0 from the start means that a "
        "query and its passage give each other away; look at the data, at harder negatives and at fewer steps"
    )


def _choose_share(
    result: TrainingResult, settings: TrainSettings, results: dict[int, Measurement], step: int
) -> tuple[list[BlendPoint], float]:
    """The dev curve, and the share chosen on it. With one blend there is no choice; other shares are only drawn."""
    retention, validation = settings.retention, result.validation
    single = len(retention.blends) == 1
    if single and not (validation.measures and retention.drawn_shares):
        return [], retention.blends[0]
    if not validation.measures:
        raise UsageError(
            "there are no dev topics to choose a blend on; raise `dev_share` and `validation.topics`, or give one blend"
        )
    known_means = {
        share: results[measured_step].means
        for share, measured_step in ((0.0, 0), (1.0, step))
        if measured_step in results
    }
    shares = (*retention.blends, *(retention.drawn_shares if single else ()))
    curve = measure_blends(result.encoder, result.base, shares, validation.means_of, known_means)
    return curve, retention.blends[0] if single else choose_share(curve, retention, settings.validation.measure)


def publish_model(
    save: Callable[[Path], None],
    facts: dict[str, Any],
    curve: Sequence[BlendPoint],
    results: Sequence[Measurement],
    out: Path,
) -> None:
    """Publishes `out/model`: what `save` writes into a folder, foil.json, the drawings and the card.

    The model of a run of fewer steps goes; `went_on_at` names the steps at which such runs had ended.
    """
    before = read_facts(out / "model") if (out / "model").exists() else None
    facts |= {"went_on_at": [*before.get("went_on_at", []), len(before["losses"])] if before else []}

    def write(draft: Path) -> None:
        save(draft)
        write_json(draft / FACTS, sealed({**facts, "files": digests_of(draft)}))
        draw_training(read_rows(out / "logs" / "train.csv"), results, facts["step"], draft / "training.png")
        if curve and all({"plain_ndcg", "both_views"} <= set(point.means) for point in curve):
            draw_curve(curve, facts["blend"], draft / "curve.png")
        drawings = [name for name in DRAWINGS if (draft / name).exists()]
        (draft / "README.md").write_text(model_card(facts, drawings), encoding="utf-8")

    publish(out / "model", write, over=True)
    upload(out / "logs")
