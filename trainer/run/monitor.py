"""What is told of a run while it goes on: each step to the logs, each measurement to the logs and to who waits.

    weights of a step that is due -> validation, here or handed over -> logs
    row of a step -------------------------------------------------> logs

The first worker writes; the others come along where all must meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainer.evaluation.validation import Measured, Validation
from trainer.loss.distributed import rank_and_workers
from trainer.model.encoder import Encoder
from trainer.run.logs import LogRow, Logs

HandOver = Callable[[int, bool], None]
"""(step, wanted), called by all workers at a step that is due; the first one has laid its weights down if `wanted`."""


def _nothing(_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Who waits for steps and for measurements; called in the first worker alone."""

    on_step: Callable[[LogRow], None] = _nothing
    on_measured: Callable[[Measured], None] = _nothing


NOBODY = Callbacks()


class Monitor:
    """Follows a run: `weights` where it begins or resumes and after each step, `row` between them, `close` at the end.

    Rows are on disk before the checkpoint of their step, that is every `sync_steps` and at the last.
    """

    def __init__(
        self,
        validation: Validation,
        logs: Path,
        told: Callbacks,
        sync_steps: int = 1,
        hand_over: HandOver | None = None,
    ) -> None:
        self._validation, self._folder, self._told = validation, logs, told
        self._sync_steps, self._hand_over = sync_steps, hand_over
        self._first = rank_and_workers()[0] == 0
        self._logs: Logs | None = None
        self._seen = {one.step for one in validation.results()}

    def weights(self, step: int, encoder: Encoder) -> None:
        """Measures the weights after `step`, or has them measured, if that is due."""
        if self._first and self._logs is None:
            self._logs = Logs(self._folder, step)
        if not self._validation.due(step):
            return
        if self._hand_over:
            wanted = self._first and not self._validation.done(step)
            if wanted:
                self._validation.store(step, encoder)
            self._hand_over(step, wanted)
        elif self._first:
            self._validation.measure(step, encoder)
        self._tell()

    def row(self, row: LogRow) -> None:
        """Logs a step."""
        if self._logs is not None:
            self._logs.step(row)
            if row.step % self._sync_steps == 0 or row.step == self._validation.last:
                self._logs.sync()
            self._told.on_step(row)

    def close(self) -> list[Measured]:
        """Makes up for measurements that were lost, and ends the logs; all that was measured, by step."""
        self._validation.settle()
        self._tell()
        if self._logs is not None:
            self._logs.close()
        return self._validation.results()

    def _tell(self) -> None:
        if self._logs is not None:
            results = self._validation.results()
            self._logs.measured(results)
            for one in results:
                if one.step not in self._seen:
                    self._told.on_measured(one)
            self._seen |= {one.step for one in results}
