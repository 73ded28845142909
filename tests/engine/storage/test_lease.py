"""The protocol of the lease, on a clock that a test moves: never may two runs send at the same time."""

import asyncio
import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from foil.engine.atomic_files import FileSystem
from foil.engine.errors import CommitError, MovedFolderError, NoRunError, RunHeldError
from foil.engine.storage import lease
from foil.engine.storage.lease import BEAT_S, VALID_S, Fence, RunLease, hold, holder_of
from foil.engine.storage.local_store import LocalStore
from tests.support.virtual_time import VirtualLoop


class _Inline(VirtualLoop):
    """Work for threads is done at once."""

    def run_in_executor(self, _executor, work, *args):
        future = self.create_future()
        try:
            future.set_result(work(*args))
        except OSError as error:
            future.set_exception(error)
        return future


def virtually(work):
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=_Inline) as runner:
        patch.setattr(lease, "now", lambda: runner.get_loop().time())
        return runner.run(work)


class Run:
    """A run that sends all the time; `place` tells one machine from another. It notes when it sends."""

    def __init__(self, folder: Path, name: str, sends: list[tuple[float, str]]) -> None:
        self.folder, self.name, self.sends = folder, name, sends
        self.stopped, self.ended = asyncio.Event(), ""
        self.stopped.set()  # set: it goes on

    async def live(self, *, takeover: bool, sends: int) -> None:
        try:
            async with hold(LocalStore(self.folder), takeover=takeover) as held:
                keeping = asyncio.create_task(self._keep(held))
                fence = Fence(LocalStore(self.folder), held.epoch)
                try:
                    for _ in range(sends):
                        await self.stopped.wait()
                        await fence.check()
                        self.sends.append((asyncio.get_running_loop().time(), self.name))
                        await asyncio.sleep(0.3)
                finally:
                    keeping.cancel()
            self.ended = "done"
        except RunHeldError as error:
            self.ended = "fenced" if "has taken" in str(error) else "refused"

    async def _keep(self, held: RunLease) -> None:
        while True:
            await self.stopped.wait()
            held.beat()
            await asyncio.sleep(BEAT_S)


EVENT = st.tuples(
    st.floats(0, 40), st.sampled_from(["begin", "take", "stop", "go on"]), st.integers(0, 2), st.integers(5, 60)
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(events=[(19.0, "begin", 0, 5), (20.0, "begin", 0, 5), (22.0, "stop", 1, 5), (18.5, "begin", 0, 5),
          (18.8125, "begin", 0, 5), (18.8125, "take", 0, 5), (18.8125, "take", 0, 5)], far=True)  # fmt: skip
@given(events=st.lists(EVENT, min_size=2, max_size=8), far=st.booleans())
def test_two_runs_never_send_at_once_whatever_is_begun_taken_over_or_stopped(tmp_path_factory, events, far):
    """`far`: every run is on a machine of its own, so that nobody sees the other's process or trusts its clock."""
    folder, sends = tmp_path_factory.mktemp("run"), []

    async def play():
        runs, tasks, begun = [], [], 0.0
        for at, kind, which, count in sorted(events):
            await asyncio.sleep(max(0.0, at - begun))
            begun = max(begun, at)
            if kind in ("begin", "take"):
                run = Run(folder, f"run {len(runs)}", sends)
                runs.append(run)
                tasks.append(asyncio.create_task(run.live(takeover=kind == "take", sends=count)))
            elif which < len(runs):
                (runs[which].stopped.clear if kind == "stop" else runs[which].stopped.set)()
        await asyncio.sleep(60)
        for run in runs:
            run.stopped.set()
        await asyncio.gather(*tasks)
        return runs

    with pytest.MonkeyPatch.context() as patch:
        if far:
            places = iter(range(10**6))
            patch.setattr(lease, "_place", lambda: f"machine {next(places)}")
        runs = virtually(play())
    assert {run.ended for run in runs} <= {"done", "fenced", "refused"}
    order = [name for _, name in sorted(sends)]
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert len(turns) == len(set(turns)), turns  # once another sends, the one before never does again


def test_a_holder_of_another_machine_is_waited_for_by_our_own_clock(tmp_path, monkeypatch):
    async def play():
        first = asyncio.create_task(Run(tmp_path, "first", []).live(takeover=False, sends=10**6))
        await asyncio.sleep(1)
        first.cancel()  # as a lost machine: nothing is released
        await asyncio.gather(first, return_exceptions=True)
        beat = tmp_path / "lease/00000001.beat"
        beat.write_text(json.dumps({"number": 7, "at": 10**9, "released": False}))  # its clock is far ahead
        monkeypatch.setattr(lease, "_place", lambda: "another machine")
        began = asyncio.get_running_loop().time()
        async with hold(LocalStore(tmp_path), takeover=False):
            return asyncio.get_running_loop().time() - began

    assert VALID_S + BEAT_S <= virtually(play()) < VALID_S + BEAT_S + 1


def test_a_holder_that_has_not_beaten_yet_holds_the_folder(tmp_path, monkeypatch):
    async def play():
        await asyncio.sleep(10 * VALID_S)
        with monkeypatch.context() as patch:
            patch.setattr(RunLease, "beat", lambda *_args, **_kwargs: None)
            async with hold(LocalStore(tmp_path), takeover=False):
                with pytest.raises(RunHeldError, match="is held by another run"):
                    async with hold(LocalStore(tmp_path), takeover=False):
                        pass
                await asyncio.sleep(VALID_S)
                async with hold(LocalStore(tmp_path), takeover=False) as second:
                    return second.epoch

    assert virtually(play()) == 2


def test_a_run_that_was_taken_over_before_it_began_does_not_begin(tmp_path, monkeypatch):
    real = lease._sweep

    def taken_over_meanwhile(store, epoch):
        store.put_if_absent(f"lease/{epoch + 1:08d}.json", lease._line(lease.Holder.here(epoch + 1)))
        real(store, epoch)

    async def play():
        monkeypatch.setattr(lease, "_sweep", taken_over_meanwhile)
        with pytest.raises(RunHeldError, match="another run has taken"):
            async with hold(LocalStore(tmp_path), takeover=False):
                pytest.fail("it began")

    virtually(play())


def test_a_step_of_the_wall_clock_makes_no_living_run_gone(tmp_path, monkeypatch):
    async def play():
        async with hold(LocalStore(tmp_path), takeover=False):
            with monkeypatch.context() as patch:
                boot = psutil.boot_time()
                patch.setattr(psutil._psplatform, "boot_time", lambda: boot - 3600)
                assert "process" in holder_of(LocalStore(tmp_path))
                with pytest.raises(RunHeldError, match="is held by another run"):
                    async with hold(LocalStore(tmp_path), takeover=False):
                        pytest.fail("it took the folder of a run that lives")
        assert holder_of(LocalStore(tmp_path)) == ""

    virtually(play())


@pytest.mark.parametrize("replaced", [False, True])
def test_what_is_missed_in_a_folder_that_was_moved_is_told_as_its_loss(tmp_path, replaced):
    async def miss():
        async with hold(LocalStore(tmp_path / "out"), takeover=False):
            (tmp_path / "out").rename(tmp_path / "away")
            if replaced:
                (tmp_path / "out").mkdir()
            raise NoRunError("no run.json; start one")

    with pytest.raises(MovedFolderError, match="moved"):
        asyncio.run(miss())


def test_a_start_that_the_wall_clock_told_says_only_that_its_process_is_there():
    here = lease.Holder.here(1)
    assert not replace(here, started=psutil.Process().create_time() - 3600).is_gone()
    assert replace(here, started=here.started - 1).is_gone()
    assert replace(here, pid=2**22 + 1).is_gone()


def test_what_lies_in_the_folder_and_does_not_read_holds_nobody_up(tmp_path):
    (tmp_path / "lease").mkdir()
    for name in ("00000003.json", "00000003.beat", "notes.txt", "x.json"):
        (tmp_path / "lease" / name).write_text("{")

    async def play():
        async with hold(LocalStore(tmp_path), takeover=False) as held:
            return held.epoch, holder_of(LocalStore(tmp_path))

    epoch, holder = virtually(play())
    assert epoch == 4
    assert "process" in holder
    assert holder_of(LocalStore(tmp_path)) == ""


@pytest.mark.parametrize("kind", ["local", "localbucket"])
def test_of_many_that_begin_at_once_one_holds_a_place_and_the_next_comes_after_it(make_store, kind):
    """In real time and threads, each with a store of its own; what is held is left within a moment."""
    held: list[int] = []

    async def begin(start: asyncio.Event) -> str:
        await start.wait()
        try:
            async with hold(make_store(kind), takeover=False) as mine:
                held.append(mine.epoch)
                assert len(held) == 1, "two at once"
                await asyncio.sleep(0.1)
                held.remove(mine.epoch)
        except RunHeldError:
            return "refused"
        return "held"

    async def race() -> list[str]:
        start = asyncio.Event()
        tasks = [asyncio.create_task(begin(start)) for _ in range(6)]
        start.set()
        return await asyncio.gather(*tasks)

    for _ in range(5):
        ended = asyncio.run(race())
        assert "held" in ended
        assert holder_of(make_store(kind)) == ""


class _Erring(FileSystem):
    """A disk on which the first reads of a heartbeat end in EIO."""

    def __init__(self, errors: int) -> None:
        self.errors = errors

    def read(self, path: Path) -> bytes:
        if path.suffix == ".beat" and self.errors:
            self.errors -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().read(path)


@pytest.mark.parametrize(("errors", "told"), [(1, "is held by another run"), (10**6, "Input/output error")])
def test_a_heartbeat_that_cannot_be_read_is_not_one_that_stands_still(tmp_path, monkeypatch, errors, told):
    async def play():
        monkeypatch.setattr(lease, "_LOOK_S", 0.01)
        async with hold(LocalStore(tmp_path), takeover=False) as held:
            for _ in range(10):
                await asyncio.sleep(BEAT_S)
                held.beat()
            with pytest.raises((RunHeldError, CommitError), match=told):
                async with hold(LocalStore(tmp_path, _Erring(errors)), takeover=False):
                    pass
            assert not (tmp_path / "lease/00000002.json").exists()

    virtually(play())
