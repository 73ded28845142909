"""Whole runs against the fault server: 30 % mixed faults, kills, the batch API, a canary key."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from foil.datasets_out.commits.schema import to_tables
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.ids import canonical_json
from foil.engine.models.batch import Batched
from foil.engine.models.endpoints import HostedSettings
from foil.engine.storage.opening import open_store
from tests.support.drills.run_drill import Builder
from tests.support.memory import forget_peak, peak_memory
from tests.support.models.fault_server import Behaviour, mix, serving
from tests.support.small_parts import Numbers, read_replies, run_parts, sound, topics

CANARY = "sk-canary-9d31e07ab5"
pytestmark = pytest.mark.usefixtures("each_way")


def run_hosted(out, url, seeds, *, window=64, partition=250, workers=0, asks=1, **settings):
    limits, runtime = Limits(partition_seeds=partition), RuntimeSettings(window=window, workers=workers)
    return run_parts(Numbers(seeds), Builder(out, url, asks, **settings), limits, runtime)


def accepted(out) -> bytes:
    """What was accepted, as the bytes of its rows, without the bill: a correction turn is a call more."""
    plain = [replace(topic, calls=()) for topic in topics(out) if topic.status == "accepted"]
    return canonical_json([table.to_pylist() for table in to_tables(plain, 0).values()]).encode()


PATIENT = {"patience": {"timeout_s": 1.0, "attempts": 12}}


def mixed(share=0.3, **more):
    return Behaviour(seed=7, faults=mix(share), worst=4, retry_after=0.05, **more)


def drill_mixed_faults(tmp_path, seeds):
    with serving(Behaviour()) as server:
        assert run_hosted(tmp_path / "calm", server.url, seeds).complete
    faults = mixed()
    faults.faults = {kind: share for kind, share in faults.faults.items() if kind not in {"429_long", "429_date"}}
    with serving(faults) as server:
        summary = run_hosted(tmp_path / "storm", server.url, seeds, **PATIENT)
        report = server.report()
    sound(tmp_path / "storm", seeds)
    assert summary.complete
    assert summary.counts.seeds["accepted"] == seeds
    assert accepted(tmp_path / "storm") == accepted(tmp_path / "calm")
    assert summary.possibly_paid_twice == 0
    assert seeds < report["requests"] <= 1.6 * seeds
    unsure = sum(call["unsure"] for call in read_replies(tmp_path / "storm" / "journal"))
    assert unsure > 0


@pytest.mark.slow
def test_a_third_of_all_answers_is_faulty_and_the_rows_are_the_same(tmp_path):
    drill_mixed_faults(tmp_path, 600)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_mixed_faults_over_ten_thousand_requests(tmp_path):
    drill_mixed_faults(tmp_path, 10_000)


def test_refused_prompts_cost_one_request_each_and_nobody_else(tmp_path):
    with serving(Behaviour(seed=3, refused_share=0.05)) as server:
        summary = run_hosted(tmp_path, server.url, 300)
        report = server.report()
    failed = summary.counts.seeds["failed"]
    assert 0 < failed < 40
    assert summary.counts.seeds["accepted"] == 300 - failed
    assert summary.counts.reasons == {"refused_request": failed}
    assert report["requests"] == 300


def test_a_reply_that_was_cut_or_withheld_is_corrected_and_else_named(tmp_path):
    with serving(Behaviour(faults={"length": 1.0}, worst_content=9, worst=9)) as server:
        summary = run_hosted(tmp_path / "cut", server.url, 3, repairs=1)
    assert summary.counts.reasons == {"cut_reply": 3}
    with serving(Behaviour(faults={"content_filter": 1.0}, worst_content=1)) as server:
        summary = run_hosted(tmp_path / "withheld", server.url, 3, repairs=1)
    assert summary.counts.seeds["accepted"] == 3
    assert summary.counts.calls == 6


def test_a_wrong_key_fails_no_seed_and_the_run_goes_on_when_it_is_right(tmp_path, monkeypatch):
    with serving(Behaviour(api_keys=("right",))) as server:
        monkeypatch.setenv("FOIL_TEST_KEY", "wrong")
        stopped = run_hosted(tmp_path, server.url, 40, api_key="${FOIL_TEST_KEY}")
        assert (stopped.exit_code, stopped.complete) == (9, False)
        assert stopped.counts.seeds["failed"] == stopped.possibly_paid_twice == 0
        assert "FOIL_TEST_KEY" in stopped.stopped
        monkeypatch.setenv("FOIL_TEST_KEY", "right")
        assert run_hosted(tmp_path, server.url, 40, api_key="${FOIL_TEST_KEY}").complete
    sound(tmp_path, 40)


def every_byte(folder: Path) -> bytes:
    import pyarrow.parquet as pq

    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            found.append(path.read_bytes())
            if path.suffix == ".parquet":
                found.append(repr(pq.read_table(path).to_pylist()).encode())
    return b"\n".join(found)


@pytest.mark.slow
def test_a_canary_key_is_in_no_byte_of_a_run_its_logs_or_its_errors(tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.setenv("FOIL_TEST_KEY", CANARY)
    caplog.set_level("DEBUG")
    with serving(mixed(0.4, api_keys=(CANARY,))) as server:
        settings = PATIENT | {"api_key": "${FOIL_TEST_KEY}"}
        run_hosted(tmp_path / "ok", server.url, 60, workers=1, **settings)
        server.control(api_keys=("another",))
        summary = run_hosted(tmp_path / "no", server.url, 5, **settings)
    assert summary.exit_code == 9
    out, err = capfd.readouterr()
    told = out + err + caplog.text + summary.stopped
    assert CANARY not in told
    assert CANARY.encode() not in every_byte(tmp_path)


def session(tmp_path, url, seeds, **settings):
    told = json.dumps({"seeds": seeds, **settings})
    command = [sys.executable, __file__, str(tmp_path / "out"), url, told]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "kills"), [(600, (150, 400)), pytest.param(2000, (300, 700, 1100, 1500), marks=pytest.mark.long)]
)
def test_a_kill_costs_at_most_what_was_in_flight(tmp_path, seeds, kills):
    with serving(Behaviour(latency=0.05)) as server:
        killed = 0
        for asked in kills:
            process = session(tmp_path, server.url, seeds)
            while server.report()["requests"] < asked and process.poll() is None:
                time.sleep(0.02)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
            process.wait()
        assert session(tmp_path, server.url, seeds).wait(timeout=240) == 0
        report = server.report()
    sound(tmp_path / "out", seeds)
    assert killed > 0
    assert report["delivered_twice"] <= possibly_paid_twice(open_store(tmp_path / "out")) <= killed * 64


@pytest.mark.slow
def test_batches_are_sent_answered_imported_and_resent_where_they_failed(tmp_path):
    behaviour = Behaviour(batch_seconds=0.5, batch_fail=0.2, batch_expire=0.2)
    told = {"mode": "batch", "batch": {"linger_s": 0.2, "poll_s": 0.1, "most_requests": 50}}
    with serving(Behaviour()) as server:
        run_hosted(tmp_path / "live", server.url, 120, window=120)
    with serving(behaviour) as server:
        summary = run_hosted(tmp_path / "batch", server.url, 120, window=120, **told)
    assert summary.complete
    assert summary.counts.seeds["accepted"] == 120
    assert summary.possibly_paid_twice == 0
    assert accepted(tmp_path / "batch") == accepted(tmp_path / "live")
    assert len(list((tmp_path / "batch" / "batches").glob("*.results.jsonl"))) > 3


def test_equal_requests_wait_for_one_line_of_a_batch(tmp_path):
    from foil.engine.requests import Message, Request

    told = {"model": "test-model", "mode": "batch", "batch": {"linger_s": 0.1, "poll_s": 0.1}}

    async def twice(url):
        model = Batched(HostedSettings.model_validate({**told, "url": url}), tmp_path)
        request = Request("test-model", (Message("user", "one"),))
        cancelled = asyncio.create_task(model.complete(request))
        waiting = [asyncio.create_task(model.complete(request)) for _ in range(2)]
        await asyncio.sleep(0.01)
        cancelled.cancel()
        replies = await asyncio.wait_for(asyncio.gather(*waiting), 20)
        await model.close()
        return replies

    with serving(Behaviour(batch_seconds=0.2)) as server:
        one, other = asyncio.run(twice(server.url))
        assert server.report()["kinds"]["batch_answered"] == 1
    assert one == other


@pytest.mark.slow
def test_a_killed_run_finds_its_batches_again_and_pays_for_none_twice(tmp_path):
    told = {"mode": "batch", "batch": {"linger_s": 0.2, "poll_s": 0.1}}
    with serving(Behaviour(batch_seconds=4.0)) as server:
        process = session(tmp_path, server.url, 100, window=100, **told)
        states = tmp_path / "out" / "batches"
        deadline = time.monotonic() + 120
        while not any("batch" in json.loads(path.read_text()) for path in states.glob("*.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for path in states.glob("*.json"):  # as if it had died before it noted the batch
            path.write_text(json.dumps({"file": json.loads(path.read_text())["file"], "status": "uploaded"}))
        assert session(tmp_path, server.url, 100, window=100, **told).wait(timeout=240) == 0
        report = server.report()
    sound(tmp_path / "out", 100)
    assert (report["kinds"]["POST batches"], report["kinds"]["batch_answered"], report["delivered_twice"]) == (
        1,
        100,
        0,
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_clock_that_jumps_and_a_server_that_drips_hold_nothing_up(tmp_path, monkeypatch):
    """Whoever reads the wall clock waits for an hour, and whoever waits for what drips for minutes."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600 * (1 if int(real() * 5) % 2 else -1))
    with serving(Behaviour(faults={"slow": 0.2, "timeout": 0.1}, worst=2)) as server:
        summary = run_hosted(tmp_path, server.url, 60, window=8, patience={"timeout_s": 0.5, "attempts": 12})
    assert summary.complete
    assert summary.counts.seeds["accepted"] == 60


def test_a_name_that_does_not_resolve_is_an_outage(tmp_path):
    summary = run_hosted(tmp_path, "http://no-such-host.invalid/v1", 20, patience={"outage_s": 2.0})
    assert (summary.exit_code, summary.counts.seeds["failed"]) == (9, 0)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_soak_keeps_memory_and_files_flat(tmp_path):
    """Shortened: 100,000 requests with 5 % faults instead of an hour."""
    faults = mixed(0.05)
    faults.faults = {kind: share for kind, share in faults.faults.items() if kind not in {"429_long", "429_date"}}
    seen = []

    def look(progress):
        if progress.counts.seeds.total() > 10_000:
            seen.append((peak_memory(), len(list(Path("/proc/self/fd").iterdir()))))

    forget_peak()
    with serving(faults) as server:
        limits, runtime = Limits(partition_seeds=500), RuntimeSettings(window=256)
        summary = run_parts(
            Numbers(100000), Builder(tmp_path, server.url, **PATIENT), limits, runtime, on_progress=look
        )
    assert summary.complete
    assert seen[-1][0] <= 1.05 * seen[0][0] + (20 << 20)  # the fault server in this process keeps its own books
    third = len(seen) // 3  # of the looks; how many files are open depends on how fast a machine closes dead sockets
    first, last = (median(files for _, files in part) for part in (seen[:third], seen[-third:]))
    assert last <= 1.05 * first + 20


def main() -> None:
    out, url, told = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    summary = run_hosted(out, url, told.pop("seeds"), window=told.pop("window", 64), **told)
    sys.exit(0 if summary.complete else 1)


if __name__ == "__main__":
    main()
