"""The process that reads seeds for a run with workers: nothing in the driver, bounded, mended, refused."""

import asyncio
import gc
import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from foil.engine.errors import CorruptDataError, SpoolError
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.runtime.seed_process import StoredPartition
from foil.engine.storage.local_store import LocalStore
from foil.engine.topic import Seed
from tests.support.small_parts import Echo, Numbers, builder, digest, run_parts, seed, sound

LONG = "a long query " * 1_600
LIMITS = Limits(partition_seeds=8)
RUNTIME = RuntimeSettings(workers=2, window=4, seeds_ahead_mb=1)


class Long(Numbers):
    """Seeds of some 20 kB each, of a corpus that no other test has."""

    def __iter__(self) -> Iterator[Seed]:
        return (replace(seed(i), corpus="long", query=LONG) for i in range(self.count))


@dataclass
class Deadly(Numbers):
    """Ends its process at a seed."""

    at: int = 0

    def __iter__(self) -> Iterator[Seed]:
        for one in super().__iter__():
            if one.id == seed(self.at).id:
                os._exit(3)
            yield one


@dataclass
class Broken(Numbers):
    """Fails at seed 20."""

    error: type[Exception] = ValueError

    def __iter__(self) -> Iterator[Seed]:
        yield from (seed(i) for i in range(20))
        raise self.error("it broke")


class UnpicklableError(Exception):
    def __init__(self, _one: str, _two: int = 0) -> None:
        super().__init__()
        self.held = lambda: None


def reading_processes() -> list[int]:
    return [child.pid or 0 for child in multiprocessing.active_children() if child.name == "seeds"]


def spooled(out: Path) -> int:
    """The bytes put aside now."""
    sizes = []
    for path in out.glob("spool/*/*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # committed meanwhile
            continue
    return sum(sizes)


@pytest.mark.slow
def test_the_driver_holds_no_seed_and_no_more_bytes_lie_ahead_than_are_allowed(tmp_path):
    held, ahead, running = set(), [], []

    def look(_progress):
        held.update(one.id for one in gc.get_objects() if type(one) is Seed and one.corpus == "long")
        ahead.append(spooled(tmp_path))
        running.extend(reading_processes())

    reader = Long(600)
    summary = run_parts(reader, builder(tmp_path, model=Echo(delay_s=0.05)), LIMITS, RUNTIME, on_progress=look)
    assert (summary.complete, summary.exit_code) == (True, 0)
    assert not held
    assert len(set(running)) == 1
    assert 0 < max(ahead) < 5 << 20  # of 12 MB in all: 1 MiB, and what the workers have open
    assert not (tmp_path / "spool").exists()


@pytest.mark.slow
def test_a_reading_process_that_is_killed_is_replaced_and_the_rows_stay_the_same(tmp_path):
    killed: list[int] = []

    def kill_once(progress):
        if not killed and progress.counts.seeds.total() >= 8 and (found := reading_processes()):
            killed.append(found[0])
            os.kill(found[0], signal.SIGKILL)

    model = Echo(bill=tmp_path / "bill", delay_s=0.05)
    summary = run_parts(Long(400), builder(tmp_path / "a", model=model), LIMITS, RUNTIME, on_progress=kill_once)
    assert (summary.complete, summary.exit_code, summary.workers_lost, summary.planned) == (True, 0, 0, 400)
    assert killed
    assert len((tmp_path / "bill").read_text().splitlines()) == 400
    assert run_parts(Long(400), builder(tmp_path / "b"), LIMITS, RuntimeSettings()).complete
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 20])
def test_a_corpus_that_ends_its_reading_process_each_time_ends_the_run_and_is_told(tmp_path, at):
    summary = run_parts(Deadly(40, at=at), builder(tmp_path), LIMITS, RUNTIME)
    assert (summary.complete, summary.exit_code) == (False, 1)
    assert "the process that reads the seeds (pid " in summary.stopped
    assert "ended with exit code 3, 3 times in a row" in summary.stopped
    assert not (tmp_path / "spool").exists()
    assert run_parts(Numbers(40), builder(tmp_path), LIMITS, RUNTIME).complete
    sound(tmp_path, 40)


@pytest.mark.parametrize("error", [ValueError, PermissionError])
def test_what_a_reader_raises_reaches_the_driver_as_it_is(tmp_path, error):
    with pytest.raises(error, match="it broke") as raised:
        run_parts(Broken(40, error=error), builder(tmp_path), LIMITS, RUNTIME)
    assert "test_seed_process.py" in raised.value.__notes__[0]


def test_an_error_that_cannot_be_sent_is_told_as_text(tmp_path):
    summary = run_parts(Broken(40, error=UnpicklableError), builder(tmp_path), LIMITS, RUNTIME)
    assert summary.exit_code == 1
    assert "the process that reads the seeds failed:" in summary.stopped
    assert "UnpicklableError" in summary.stopped


def test_other_bytes_than_were_written_are_refused_before_they_are_read_as_seeds(tmp_path):
    file = tmp_path / "00000000"
    stored = StoredPartition(0, 1, "", file.name, 3, "0" * 64, LocalStore(tmp_path))
    with pytest.raises(SpoolError, match="every worker must see `out`"):
        asyncio.run(stored.load())
    file.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(CorruptDataError, match="is not what was written there"):
        asyncio.run(stored.load())
