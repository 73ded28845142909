"""One quota over real worker processes: children of this machine, and actors of a Ray cluster."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.runtime import run_local
from tests.support.drills.run_drill import Builder
from tests.support.models.fault_server import Behaviour, busiest, serving
from tests.support.small_parts import Numbers, quiet, run_parts

RPM = 1_800
SEEDS = 330


def sends_of(out, runner, on_progress=quiet, **runtime):
    """When the server got the requests of a run of two workers, each of which was given the whole quota as its part."""
    settings = RuntimeSettings(window=32, workers=2, **runtime)
    with serving(Behaviour(latency=0.05)) as server:
        parts = Builder(out, server.url, rpm=RPM)
        run = partial(run_parts, Numbers(SEEDS), parts, Limits(partition_seeds=16), settings)
        summary = run(runner=runner, on_progress=on_progress)
        assert (summary.complete, summary.counts.seeds["accepted"]) == (True, SEEDS)
        return list(server.server.stats.arrived)


def within_the_quota(sends):
    """The requests of two workers keep to one quota, and use it."""
    assert len(sends) == SEEDS
    assert busiest(sends, [1] * SEEDS, 5.0) <= RPM / 60 * (5.0 + 1.0)
    early, late = SEEDS // 3, SEEDS * 3 // 4  # at the end, one of them has nothing left to do
    assert (late - early) / (sends[late] - sends[early]) >= 0.9 * RPM / 60


@pytest.mark.slow
def test_two_children_share_one_quota(tmp_path):
    within_the_quota(sends_of(tmp_path / "out", run_local.run))


@pytest.fixture
def own_ray(ray_home):
    """A Ray of our own."""
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_two_actors_share_one_quota_and_a_killed_book_is_restarted(tmp_path, own_ray):
    run_ray = pytest.importorskip("foil.engine.runtime.run_ray")
    killed = []

    def kill_once(progress):
        if not killed and progress.counts.seeds.total() > SEEDS // 3:
            book = own_ray.get_actor("foil-rates", namespace="foil")
            killed.append(own_ray.get(book.pid.remote()))
            os.kill(killed[0], signal.SIGKILL)

    within_the_quota(sends_of(tmp_path / "out", run_ray.run, kill_once, kind="ray"))
    book = own_ray.get_actor("foil-rates", namespace="foil")
    assert own_ray.get(book.pid.remote()) not in killed
    assert killed
