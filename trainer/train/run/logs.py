"""The logs of a run: rows of numbers, TensorBoard's events, and a drawing of both.

    out/logs/train.csv         a row a step: loss, learning rate, gradient norm, speed
    out/logs/validation.csv    a row a measurement on dev topics, by step
    out/logs/events.out.*      the same for TensorBoard, where `train.report_to` names it

A resumed run removes the rows and events after its checkpoint, so that each step has one row. Price: it writes the
events of the steps before once more.
"""

import csv
import io
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary

from foil.engine.atomic_files import put_text
from foil.engine.errors import CorruptDataError
from foil.trainer.settings import TrainSettings
from foil.trainer.train.run.validation import Measurement


@dataclass(frozen=True, slots=True)
class LogRow:
    """One step, counted from 1; speeds are over all workers, tokens without padding.

    `equal_scores_loss` is its loss if all candidates scored the same.
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    topics_per_s: float
    tokens_per_s: float
    equal_scores_loss: float


class Logs:
    """The files of one run in `folder`, from `step` on; rows of later steps are removed. One process writes."""

    def __init__(self, folder: Path, step: int, *, events: bool = True) -> None:
        path = folder / "train.csv"
        rows = [row for row in read_rows(path) if row.step <= step]
        put_text(path, _table([field.name for field in fields(LogRow)], map(astuple, rows)))
        for events_file in folder.glob("events.out.*"):
            events_file.unlink()
        self._folder = folder
        self._file = path.open("a", encoding="utf-8", newline="")
        # the SummaryWriter's thread dies when the clock steps back
        self._events = EventsWriter(str(folder / "events")) if events else None
        self._measured: set[int] = set()
        for row in rows:
            self._add_scalars("train", asdict(row))

    def add_step(self, row: LogRow) -> None:
        """Adds a row."""
        self._file.write(_table(astuple(row), []))
        self._file.flush()
        self._add_scalars("train", asdict(row))

    def write_measurements(self, results: Sequence[Measurement]) -> None:
        """Writes all measurements so far."""
        names = list(dict.fromkeys(name for result in results for name in result.means))
        rows = [[result.step, *(result.means.get(name, "") for name in names), result.seconds] for result in results]
        put_text(self._folder / "validation.csv", _table(["step", *names, "seconds"], rows))
        for result in results:
            if result.step not in self._measured:
                self._add_scalars("dev", {"step": result.step, **result.means})
        self._measured = {result.step for result in results}

    def sync(self) -> None:
        """Waits until the rows are on disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the files; then TensorBoard shows all events."""
        if self._events:
            self._events.close()
        self._file.close()

    def _add_scalars(self, kind: str, values: Mapping[str, float]) -> None:
        if not self._events:
            return
        scalars = [Summary.Value(tag=f"{kind}/{name}", simple_value=values[name]) for name in values if name != "step"]
        summary = Summary(value=scalars)
        self._events.write_event(Event(wall_time=time.time(), step=int(values["step"]), summary=summary))
        self._events.flush()


def logs_of(settings: TrainSettings, out: Path) -> Callable[[int], Logs]:
    """What opens the logs of a run in `out` from a step on."""
    return partial(Logs, out / "logs", events="tensorboard" in settings.report_to)


def read_rows(path: Path) -> list[LogRow]:
    """The rows of a train.csv, none if there is no such file; a line that a crash cut off is left out.

    Raises CorruptDataError where another line is no row.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
        whole = csv.reader(line for line in lines if line.endswith("\n"))
        return [LogRow(int(step), int(epoch), *map(float, values)) for step, epoch, *values in whole]
    except (ValueError, TypeError, csv.Error) as error:
        raise CorruptDataError(f"{path} does not read ({error}); remove it and run again") from error


def draw_training(rows: Sequence[LogRow], results: Sequence[Measurement], published_step: int, path: Path) -> None:
    """A PNG of the loss with its running mean, and of the dev measurements, over the steps."""
    figure = Figure(figsize=(8, 8 if results else 3), layout="constrained")
    panels = figure.subplots(3 if results else 1, 1, sharex=True, squeeze=False)[:, 0]
    steps, losses = [row.step for row in rows], [row.loss for row in rows]
    width = max(5, len(rows) // 20)
    panels[0].plot(steps, losses, color="tab:blue", alpha=0.3, linewidth=0.8, label="loss")
    panels[0].plot(steps, running_mean(losses, width), color="tab:blue", label=f"mean of {width} steps")
    panels[0].set_ylabel("loss")
    if results:
        _plot_measures(panels[1], results, {"both_views": "both-views pairs", "should_fall": "p-MRR, should fall"})
        _plot_measures(panels[1], results, {"should_stay": "p-MRR, should stay", "net": "p-MRR, net"})
        _plot_measures(panels[2], results, {"instructed_ndcg": "nDCG@10, instructed", "plain_ndcg": "nDCG@10, plain"})
    for panel in panels:
        panel.axvline(published_step, color="0.6", linestyle=":", label="published step")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    panels[-1].set_xlabel("step")
    figure.savefig(path, dpi=120)


def running_mean(values: Sequence[float], width: int) -> list[float]:
    """The mean of each value and up to `width` - 1 before it.

    >>> running_mean([4, 2, 6, 0], 2)
    [4.0, 3.0, 4.0, 3.0]
    """
    return [float(np.mean(values[max(0, end - width) : end])) for end in range(1, len(values) + 1)]


def _plot_measures(panel: Axes, results: Sequence[Measurement], names: Mapping[str, str]) -> None:
    for name, label in names.items():
        points = [(result.step, result.means[name]) for result in results if name in result.means]
        if points:
            panel.plot(*zip(*points, strict=True), marker=".", label=label)
    panel.set_ylabel("points, dev topics")


def _table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()
