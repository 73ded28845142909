"""What the weights of a step are worth on dev topics, and of which step they are the best.

    weights of a step -> measured in this process ---------------------> step-00000100.json -> the best so far
                      -> step-00000100/ -> measured by another process -^

Held-out topics are never read here: a run may choose on dev topics alone. The numbers and their weights stay together
on disk, so that a resumed run measures nothing twice, and a measurement that was lost is made up for at the end.
Price: one encoding of the dev topics each time, and the weights of the best step on disk.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from datasets_out.training.training_view import TopicGroup, TrainingView
from engine.atomic_files import put_json, read_json
from engine.errors import UsageError
from trainer.evaluation.blend import best_allowed
from trainer.evaluation.evaluate import evaluate, means
from trainer.model.checkpoint import load_weights, publish, save_weights
from trainer.model.encoder import Encoder, starting_encoder
from trainer.settings import EvaluateSettings, TrainSettings


@dataclass(frozen=True, slots=True)
class Measured:
    """The means of all measures on the dev topics after so many steps, in points; 0 is the model at the beginning."""

    step: int
    means: dict[str, float]
    seconds: float


class Validation:
    """The measurements of one run, in a folder of its own; several processes may share it. `last` is its last step.

    Raises UsageError if the settings ask for a choice and there are no dev topics to make it on.
    """

    def __init__(self, folder: Path, settings: TrainSettings, view: TrainingView) -> None:
        self._folder, self._settings, self._view = folder, settings, view
        self.last = settings.schedule.over(len(view.partitions("train"))).steps
        there = len(view.partitions("dev"))
        most = settings.validation.topics
        self._topics = np.linspace(0, there, min(there, most), endpoint=False).astype(int).tolist()
        asked = settings.validation.steps or settings.validation.keep == "best"
        if asked and most and not there:
            raise UsageError(
                "there are no dev topics to measure on; raise `split.dev_share`, or leave `validation` out"
            )

    @cached_property
    def groups(self) -> list[TopicGroup]:
        """The dev topics that are measured on: all, or `validation.topics` of them, evenly spread."""
        return self._view.read("dev", self._topics)

    def due(self, step: int) -> bool:
        """Whether the weights after this step are measured: the same answer for every worker."""
        every = self._settings.validation.steps
        return bool(self._topics) and (step in (0, self.last) or (every > 0 and step % every == 0))

    def done(self, step: int) -> bool:
        """Whether the numbers of a step are there."""
        return self._numbers(step).exists()

    def measure(self, step: int, encoder: Encoder) -> Measured:
        """Measures weights, and keeps them if they are the best so far. Not done twice for a step."""
        if not self.done(step):
            started = time.perf_counter()
            found = Measured(step, measure(encoder, self.groups), time.perf_counter() - started)
            self._check(found)
            if self.best([*self.results(), found]) == step:
                self.store(step, encoder)
            put_json(self._numbers(step), asdict(found))
        self._tidy()
        return self._measured(step)

    def store(self, step: int, encoder: Encoder) -> None:
        """Lays the weights of a step down, for another process to measure."""
        publish(self._weights(step), lambda draft: save_weights(encoder, draft))

    def measure_stored(self, step: int) -> Measured:
        """Measures weights that were stored; meant for another process than the one that trains."""
        if self.done(step):
            return self._measured(step)
        encoder = starting_encoder(self._settings)
        self.load(step, encoder)
        return self.measure(step, encoder)

    def settle(self) -> None:
        """Measures all that was stored and is not measured yet."""
        for place in sorted(self._folder.glob("step-*/")):
            self.measure_stored(int(place.name[5:]))
        self._tidy()

    def load(self, step: int, encoder: Encoder) -> None:
        """Puts stored weights into an encoder."""
        load_weights(self._weights(step), encoder)

    def results(self) -> list[Measured]:
        """All that was measured, by step."""
        return [self._measured(int(path.stem[5:])) for path in sorted(self._folder.glob("step-*.json"))]

    def best(self, results: Sequence[Measured]) -> int | None:
        """The step with the best weights among these; None while the beginning's numbers are missing."""
        wanted = self._settings.validation.measure
        if not results or results[0].step or any(wanted not in one.means for one in results):
            return None
        allowed = self._settings.retention.plain_loss_allowed
        return results[best_allowed([one.means for one in results], allowed, wanted)].step

    def _check(self, found: Measured) -> None:
        plan = self._settings.validation
        if plan.keep == "best" and plan.measure not in found.means:
            raise UsageError(
                f"dev topics show no {plan.measure}, by which the best step is chosen; set `validation.measure` to one "
                f"that they show ({', '.join(found.means)}), or `validation.keep` to last"
            )

    def _tidy(self) -> None:
        """Removes measured weights other than the best, once that can be told."""
        results = self.results()
        best = self.best(results)
        for one in results:
            if not results[0].step and one.step != best:
                shutil.rmtree(self._weights(one.step), ignore_errors=True)

    def _measured(self, step: int) -> Measured:
        return Measured(**read_json(self._numbers(step)))

    def _weights(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}"

    def _numbers(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}.json"


def measure(encoder: Encoder, groups: Sequence[TopicGroup]) -> dict[str, float]:
    """The means of all measures of an encoder on these topics."""
    return means(evaluate(encoder, groups, EvaluateSettings()))
