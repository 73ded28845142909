"""Follows a run: writes each step and each measurement to the logs, and calls the callbacks.

    weights of a step that is due -> validation, in this process or delegated -> logs, callbacks
    row of a step ----------------------------------------------------------> logs, callbacks

The first worker writes; the others take part where all workers must.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from foil.trainer.train.loss.distributed import rank_and_workers
from foil.trainer.train.run.logs import LogRow, Logs
from foil.trainer.train.run.validation import Measurement, Validation

ValidationDelegate = Callable[[int, bool], None]
"""(step, is_needed), called by all workers at a step that is due; the first stores the weights if `is_needed`."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Called after each step and each measurement, in the first worker alone."""

    on_step: Callable[[LogRow], None] = lambda _: None
    on_measured: Callable[[Measurement], None] = lambda _: None


NO_CALLBACKS = Callbacks()


def together(callbacks: Sequence[Callbacks]) -> Callbacks:
    """One that calls each of them, in their order."""

    def on_step(row: LogRow) -> None:
        for each in callbacks:
            each.on_step(row)

    def on_measured(measurement: Measurement) -> None:
        for each in callbacks:
            each.on_measured(measurement)

    return Callbacks(on_step, on_measured)


class Monitor:
    """`on_weights` follows the start or resume and each step, `on_step` comes between them, `close` at the end.

    Rows are on disk before the checkpoint of their step, that is every `sync_steps` and at the last.
    """

    def __init__(
        self,
        validation: Validation,
        open_logs: Callable[[int], Logs],
        callbacks: Callbacks,
        sync_steps: int = 1,
        delegate: ValidationDelegate | None = None,
    ) -> None:
        self._validation, self._open_logs, self._callbacks = validation, open_logs, callbacks
        self._sync_steps, self._delegate = sync_steps, delegate
        self._first = rank_and_workers()[0] == 0
        self._logs: Logs | None = None
        self._seen = {result.step for result in validation.results()}

    def on_weights(self, step: int, model: nn.Module) -> None:
        """Measures the weights after `step`, or has them measured, if that is due."""
        if self._first and self._logs is None:
            self._logs = self._open_logs(step)
        if not self._validation.is_due(step):
            return
        if self._delegate:
            is_needed = self._first and not self._validation.is_measured(step)
            if is_needed:
                self._validation.store(step, model)
            self._delegate(step, is_needed)
        elif self._first:
            self._validation.measure(step, model)
        self._report()

    def on_step(self, row: LogRow) -> None:
        """Logs a step."""
        if self._logs is not None:
            self._logs.add_step(row)
            if row.step % self._sync_steps == 0 or row.step == self._validation.last_step:
                self._logs.sync()
            self._callbacks.on_step(row)

    def close(self) -> list[Measurement]:
        """Repeats measurements that were lost, and closes the logs; returns all measurements, by step."""
        self._validation.measure_remaining()
        self._report()
        if self._logs is not None:
            self._logs.close()
        return self._validation.results()

    def _report(self) -> None:
        if self._logs is not None:
            results = self._validation.results()
            self._logs.write_measurements(results)
            for result in results:
                if result.step not in self._seen:
                    self._callbacks.on_measured(result)
            self._seen |= {result.step for result in results}
