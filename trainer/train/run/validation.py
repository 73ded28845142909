"""Measures the weights of some steps on dev topics and dev benchmarks, and says which step has the best ones.

    weights of a step -> measured in this process ---------------------> step-00000100.json -> the best so far
                      -> step-00000100/ -> measured by another process -^

Held-out topics are never read here. Measurements stay on disk with the weights, so a resumed run measures no step
twice, and a measurement that another process lost is repeated at the end.
Price: one encoding of all that is measured on each time, and the weights of the best step on disk.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from foil.datasets_out.training.training_view import TopicGroup, TrainingView
from foil.engine.atomic_files import put_json, read_json
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.storage.trees import upload
from foil.trainer.evaluate.comparison.results import means
from foil.trainer.evaluate.comparison.topics import score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem, ScorerSystem
from foil.trainer.model.checkpoint import load_weights, publish, save_weights
from foil.trainer.model.encoder import Encoder, load_starting_encoder
from foil.trainer.model.pair_scorer import PairScorer
from foil.trainer.settings import TrainSettings
from foil.trainer.train.run.blend import best_allowed
from foil.trainer.train.run.outside import Outside


@dataclass(frozen=True, slots=True)
class Measurement:
    """The means of all measures on the dev topics after `step` steps, in points; step 0 is the base model."""

    step: int
    means: dict[str, float]
    seconds: float


def measure(encoder: Encoder, groups: Sequence[TopicGroup]) -> dict[str, float]:
    """The means of all measures of an encoder on these topics, in points."""
    return means([score_topics(EncoderSystem("weights", encoder), groups)], "weights", "queries")


def measure_reranker(scorer: PairScorer, groups: Sequence[TopicGroup]) -> dict[str, float]:
    """The same of a reranker, over the candidates of each topic."""
    return means([score_topics(ScorerSystem("weights", scorer), groups, candidates=True)], "weights", "queries")


class Validation:
    """The measurements of one run, in a folder that several processes may share. `last_step` is the run's last one.

    `load_model` makes the run's model before its first step, and `measure_model` measures such a one in points.
    Raises UsageError if the settings ask for a choice and there are no dev topics to make it on.
    """

    def __init__(
        self,
        folder: Path,
        settings: TrainSettings,
        view: TrainingView,
        load_model: Callable[[TrainSettings], nn.Module] = load_starting_encoder,
        measure_model: Callable[[Any, Sequence[TopicGroup]], dict[str, float]] = measure,
    ) -> None:
        self._folder, self._settings, self._view = folder, settings, view
        self.outside = Outside(settings.validation.benchmarks, folder)
        self._load_model, self._measure_model = load_model, measure_model
        self.last_step = settings.schedule.with_steps_for(len(view.partitions("train"))).steps
        dev_count = len(view.partitions("dev"))
        topic_count = settings.validation.topics
        self._topics = np.linspace(0, dev_count, min(dev_count, topic_count), endpoint=False).astype(int).tolist()
        needs_dev = settings.validation.steps or settings.validation.keep == "best"
        if needs_dev and topic_count and not dev_count:
            raise UsageError(
                "there are no dev topics to measure on; raise `split.dev_share`, or leave `validation` out"
            )

    @cached_property
    def groups(self) -> list[TopicGroup]:
        """The dev topics that are measured on: all, or `validation.topics` of them, evenly spread."""
        return self._view.read("dev", self._topics)

    @property
    def measures(self) -> bool:
        """Whether there is anything to measure on."""
        return bool(self._topics or self.outside.sources)

    def is_due(self, step: int) -> bool:
        """Whether the weights after this step are measured: the same answer for every worker."""
        interval = self._settings.validation.steps
        return self.measures and (step in (0, self.last_step) or (interval > 0 and step % interval == 0))

    def is_measured(self, step: int) -> bool:
        """Whether a step has its measurement."""
        return self._results_path(step).exists()

    def measure(self, step: int, model: nn.Module) -> Measurement:
        """Measures weights once, and keeps them if they are the best so far."""
        if not self.is_measured(step):
            started = time.perf_counter()
            measurement = Measurement(step, self.means_of(model), time.perf_counter() - started)
            self._check(measurement)
            if self.best_step([*self.results(), measurement]) == step:
                self.store(step, model)
            put_json(self._results_path(step), asdict(measurement))
        self._remove_worse_weights()
        upload(self._folder)
        return self._read(step)

    def means_of(self, model: Any) -> dict[str, float]:
        """All measures of a model, in points: on the dev topics, and on the benchmarks of others."""
        return (self._measure_model(model, self.groups) if self._topics else {}) | self.outside.means_of(model)

    def store(self, step: int, model: nn.Module) -> None:
        """Stores the weights of a step, for another process to measure."""
        publish(self._weights_path(step), lambda draft: save_weights(model, draft))

    def measure_stored(self, step: int) -> Measurement:
        """Measures stored weights, in another process than the one that trains."""
        if self.is_measured(step):
            return self._read(step)
        model = self._load_model(self._settings)
        self.load(step, model)
        return self.measure(step, model)

    def measure_remaining(self) -> None:
        """Measures all weights that were stored and are not measured yet."""
        for folder in sorted(self._folder.glob("step-*/")):
            self.measure_stored(int(folder.name[5:]))
        self._remove_worse_weights()

    def load(self, step: int, model: nn.Module) -> None:
        """Puts stored weights into a model."""
        load_weights(self._weights_path(step), model)

    def results(self) -> list[Measurement]:
        """All measurements, by step."""
        return [self._read(int(path.stem[5:])) for path in sorted(self._folder.glob("step-*.json"))]

    def best_step(self, results: Sequence[Measurement]) -> int | None:
        """The step with the best weights among these; None without the measurement of step 0."""
        measure_name = self._settings.validation.measure
        if not results or results[0].step or any(measure_name not in result.means for result in results):
            return None
        loss_allowed = self._settings.retention.plain_loss_allowed
        return results[best_allowed([result.means for result in results], loss_allowed, measure_name)].step

    def _check(self, measurement: Measurement) -> None:
        plan = self._settings.validation
        if plan.keep == "best" and plan.measure not in measurement.means:
            raise UsageError(
                f"nothing measured shows {plan.measure}, by which the best step is chosen; set `validation.measure` to "
                f"one of those shown ({', '.join(measurement.means)}), or `validation.keep` to last"
            )

    def _remove_worse_weights(self) -> None:
        """Removes measured weights other than the best, once step 0 is measured."""
        results = self.results()
        best = self.best_step(results)
        for result in results:
            if not results[0].step and result.step != best:
                shutil.rmtree(self._weights_path(result.step), ignore_errors=True)

    def _read(self, step: int) -> Measurement:
        path = self._results_path(step)
        try:
            return Measurement(**read_json(path))
        except TypeError as error:
            raise CorruptDataError(
                f"{path} is no measurement ({error}); remove its directory and train again"
            ) from error

    def _weights_path(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}"

    def _results_path(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}.json"
