"""What becomes of the weights once the last step is done: which of them, mixed with the base in which share, with which
numbers and drawings, as `out/model`.

    the last step's weights, or the best one's -> blends with the base, on dev topics -> one share
    -> model files, foil.json, README.md, training.png, curve.png

Price: one encoding of the dev topics a share that was not measured before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from datasets_out.training.training_view import TrainingView
from engine.atomic_files import write_json
from engine.errors import UsageError
from trainer.evaluation.blend import Point, beginning, choose, draw, measure_blends
from trainer.evaluation.validation import Measured, Validation, measure
from trainer.model.checkpoint import blend, publish, put_weights, weights
from trainer.model.encoder import Encoder, save_encoder
from trainer.model.published_model import fingerprint_of
from trainer.run.card import DRAWINGS, model_card
from trainer.run.logs import draw_training, read_rows
from trainer.run.monitor import Monitor
from trainer.settings import TrainSettings
from trainer.text_templates import template_named


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A run whose steps are all done: the encoder has the last one's weights, the base those of the beginning."""

    encoder: Encoder
    base: Encoder
    losses: list[float]
    validation: Validation
    watch: Monitor


def finish(learnt: TrainingResult, settings: TrainSettings, view: TrainingView, out: Path, command: str) -> None:
    """Chooses and publishes `out/model`; the encoder is left with its weights."""
    results = learnt.watch.close()
    step = len(learnt.losses)
    if settings.validation.keep == "best":
        step = learnt.validation.best(results) or 0
        learnt.validation.load(step, learnt.encoder)
    curve, share = _choose(learnt, settings, {one.step: one for one in results}, step)
    put_weights(learnt.encoder, blend(beginning(learnt.base, learnt.encoder), weights(learnt.encoder), share))
    facts = {
        "fingerprint": fingerprint_of(settings, view.digest),
        "snapshot": view.digest,
        "command": command,
        "template": asdict(template_named(settings.template)),
        "step": step,
        "blend": share,
        "curve": [asdict(point) for point in curve],
        "validations": [asdict(one) for one in results],
        "data": view.facts,
        "licences": view.licences(),
        "losses": learnt.losses,
        "settings": settings.model_dump(mode="json"),
    }
    _publish(learnt.encoder, facts, curve, results, out)


def _choose(
    learnt: TrainingResult, settings: TrainSettings, results: dict[int, Measured], step: int
) -> tuple[list[Point], float]:
    """The dev curve, and the share chosen on it; a single blend is taken unchosen, and other shares are only drawn."""
    keep, groups = settings.retention, learnt.validation.groups
    single = len(keep.blends) == 1
    if single and not (groups and keep.drawn_shares):
        return [], keep.blends[0]
    if not groups:
        raise UsageError(
            "there are no dev topics to choose a blend on; raise `dev_share` and `validation.topics`, or give one blend"
        )
    known = {share: results[at].means for share, at in ((0.0, 0), (1.0, step)) if at in results}
    shares = (*keep.blends, *(keep.drawn_shares if single else ()))
    curve = measure_blends(learnt.encoder, learnt.base, shares, partial(measure, groups=groups), known)
    return curve, keep.blends[0] if single else choose(curve, keep)


def _publish(
    encoder: Encoder, facts: dict[str, Any], curve: Sequence[Point], results: Sequence[Measured], out: Path
) -> None:
    def write(draft: Path) -> None:
        encoder.model.prompts = dict.fromkeys(("query", "document"), "")
        save_encoder(encoder, draft)
        write_json(draft / "foil.json", facts)
        draw_training(read_rows(out / "logs" / "train.csv"), results, facts["step"], draft / "training.png")
        if curve and all({"plain_ndcg", "both_views"} <= set(point.means) for point in curve):
            draw(curve, facts["blend"], draft / "curve.png")
        drawings = [name for name in DRAWINGS if (draft / name).exists()]
        (draft / "README.md").write_text(model_card(facts, drawings), encoding="utf-8")

    publish(out / "model", write)
