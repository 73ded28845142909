"""The run on one machine: resume, limits, signals, crashes at every named point, workers that die, poison rows."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.datasets_out.commits.log import CommitLog
from foil.engine import crash_points as crash
from foil.engine.errors import UsageError
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.flow.journal_records import checked
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.flow.progress import status
from foil.engine.runtime import supervisor
from foil.engine.storage.opening import open_store
from foil.engine.topic import Verdict
from tests.support.drills.run_drill import POISON, Builder, job, poisoned_rows, survive
from tests.support.memory import forget_peak, peak_memory
from tests.support.models.fault_server import Behaviour, serving
from tests.support.small_parts import (
    Echo,
    Numbers,
    billed,
    build,
    builder,
    digest,
    opened,
    paid_twice,
    run_parts,
    seed,
    sound,
)

MAIN = "tests.support.small_run"
POINTS = (
    "journal.asked", "ask.answered", "journal.written", "journal.synced", "flow.made", "flow.committed",
    "session.planned", "commit.encoded", "put.staged", "put.linked", "commit.placed", "commit.entered",
)  # fmt: skip


def planned(out: Path) -> tuple[int, int]:
    plan = CommitLog(out).plan()
    return plan["seeds"], plan["partitions"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> str:
    """The digest of the 40-seed job, run without any trouble."""
    out = tmp_path_factory.mktemp("plain")
    assert job(out).complete
    return digest(out)


def test_a_run_commits_every_seed_and_a_second_one_reads_nothing(tmp_path):
    reader = Numbers(40)
    first, second = job(tmp_path, reader=reader), job(tmp_path, reader=reader)
    assert (first.planned, first.complete, first.exit_code, first.partitions) == (40, True, 0, 5)
    assert first.counts.seeds == {"accepted": 40}
    assert (second.planned, second.complete, second.exit_code, second.counts.calls) == (40, True, 0, 40)
    assert reader.reads == 1
    sound(tmp_path, 40)


@pytest.mark.parametrize("window", [1, 4, 16, 64])
def test_every_concurrency_commits_the_same_bytes(tmp_path, plain, window):
    job(tmp_path, runtime={"window": window}, model=Echo(delay_s=0.002))
    assert digest(tmp_path) == plain


TRAPS = st.dictionaries(st.integers(0, 23), st.sampled_from(["reject", "raise", "refuse", "shout", "quit", "\ud800"]))


@given(traps=TRAPS, window=st.integers(2, 30), size=st.integers(5, 30))
@settings(max_examples=6, deadline=None)
def test_whatever_goes_wrong_every_seed_has_one_end_and_every_concurrency_the_same_bytes(traps, window, size):
    with tempfile.TemporaryDirectory() as name:
        outs = [Path(name) / "one", Path(name) / "many"]
        for out, width in zip(outs, (1, window), strict=True):
            limits, runtime = Limits(partition_seeds=size), RuntimeSettings(window=width)
            summary = run_parts(Numbers(24, traps), builder(out, model=Echo(delay_s=0.001)), limits, runtime)
            assert summary.counts.seeds["accepted"] == 24 - len(traps)
            sound(out, 24)
        assert digest(outs[0]) == digest(outs[1])


def test_workers_commit_the_same_bytes(tmp_path, plain):
    assert job(tmp_path, runtime={"workers": 2}, model=Echo(delay_s=0.002)).complete
    assert digest(tmp_path) == plain
    sound(tmp_path, 40)


def test_planned_is_accepted_and_rejected_and_failed(tmp_path):
    traps = {3: "reject", 4: "raise", 30: "refuse", 31: "shout"}
    summary = job(tmp_path, reader=Numbers(35, traps))
    assert summary.counts.seeds == {"accepted": 31, "rejected": 2, "failed": 2}
    assert summary.counts.reasons == {"unsuitable": 1, "recipe_error": 1, "refused": 1, "validator_error": 1}
    assert (summary.exit_code, summary.complete) == (3, True)
    assert "2 seeds failed" in summary.stopped
    found = status(CommitLog(tmp_path), tmp_path)
    assert (found["planned"], found["accepted"], found["rejected"], found["failed"]) == (35, 31, 2, 2)
    assert (found["complete"], found["calls"], found["sessions"]) == (True, 35, 1)
    assert found["seconds"] > 0


def test_an_empty_corpus_is_a_complete_run(tmp_path):
    summary = job(tmp_path, 0)
    assert (summary.complete, summary.planned, summary.exit_code) == (True, 0, 0)
    assert planned(tmp_path) == (0, 0)


def test_a_limit_of_seeds_cuts_the_stream(tmp_path):
    assert job(tmp_path, 1000, limits={"seeds": 20}).planned == 20
    assert planned(tmp_path) == (20, 3)
    sound(tmp_path, 20)


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 50])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_limit_of_accepted_topics_stops_after_the_same_partition_at_every_concurrency(tmp_path, window, workers):
    reader = Numbers(400, dict.fromkeys(range(0, 400, 2), "refuse"))
    summary = job(
        tmp_path,
        reader=reader,
        limits={"accept": 10},
        runtime={"window": window, "workers": workers},
        model=Echo(delay_s=0.002),
    )
    assert planned(tmp_path) == (24, 3)
    assert (summary.planned, summary.complete, summary.counts.topics["accepted"]) == (24, True, 12)
    assert job(tmp_path, reader=reader, limits={"accept": 10}).complete
    assert reader.reads == (0 if workers else 1)  # with workers, a process of its own reads


def test_accepted_topics_of_earlier_sessions_count_towards_the_limit(tmp_path):
    assert job(tmp_path, limits={"budget": {"calls": 17}, "accept": 24}).exit_code == 4
    assert CommitLog(tmp_path).partitions()[:1] == [0]
    assert CommitLog(tmp_path).plan() is None  # the stream was read to its end, yet its end need not be the run's
    assert job(tmp_path, limits={"accept": 24}).planned == 24
    assert planned(tmp_path) == (24, 3)


def test_a_screen_sees_every_seed_in_order_in_every_session(tmp_path):
    class Odd:
        name, fingerprint = "odd", "1"

        def __init__(self):
            self.saw = []

        def __call__(self, seed):
            self.saw.append(seed.id)
            return Verdict("odd", "topic", "reject", "odd") if int(seed.id[1:]) % 2 else None

    screens = [Odd(), Odd()]
    assert job(tmp_path, screens=screens[:1], limits={"budget": {"calls": 9}}).exit_code == 4
    assert job(tmp_path, screens=screens[1:]).counts.seeds == {"accepted": 20, "rejected": 20}
    assert screens[1].saw == [seed(i).id for i in range(40)]


def test_a_spent_budget_ends_the_session_and_a_raised_one_goes_on_without_paying_again(tmp_path, plain):
    bill = tmp_path / "bill"
    for calls, code in ((10, 4), (25, 4), (25, 4), (40, 0)):
        summary = job(tmp_path, model=Echo(bill), limits={"budget": {"calls": calls}})
        assert (summary.exit_code, len(billed(bill))) == (code, calls)
        sound(tmp_path, 40, finished=code == 0)
    assert paid_twice(bill) == 0
    assert digest(tmp_path) == plain


@pytest.mark.slow
def test_workers_share_one_budget(tmp_path, plain):
    bill = tmp_path / "bill"
    for calls, code in ((21, 4), (40, 0)):
        summary = job(tmp_path, model=Echo(bill), limits={"budget": {"calls": calls}}, runtime={"workers": 2})
        assert (summary.exit_code, len(billed(bill))) == (code, calls)
    assert digest(tmp_path) == plain


def test_the_journals_of_committed_partitions_are_not_read_on_resume(tmp_path, plain):
    assert job(tmp_path, limits={"budget": {"calls": 20}}).exit_code == 4
    [path] = (tmp_path / "journal").glob("*.log")
    lines, committed = path.read_bytes().splitlines(keepends=True), CommitLog(tmp_path).partitions()
    assert 0 < sum(checked(line)[0] in committed for line in lines) < len(lines) - 2
    path.write_bytes(b"".join(b"x" * len(line) if checked(line)[0] in committed else line for line in lines))
    assert job(tmp_path, limits={"budget": {"calls": 40}}).complete
    assert digest(tmp_path) == plain


def test_a_reader_that_fails_stops_the_run_after_what_it_read(tmp_path):
    class Torn(Numbers):
        def __iter__(self):
            yield from super().__iter__()
            raise UsageError("line 41 is broken; mend it")

    summary = job(tmp_path, reader=Torn(40))
    assert (summary.exit_code, summary.complete, summary.stopped) == (2, False, "line 41 is broken; mend it")
    sound(tmp_path, 40, finished=False)


def test_a_reader_that_fails_at_once_leaves_no_plan_behind(tmp_path):
    class Absent(Numbers):
        def __iter__(self):
            raise UsageError("no such file")
            yield

    summary = job(tmp_path, reader=Absent(40))
    assert (summary.exit_code, summary.complete, summary.stopped) == (2, False, "no such file")
    assert job(tmp_path).complete


def test_an_error_that_is_not_ours_is_raised_after_the_run_is_drained(tmp_path):
    class Bug(Numbers):
        def __iter__(self):
            yield from super().__iter__()
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        job(tmp_path, reader=Bug(16))
    sound(tmp_path, 16, finished=False)


def test_progress_ends_with_all_seeds_and_a_rate(tmp_path):
    seen = []
    job(tmp_path, limits={"seeds": 40}, progress=seen.append, model=Echo(delay_s=0.2), runtime={"window": 4})
    last = seen[-1]
    assert last.planned == 40
    assert 0 < last.counts.topics.total() <= 40
    assert last.in_flight <= 4
    assert last.topics_per_s > 0
    assert last.eta_s >= 0


def test_what_a_worker_cannot_build_stops_the_run_with_its_reason(tmp_path):
    broken = partial(build, opened(tmp_path), model=Echo(), asks=1)
    parts = broken()

    summary = run_parts(Numbers(8), _Once(broken), Limits(partition_seeds=8), RuntimeSettings(workers=1))
    assert parts.out == str(tmp_path)
    assert (summary.complete, summary.exit_code) == (False, 1)
    assert "only the first process can build this" in summary.stopped


class _Once:
    """Builds parts in the process that made it, and raises in every other."""

    def __init__(self, build):
        self.build, self.pid = build, os.getpid()

    def __call__(self):
        if os.getpid() != self.pid:
            raise RuntimeError("only the first process can build this")
        return self.build()


# Crashes


def dies_at(point: str, passage: int, out: Path, bill: Path) -> bool:
    """Runs the job in a fork that is killed at the passage of a point; True if it came that far."""
    pid = os.fork()
    if pid == 0:
        try:
            crash.arm(f"{point}:{passage}")
            job(out, 24, model=Echo(bill, delay_s=0.002))
            os._exit(0)
        finally:
            os._exit(1)
    _, code = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(code) or code == 0
    return os.WIFSIGNALED(code)


def drill(point: str, passage: int, folder: Path, expected: str) -> bool:
    """A crash, a crash at the same point of the resumed run, and a run to the end: nothing lost, doubled or paid."""
    out, bill = folder / f"{point}-{passage}", folder / f"{point}-{passage}.bill"
    died = dies_at(point, passage, opened(out), bill)
    dies_at(point, passage, out, bill)
    assert job(out, 24, model=Echo(bill)).complete
    sound(out, 24)
    assert digest(out) == expected
    assert paid_twice(bill) <= possibly_paid_twice(open_store(out)) <= 2 * 4
    return died


@pytest.fixture(scope="module")
def plain24(tmp_path_factory) -> str:
    """The digest of the 24-seed job that the crash drills run."""
    out = tmp_path_factory.mktemp("plain")
    assert job(out, 24).complete
    return digest(out)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_named_point_loses_doubles_and_pays_nothing(tmp_path, plain24, point):
    assert drill(point, 1, tmp_path, plain24)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_every_passage_of_any_named_point_loses_doubles_and_pays_nothing(tmp_path, plain24, point):
    passage = 1
    while drill(point, passage, tmp_path, plain24):
        passage += 1
    assert passage > 1


# Signals


def program(out: Path, seeds: int, *, delay_s: float, **runtime) -> subprocess.Popen[str]:
    """The job as a program of its own, once it has begun and paid for something."""
    bill = out / "bill"
    told = {
        "seeds": seeds,
        "delay_s": delay_s,
        "bill": str(bill),
        "limits": {"partition_seeds": 8},
        "runtime": {"window": 4, **runtime},
    }
    command = [sys.executable, "-m", MAIN, opened(out), json.dumps(told)]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # else a program under `nohup` would never hear it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGHUP, before)
    deadline = time.monotonic() + 60
    while len(billed(bill)) < 10 and delay_s < 60 and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "workers", "code"), [(signal.SIGINT, 0, 130), (signal.SIGTERM, 2, 143), (signal.SIGHUP, 2, 129)]
)
def test_a_signal_drains_the_run_and_the_next_one_goes_on(tmp_path, signum, workers, code):
    process = program(tmp_path, 4000, delay_s=0.05, workers=workers)
    process.send_signal(signum)
    assert process.wait(60) == code
    sound(tmp_path, 4000, finished=False)
    assert possibly_paid_twice(open_store(tmp_path)) == 0
    before = len(billed(tmp_path / "bill"))
    assert before < 4000
    told = status(CommitLog(tmp_path), tmp_path)
    assert (told["complete"], told["last_session"]["exit_code"]) == (False, code)
    summary = job(tmp_path, 400, model=Echo(tmp_path / "bill"))  # a shorter corpus; what was committed is its start
    assert summary.complete
    assert paid_twice(tmp_path / "bill") == 0


def test_a_second_signal_stops_at_once(tmp_path):
    process = program(tmp_path, 40, delay_s=3600, drain_s=3600)
    deadline = time.monotonic() + 60
    while not any(log.stat().st_size for log in tmp_path.rglob("*.log")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert job(tmp_path).complete
    sound(tmp_path, 40)


# Workers that die


@pytest.mark.slow
def test_killed_workers_cost_another_attempt_and_nothing_else(tmp_path):
    survive(tmp_path, 320, 2, partial(job, tmp_path, 320, runtime={"workers": 2}))


@pytest.mark.long
def test_dozens_of_killed_workers_cost_another_attempt_and_nothing_else(tmp_path):
    run_job = partial(job, tmp_path, 16_000, runtime={"workers": 2})
    assert survive(tmp_path, 16_000, 100, run_job, every=80) >= 50


@pytest.mark.slow
def test_poison_rows_fail_alone_with_their_reason(tmp_path):
    bill = tmp_path / "bill"
    summary = job(
        tmp_path,
        reader=Numbers(40, POISON),
        model=Echo(bill),
        runtime={"workers": 1, "seed_timeout_s": 5, "worker_memory_mb": 512},
    )
    poisoned_rows(tmp_path, summary, 40)
    assert paid_twice(bill) == 0


@pytest.mark.long
def test_poison_rows_among_a_thousand_fail_alone(tmp_path):
    runtime = {"workers": 2, "window": 16, "seed_timeout_s": 3, "worker_memory_mb": 512}
    summary = job(tmp_path, reader=Numbers(1000, POISON), runtime=runtime)
    poisoned_rows(tmp_path, summary, 1000)


@pytest.mark.slow
def test_a_child_ends_with_its_parent(tmp_path):
    process = program(tmp_path, 4000, delay_s=0.05, workers=1)
    [child] = {int(line.split()[1]) for line in (tmp_path / "bill").read_text().splitlines()}
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()


# Scale


def test_the_peak_of_memory_is_that_of_one_process_and_can_be_forgotten():
    held = b"1" * (200 << 20)
    before = peak_memory()
    code = "from tests.support.memory import peak_memory; print(peak_memory())"
    child = int(subprocess.check_output([sys.executable, "-c", code]))
    assert child < 100 << 20 < len(held) < before
    del held
    forget_peak()
    assert peak_memory() < before - (150 << 20)


def peak_mb(out: Path, seeds: int) -> float:
    """The peak memory of a session in a process of its own, in MiB."""
    told = {
        "seeds": seeds, "bill": os.devnull, "limits": {"partition_seeds": 500}, "runtime": {"window": 16},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", MAIN, opened(out), json.dumps(told)], stdout=subprocess.PIPE, text=True, check=True
    )
    return float(json.loads(done.stdout.splitlines()[-1])["peak"] / 2**20)


@pytest.mark.long
def test_memory_does_not_grow_with_the_number_of_seeds(tmp_path):
    small, large = peak_mb(tmp_path / "small", 5_000), peak_mb(tmp_path / "large", 100_000)
    assert large < small + 60


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, pytest.param(signal.SIGSEGV, marks=pytest.mark.long)])
def test_a_killed_child_under_a_slow_hosted_model_resumes_within_seconds(tmp_path, signum):
    """128 seeds in flight at a latency of 2 s: paid replies come from the journal, the others run together."""
    killed: list[int] = []

    def kill_once(progress):
        if not killed and progress.in_flight >= 128:
            killed.append(next(c.pid for c in multiprocessing.active_children() if c.name.startswith("child ")))
            os.kill(killed[0], signum)

    with serving(Behaviour(latency=2.0)) as server:
        limits, runtime = Limits(partition_seeds=128), RuntimeSettings(window=128, workers=2)
        parts = Builder(tmp_path / "out", server.url)
        summary = run_parts(Numbers(384), parts, limits, runtime, on_progress=kill_once)
        requests = server.report()["requests"]
    assert (summary.complete, summary.exit_code, summary.counts.seeds["accepted"]) == (True, 0, 384)
    assert summary.workers_lost == 1
    assert summary.seconds < 60
    assert requests <= 384 + possibly_paid_twice(open_store(tmp_path / "out"))


@pytest.mark.slow
def test_a_frozen_child_is_given_up_and_its_seeds_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_SILENT_S", 1.0)
    frozen: list[int] = []

    def freeze_once(progress):
        if not frozen and progress.in_flight >= 16:
            frozen.append(next(c.pid for c in multiprocessing.active_children() if c.name.startswith("child ")))
            os.kill(frozen[0], signal.SIGSTOP)

    with serving(Behaviour(latency=0.2)) as server:
        limits = Limits(partition_seeds=16)
        runtime = RuntimeSettings(window=16, workers=2, seed_timeout_s=4)
        parts = Builder(tmp_path / "out", server.url)
        summary = run_parts(Numbers(384), parts, limits, runtime, on_progress=freeze_once)
        requests = server.report()["requests"]
    assert (summary.complete, summary.exit_code, summary.counts.seeds["accepted"]) == (True, 0, 384)
    assert summary.workers_lost == 1
    with pytest.raises(ProcessLookupError):
        os.kill(frozen[0], 0)
    assert requests <= 384 + possibly_paid_twice(open_store(tmp_path / "out"))


@pytest.mark.slow
def test_a_poison_seed_among_128_in_flight_is_found_and_its_neighbours_complete(tmp_path):
    summary = job(
        tmp_path,
        reader=Numbers(256, {77: "exit"}),
        limits={"partition_seeds": 128},
        runtime={"workers": 2, "window": 128},
        model=Echo(delay_s=0.5),
    )
    assert (summary.complete, summary.exit_code) == (True, 3)
    assert summary.counts.seeds == {"accepted": 255, "failed": 1}
    assert summary.workers_lost <= 5  # among 128, then 16, then 2 of them; twice alone
    sound(tmp_path, 256)
