"""Engines as actors of a real Ray: equal bytes, killed engines, no room, a start that fails, nothing left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from foil.cluster.catalog import engines_of
from foil.cluster.job import load_job
from foil.engine.errors import ModelOutageError, UsageError
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings
from foil.engine.models.local.pooled_vllm import PooledVllm, engine_spec
from foil.engine.requests import Message, Request
from tests.support.commands import write_job
from tests.support.models.fake_engine import FakeEngine, run_pooled, settings_of
from tests.support.paths import REPO
from tests.support.small_parts import Numbers, billed, builder, digest, paid_twice, run_parts, sound

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def own_ray(ray_home):
    """A Ray of our own, for the tests of this file."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def engines_started(out):
    starts = out / "starts"
    return [int(line.split()[0]) for line in starts.read_text().splitlines()] if starts.exists() else []


def engines_billed(out):
    return {int(line.split()[1]) for line in (out / "bill").read_text().splitlines()}


def groups_left():
    return [g for g in ray.util.placement_group_table().values() if g["state"] != "REMOVED"]


def nothing_is_left(out):
    until(lambda: not any(psutil.pid_exists(pid) for pid in engines_started(out)))
    until(lambda: not groups_left())


def until(true, within_s=60.0):
    over = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < over
        time.sleep(0.05)


def test_a_run_has_the_same_bytes_with_no_one_and_two_engines(tmp_path):
    alone = builder(tmp_path / "0", model=FakeEngine(settings_of(0), tmp_path / "bill"))
    assert run_parts(Numbers(40), alone, Limits(partition_seeds=8), RuntimeSettings(window=8)).complete
    for engines in (1, 2):
        out = tmp_path / str(engines)
        summary = run_pooled(out, settings_of(engines), workers=2)
        assert (summary.complete, summary.exit_code) == (True, 0)
        assert digest(out) == digest(tmp_path / "0")
        assert engines_billed(out) == set(engines_started(out))
        assert len(engines_started(out)) == engines
        assert paid_twice(out / "bill") == 0
        sound(out, 40)
        nothing_is_left(out)


class Kill(threading.Thread):
    """Kills the first engine once so many requests are billed."""

    def __init__(self, out, after):
        super().__init__(daemon=True)
        self.out, self.after, self.over = out, after, threading.Event()

    def run(self):
        while len(billed(self.out / "bill")) < self.after:
            if self.over.wait(0.02):
                return
        os.kill(engines_started(self.out)[0], signal.SIGKILL)


@pytest.mark.parametrize("engines", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_killed_engine_is_started_again_and_its_requests_are_sent_again(tmp_path, engines):
    killer = Kill(tmp_path, 40)
    killer.start()
    summary = run_pooled(tmp_path, settings_of(engines), 160 * engines, delay_s=0.3)
    killer.over.set()
    killer.join()
    assert (summary.complete, summary.exit_code, summary.workers_lost) == (True, 0, 0)
    sound(tmp_path, 160 * engines)
    assert len(engines_started(tmp_path)) == engines + 1
    assert paid_twice(tmp_path / "bill") <= 8, "what was in flight"
    assert summary.possibly_paid_twice == 0
    nothing_is_left(tmp_path)


@pytest.mark.long
def test_a_run_goes_on_with_the_engines_that_found_room(tmp_path):
    summary = run_pooled(tmp_path, settings_of(6), 40)
    assert (summary.complete, summary.exit_code) == (True, 0)
    assert 1 <= len(engines_started(tmp_path)) <= 3
    nothing_is_left(tmp_path)


@pytest.mark.long
def test_a_run_without_room_for_any_engine_ends_as_an_outage(tmp_path):
    settings = settings_of(1, startup_s=8).model_copy(update={"engine_cpus": 500})
    summary = run_pooled(tmp_path, settings, 8)
    assert (summary.complete, summary.exit_code) == (False, 9)
    assert not groups_left()


def test_an_engine_that_never_starts_ends_the_run_with_its_words(tmp_path):
    summary = run_pooled(tmp_path, settings_of(1, "broken"), 8)
    assert (summary.complete, summary.exit_code) == (False, 9)
    assert "broken: no such weights" in summary.stopped
    nothing_is_left(tmp_path)


def test_a_killed_driver_takes_engines_and_their_room_along(tmp_path):
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.support.models.fake_engine", str(tmp_path), "4000"],
        cwd=REPO, env={**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: len(billed(tmp_path / "bill")) > 20)
        assert len(groups_left()) == 2
    finally:
        driver.kill()
        driver.wait()
    nothing_is_left(tmp_path)


# what needs no Ray


def test_the_number_of_engines_is_no_part_of_a_job_or_a_request(tmp_path):
    none, two = (settings_of(engines) for engines in (0, 2))
    assert none.identity() == two.identity()
    local, pooled = LocalVllm(none), PooledVllm(two)
    assert (local.name, dict(local.traits.params)) == (pooled.name, dict(pooled.traits.params))


def test_an_engine_claims_one_bundle_and_its_processes_are_its_own():
    settings = LocalVllmSettings(
        kind="local_vllm", model="m", engines=3, tensor_parallel_size=2, pipeline_parallel_size=2
    )
    spec = engine_spec(settings, lambda told: told)
    assert (len(set(spec.names)), dict(spec.room)) == (3, {"CPU": 1.0, "GPU": 4.0})
    assert spec.build().engine_args == {"distributed_executor_backend": "mp"}
    assert spec.build().engines == 0
    one = engine_spec(settings.model_copy(update={"tensor_parallel_size": 1, "pipeline_parallel_size": 1}), lambda s: s)
    assert one.build().engine_args == {}
    assert dict(engine_spec(settings_of(1), lambda s: s).room) == {"CPU": 1.0}


def test_roles_of_equal_settings_share_engines():
    assert len(engines_of([settings_of(2), settings_of(2), settings_of(0), settings_of(2, "other")])) == 2


def test_a_local_run_refuses_engines(tmp_path):
    job = write_job(tmp_path, 3)
    model = "models: {writer: {kind: local_vllm, model: m, engines: 2}}"
    job.write_text(job.read_text().replace("{kind: verifiable}", f"{{kind: infir}}\n{model}"))
    with pytest.raises(UsageError, match=r"models.writer: `engines` are actors of Ray; set runtime.kind: ray"):
        load_job(job)
    assert load_job(job, ["runtime.kind=ray", "runtime.workers=1"]).models["writer"].engines == 2


def test_whoever_asks_without_a_run_on_ray_is_told_to_set_none():
    model = PooledVllm(settings_of(2))
    with pytest.raises(ModelOutageError, match="set engines: 0"):
        asyncio.run(model.complete(Request("m", (Message("user", "x"),))))
