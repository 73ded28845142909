"""Runs over real Ray clusters: no room for all workers, nodes that go and come, a head that is dead, signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from foil.engine.errors import FoilError
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.storage.opening import open_store
from tests.support.commands import foil
from tests.support.drills.kill_history import IN_FLIGHT, KillHistory
from tests.support.drills.run_drill import job
from tests.support.paths import REPO
from tests.support.small_parts import Echo, Numbers, billed, builder, digest, opened, paid_twice, run_parts, sound

ray = pytest.importorskip("ray")
run_ray = pytest.importorskip("foil.engine.runtime.run_ray")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("ray_home")]
_SEEDS = 400


@contextmanager
def joined(cpus_of_nodes):
    """A cluster whose head has no CPU, and this process in it."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        cluster.nodes = [cluster.add_node(num_cpus=cpus) for cpus in cpus_of_nodes]
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


class Watched:
    """A run in this thread whose progress decides when something is done to the cluster, once."""

    def __init__(self, when, act) -> None:
        self.when, self.act, self.acted, self.progresses = when, act, threading.Thread(target=act), []

    def __call__(self, progress) -> None:
        self.progresses.append(progress)
        if self.acted.ident is None and self.when(progress):
            self.acted.start()

    def run(self, out: Path, workers, seeds: int = _SEEDS, **runtime):
        settings = RuntimeSettings(kind="ray", window=4, workers=workers, **runtime)
        parts = builder(out, model=Echo(out / "bill", delay_s=0.1))
        summary = run_parts(
            Numbers(seeds), parts, Limits(partition_seeds=8), settings, runner=run_ray.run, on_progress=self
        )
        self.acted.join()
        assert (summary.complete, summary.exit_code) == (True, 0)
        sound(out, seeds)
        assert paid_twice(out / "bill") <= possibly_paid_twice(open_store(out))
        return summary


def same_as_local(out: Path, folder: Path, seeds: int = _SEEDS) -> None:
    job(folder, seeds)
    assert digest(out) == digest(folder)


@pytest.mark.long
def test_a_node_that_is_lost_and_not_replaced_stops_no_run(tmp_path):
    with joined([1, 1, 1]) as cluster:
        watched = Watched(
            lambda progress: progress.counts.seeds.total() > 60,
            lambda: cluster.remove_node(cluster.nodes[1], allow_graceful=False),
        )
        began = time.monotonic()
        summary = watched.run(tmp_path / "ray", 3)
        assert time.monotonic() - began < 120
    assert summary.workers_lost == 1
    assert watched.progresses[-1].waiting_for == "2 of 3 workers placed; waiting for CPU"
    same_as_local(tmp_path / "ray", tmp_path / "local")


@pytest.mark.long
def test_a_killed_actor_of_three_nodes_costs_nothing(tmp_path):
    def kill():
        os.kill(int((tmp_path / "ray" / "bill").read_text().splitlines()[-1].split()[1]), signal.SIGKILL)

    with joined([1, 1, 1]):
        watched = Watched(lambda progress: progress.counts.seeds.total() > 60, kill)
        summary = watched.run(tmp_path / "ray", 3)
    assert 1 <= summary.workers_lost <= 4
    same_as_local(tmp_path / "ray", tmp_path / "local")


@pytest.mark.long
def test_a_run_grows_onto_an_added_node_within_twenty_seconds(tmp_path):
    added, placed, said = [], [], set()

    with joined([1]) as cluster:

        def note(progress):
            said.add(progress.waiting_for if progress.workers_placed else "")
            if not added and progress.counts.seeds.total() > 60:
                cluster.add_node(num_cpus=2)  # in this thread: Ray's Node sets handlers of signals
                added.append(time.monotonic())
            if progress.workers_placed == 3:
                placed.append(time.monotonic())

        settings = RuntimeSettings(kind="ray", window=4, workers={"min": 1, "max": 3})
        parts = builder(tmp_path / "ray", model=Echo(delay_s=0.3))
        summary = run_parts(
            Numbers(1_600), parts, Limits(partition_seeds=8), settings, runner=run_ray.run, on_progress=note
        )
    assert (summary.complete, summary.workers_lost) == (True, 0)
    assert placed[0] - added[0] < 20
    assert said == {""}
    same_as_local(tmp_path / "ray", tmp_path / "local", 1_600)


@pytest.mark.long
def test_preempted_actors_are_no_poison(tmp_path):
    """More deaths than any number that would end a run; each is told as what it is."""
    bill = tmp_path / "ray" / "bill"
    over = threading.Event()

    def preempt():
        while not over.wait(1.5):
            last = int(bill.read_text().splitlines()[-1].split()[1])
            if last != os.getpid():
                try:
                    os.kill(last, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    with joined([1, 1]):
        watched = Watched(lambda progress: progress.counts.seeds.total() > 20, preempt)
        timer = threading.Timer(40, over.set)
        timer.start()
        summary = watched.run(tmp_path / "ray", 2, 2_000)
    assert summary.workers_lost >= 10
    assert summary.counts.seeds == {"accepted": 2_000}


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_hundred_kills_of_actors_nodes_and_drivers_lose_double_and_stall_nothing(tmp_path):
    seeds, out, began = 6_000, tmp_path / "ray", time.monotonic()
    with joined([1, 1, 1]) as cluster:
        history = KillHistory(cluster, out, seeds, 100, Random(16))
        summary = history.play()
    quiet_s, between_commits_s = history.longest_quiet_s()
    twice, counted = paid_twice(out / "bill"), possibly_paid_twice(open_store(out))
    print(
        f"{dict(history.killed)} in {time.monotonic() - began:.0f} s, {len(billed(out / 'bill'))} requests, "
        f"{twice} paid twice, {counted} counted, {quiet_s:.1f} s without commit or kill, "
        f"{between_commits_s:.1f} s without commit"
    )
    assert history.killed.total() >= 100
    assert (summary["complete"], summary["exit_code"]) == (True, 0)
    sound(out, seeds)
    assert foil("verify", out).returncode == 0
    assert twice <= counted <= sum(IN_FLIGHT[kind] * kills for kind, kills in history.killed.items())
    assert quiet_s < 30
    same_as_local(out, tmp_path / "local", seeds)


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings, began = RuntimeSettings(kind="ray", workers=1, ray_address=address), time.monotonic()
    with pytest.raises(FoilError, match=f"no Ray head answers at {address}"):
        run_parts(Numbers(8), builder(tmp_path), Limits(), settings, runner=run_ray.run)
    assert time.monotonic() - began < 15


@pytest.mark.long
@pytest.mark.parametrize("head", ["alive", "dead"])
def test_a_signal_is_heard_within_seconds_also_with_a_dead_head(tmp_path, head):
    with joined([2]) as cluster:
        ray.shutdown()
        told = {
            "seeds": 4_000,
            "delay_s": 0.1,
            "bill": str(tmp_path / "bill"),
            "limits": {"partition_seeds": 8},
            "runtime": {"kind": "ray", "workers": 2, "window": 4, "ray_address": cluster.address},
        }
        command = [sys.executable, "-m", "tests.support.small_run", str(opened(tmp_path)), json.dumps(told)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPO)
        deadline = time.monotonic() + 90
        while len(billed(tmp_path / "bill")) < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        if head == "dead":
            cluster.head_node.kill_gcs_server(check_alive=False)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        summary = next(line for line in process.stdout if line.startswith("{"))
        assert json.loads(summary)["exit_code"] == 143
        assert time.monotonic() - began < 10
        process.kill()
        process.wait()
    sound(tmp_path, 4_000, finished=False)
