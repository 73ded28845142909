"""The training of a reranker: the loop, sampler, checkpoints and dev topics of an embedder, other gradients.

    BatchReader.groups -> make_lists -> add_list_gradients -> fit.run_steps -> out/model

Promise: on CPU a resumed run ends with exactly the weights of an uninterrupted one. It trains in one process.
"""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from foil.datasets_out.training.training_view import TrainingView
from foil.trainer.model.checkpoint import keep_newest, require_finite
from foil.trainer.model.pair_scorer import PairScorer, load_starting_scorer, save_pair_scorer
from foil.trainer.model.published_model import PublishedModel, is_trained, measurements_of, read_published_model
from foil.trainer.settings import TrainSettings
from foil.trainer.train.loss.batch_loss import BatchLoss
from foil.trainer.train.reranker.batch_gradients import add_list_gradients
from foil.trainer.train.reranker.ranking_lists import make_lists
from foil.trainer.train.run.fit import BatchReader, Hooks, run_steps
from foil.trainer.train.run.logs import logs_of
from foil.trainer.train.run.monitor import NO_CALLBACKS, Callbacks, Monitor
from foil.trainer.train.run.publish import facts_of_run, publish_model, tell_warnings
from foil.trainer.train.run.validation import Validation, measure_reranker


@dataclass(frozen=True, slots=True)
class RerankerLearner:
    """A cross-encoder and the topics that it learns from."""

    model: PairScorer
    settings: TrainSettings
    batches: BatchReader

    def add_gradients(self, step: int, seed: int) -> BatchLoss:
        """The lists of a step follow from the schedule's seed and the step, dropout from `seed`."""
        assert self.settings.reranker
        list_seed = int(np.random.SeedSequence((self.settings.schedule.seed, step, 2)).generate_state(1)[0])
        other_passages = self.settings.reranker.other_passages
        lists = make_lists(self.batches.groups(step), self.model.texts, other_passages, list_seed)
        return add_list_gradients(self.model, lists, self.settings.reranker, self.settings.retention.plain_weight, seed)


@dataclass(frozen=True, slots=True)
class _FittedReranker:
    """A run whose steps are all done."""

    model: PairScorer
    losses: list[float]
    validation: Validation
    monitor: Monitor


def train_reranker(
    settings: TrainSettings, view: TrainingView, out: Path, command: str = "", callbacks: Callbacks = NO_CALLBACKS
) -> PublishedModel:
    """Trains (or resumes, or finds done) and publishes `out/model`; raises as `fit.train` does."""
    if not is_trained(out, settings, view.digest):
        scorer, folder = load_starting_scorer(settings), measurements_of(out, settings, view.digest)
        validation = Validation(folder, settings, view, load_starting_scorer, measure_reranker)
        monitor = Monitor(validation, logs_of(settings, out), callbacks, settings.checkpoint_steps)
        losses = fit_reranker(scorer, settings, view, out / "checkpoints", monitor)
        _publish(_FittedReranker(scorer, losses, validation, monitor), settings, view, out, command)
    keep_newest(out / "checkpoints", 1)
    return read_published_model(out, settings, view.digest)


def fit_reranker(
    scorer: PairScorer, settings: TrainSettings, view: TrainingView, checkpoints: Path, monitor: Monitor
) -> list[float]:
    """Trains `scorer` in place, from its newest checkpoint on; returns the losses of all steps."""
    learner = RerankerLearner(scorer, settings, BatchReader(view, settings, scorer.texts))
    return run_steps(learner, settings, view, checkpoints, Hooks(monitor.on_step, monitor.on_weights))


def _publish(result: _FittedReranker, settings: TrainSettings, view: TrainingView, out: Path, command: str) -> None:
    """Publishes the last step's weights, or the best one's."""
    results, step, scorer = result.monitor.close(), len(result.losses), result.model
    if settings.validation.keep == "best":
        step = result.validation.best_step(results) or 0
        result.validation.load(step, scorer)
    require_finite(scorer, f"after step {step}")
    facts = {
        **facts_of_run(settings, view, result.losses, command, results),
        "template": asdict(scorer.template),
        "step": step,
        "blend": 1.0,
        "curve": [],
        "warnings": tell_warnings(out),
    }
    publish_model(partial(save_pair_scorer, scorer), facts, [], results, out)
