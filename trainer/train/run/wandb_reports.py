"""Sends each step and each measurement of a training to Weights & Biases, where `train.report_to` names it.

    Callbacks -> wandb.init(...).log -> its server, or OUT/wandb with WANDB_MODE=offline

wandb's own variables hold (WANDB_MODE, WANDB_PROJECT, WANDB_DIR, ...); else the project is foil. The run's id lies with
the checkpoints: a resumed training goes on in its run, where a step that was sent stays as it was. Offline each start
writes a folder of its own; `wandb sync` joins those of one id. No code and no output is sent.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import wandb

from foil.engine.atomic_files import put_text
from foil.engine.errors import UsageError
from foil.trainer.settings import TrainSettings
from foil.trainer.train.run.logs import LogRow
from foil.trainer.train.run.monitor import Callbacks
from foil.trainer.train.run.validation import Measurement

_QUIET = {"console": "off", "disable_code": True, "disable_git": True, "save_code": False, "silent": True}


@contextmanager
def wandb_reports(settings: TrainSettings, out: Path) -> Iterator[Callbacks]:
    """What reports a training in `out` while it goes on. Raises UsageError where wandb does not start."""
    id_file = out / "checkpoints" / "wandb-id"
    if not id_file.exists():
        put_text(id_file, uuid.uuid4().hex[:8])
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "foil"), name=out.resolve().name, id=id_file.read_text().strip(),
            resume="allow", dir=os.environ.get("WANDB_DIR", out), config=settings.model_dump(mode="json"),
            settings=wandb.Settings(**_QUIET),
        )  # fmt: skip
    except wandb.Error as error:
        raise UsageError(
            f"wandb did not start ({error}); `wandb login`, WANDB_MODE=offline, or no wandb in train.report_to"
        ) from error
    run.define_metric("dev/*", step_metric="dev/step")

    def on_step(row: LogRow) -> None:
        run.log({f"train/{name}": value for name, value in asdict(row).items() if name != "step"}, step=row.step)

    def on_measured(measurement: Measurement) -> None:
        run.log({"dev/step": measurement.step, **{f"dev/{name}": mean for name, mean in measurement.means.items()}})

    with run:
        yield Callbacks(on_step, on_measured)
