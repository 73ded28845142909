"""Sessions that the drills of every runner repeat: killed workers, poison rows, a hosted model."""

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.models.batch import Batched
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.storage.opening import open_store
from tests.support.small_parts import (
    Echo,
    Numbers,
    Traps,
    build,
    builder,
    opened,
    paid_twice,
    quiet,
    run_parts,
    sound,
    topics,
)


def job(out: Path, seeds: int = 40, *, reader=None, screens=(), limits=None, runtime=None, progress=quiet, **parts):
    """One session over `seeds` seeds, in partitions of 8."""
    limits = Limits(**{"partition_seeds": 8, **(limits or {})})
    settings = RuntimeSettings(**{"window": 4, **(runtime or {})})
    return run_parts(
        reader or Numbers(seeds), builder(out, **parts), limits, settings, screens=screens, on_progress=progress
    )


class Killer(threading.Thread):
    """Kills the process that paid last, each time that about `every` more requests were paid, as many times as `kills`.

    Not by the clock: on a busy machine that would kill faster than work gets done, and a run rightly gives up then.
    """

    def __init__(self, bill: Path, kills: int, every: int) -> None:
        super().__init__(daemon=True)
        self.bill, self.kills, self.every, self.killed, self.over = bill, kills, every, 0, threading.Event()

    def run(self) -> None:
        draw, due = random.Random(1), 0.0
        while self.killed < self.kills and not self.over.wait(0.02):
            lines = self.bill.read_text().splitlines() if self.bill.exists() else []
            pids = {int(line.split()[1]) for line in lines[-4:]} - {os.getpid()}
            due = due or len(lines) + self.every * draw.uniform(0.5, 1.5)
            if pids and len(lines) >= due:
                due = 0.0
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(sorted(pids)), signal.SIGKILL)
                    self.killed += 1


def survive(out: Path, seeds: int, kills: int, run_job, *, every: int = 40) -> int:
    """Runs a job under a killer: complete, nothing failed, and paid twice no more than was in flight."""
    bill = out / "bill"
    killer = Killer(bill, kills, every)
    killer.start()
    summary = run_job(model=Echo(bill, delay_s=0.05))
    killer.over.set()
    killer.join()
    assert (summary.complete, summary.exit_code) == (True, 0)
    sound(out, seeds)
    assert paid_twice(bill) <= possibly_paid_twice(open_store(out)) <= killer.killed * 4
    assert summary.workers_lost > 0
    assert killer.killed > 0
    return killer.killed


POISON = {11: "exit", 27: "hang", 33: "hog", 38: "shout"}


def poisoned_rows(out: Path, summary, seeds: int) -> None:
    bad = {topic.query: (topic.status, topic.reason) for topic in topics(out) if topic.status != "accepted"}
    assert bad == {
        "exit": ("failed", "crashed_worker"),
        "hang": ("failed", "timeout"),
        "hog": ("failed", "validator_error"),
        "shout": ("failed", "validator_error"),
    }
    assert (summary.complete, summary.exit_code, summary.counts.seeds["accepted"]) == (True, 3, seeds - 4)
    assert summary.workers_lost in (5, 6)  # two die alone twice each; the first death may be one of both
    sound(out, seeds)


class Builder:
    """A picklable builder of the machine's parts around a hosted model. `url` is not part of what it makes."""

    def __init__(self, out, url, asks=1, repairs=3, **settings):
        self.out, self.asks, self.repairs = opened(out), asks, repairs
        self.told = {"model": "test-model", "url": url, "params": {"max_tokens": 64}, **settings}

    def __call__(self):
        settings = HostedSettings.model_validate(self.told)
        batch = settings.mode == "batch"
        model = Batched(settings, self.out / "batches") if batch else Hosted(settings)
        return build(self.out, model=model, asks=self.asks, validators=(Traps(),), repairs=self.repairs)
