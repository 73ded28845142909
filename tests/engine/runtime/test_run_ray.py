"""The same flow over real Ray actors: equal bytes, a killed actor, poison rows, one budget."""

from functools import partial
from pathlib import Path

import pytest

from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.storage.opening import open_store
from tests.support.drills.run_drill import POISON, Builder, job, poisoned_rows, survive
from tests.support.models.fault_server import Behaviour, serving
from tests.support.small_parts import Echo, Numbers, billed, builder, digest, quiet, run_parts, sound

ray = pytest.importorskip("ray")
run_ray = pytest.importorskip("foil.engine.runtime.run_ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def own_ray(ray_home):
    """A Ray of our own, for the tests of this file."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def job_on_ray(out: Path, seeds: int = 40, *, reader=None, limits=None, runtime=None, progress=quiet, **parts):
    """One session over `seeds` seeds, in partitions of 8, on two actors."""
    limits = Limits(partition_seeds=8, **(limits or {}))
    settings = RuntimeSettings(**{"kind": "ray", "window": 4, "workers": 2, **(runtime or {})})
    return run_parts(
        reader or Numbers(seeds), builder(out, **parts), limits, settings, runner=run_ray.run, on_progress=progress
    )


def test_actors_commit_the_same_bytes_as_this_process(tmp_path):
    reader = Numbers(40, {3: "reject", 9: "raise", 17: "refuse"})
    assert job(tmp_path / "local", reader=reader).complete
    summary = job_on_ray(tmp_path / "ray", reader=reader, model=Echo(delay_s=0.01))
    assert (summary.complete, summary.counts.seeds["accepted"], summary.exit_code) == (True, 37, 3)
    assert digest(tmp_path / "ray") == digest(tmp_path / "local")
    sound(tmp_path / "ray", 40)


def test_a_killed_actor_costs_another_attempt_and_nothing_else(tmp_path):
    survive(tmp_path / "ray", 300, 1, partial(job_on_ray, tmp_path / "ray", 300))
    job(tmp_path / "local", 300)
    assert digest(tmp_path / "ray") == digest(tmp_path / "local")


def test_six_workers_on_two_cpus_finish_with_two_and_say_so(tmp_path):
    said = []
    summary = job_on_ray(tmp_path / "ray", 400, runtime={"workers": 6}, model=Echo(delay_s=0.1), progress=said.append)
    assert (summary.complete, summary.exit_code) == (True, 0)
    waits = {progress.waiting_for for progress in said if progress.workers_placed == 2}
    assert waits == {"2 of 6 workers placed; waiting for CPU"}
    job(tmp_path / "local", 400)
    assert digest(tmp_path / "ray") == digest(tmp_path / "local")


def test_a_range_of_workers_asks_the_autoscaler_for_room_until_the_run_ends(tmp_path, monkeypatch):
    asked = []

    def note(*, bundles):
        asked.append(bundles)

    monkeypatch.setattr(run_ray, "request_resources", note)
    assert job_on_ray(tmp_path, 16, runtime={"workers": {"min": 2, "max": 4}}).complete
    assert asked == [[{"CPU": 1.0}, {"CPU": 1.0}], []]


@pytest.mark.long
def test_actors_share_one_budget(tmp_path):
    bill = tmp_path / "bill"
    for calls, code in ((21, 4), (40, 0)):
        summary = job_on_ray(tmp_path / "out", model=Echo(bill), limits={"budget": {"calls": calls}})
        assert (summary.exit_code, len(billed(bill))) == (code, calls)
    sound(tmp_path / "out", 40)


def test_a_killed_budget_stops_the_run_and_fails_no_seed(tmp_path, monkeypatch):
    made, create = [], run_ray._ActorPool._create

    async def note(pool, budget, *, apart):
        actor = await create(pool, budget, apart=apart)
        made.append(pool._budget_actor)
        return actor

    def kill_once(progress):
        if made and progress.in_flight:
            ray.kill(made.pop())
            made.clear()

    monkeypatch.setattr(run_ray._ActorPool, "_create", note)
    bill, budget = tmp_path / "bill", {"budget": {"calls": 10_000}}
    summary = job_on_ray(tmp_path / "out", 400, model=Echo(bill, delay_s=0.05), limits=budget, progress=kill_once)
    monkeypatch.undo()
    assert (summary.complete, summary.exit_code, summary.counts.seeds["failed"]) == (False, 14, 0)
    assert "run again: the journal knows what was spent" in summary.stopped
    assert 0 < len(billed(bill)) < 400
    summary = job_on_ray(tmp_path / "out", 400, model=Echo(bill), limits=budget)
    assert (summary.complete, summary.exit_code, summary.counts.seeds["accepted"]) == (True, 0, 400)
    assert len(billed(bill)) <= 400 + possibly_paid_twice(open_store(tmp_path / "out"))


@pytest.mark.long
def test_poison_rows_fail_alone_on_actors(tmp_path):
    runtime = {"workers": 1, "seed_timeout_s": 3, "worker_memory_mb": 512}
    summary = job_on_ray(tmp_path, reader=Numbers(80, POISON), runtime=runtime)
    poisoned_rows(tmp_path, summary, 80)


@pytest.mark.long
def test_dozens_of_killed_actors_cost_another_attempt_and_nothing_else(tmp_path):
    assert survive(tmp_path, 12_000, 100, partial(job_on_ray, tmp_path, 12_000), every=80) >= 50


@pytest.mark.long
def test_a_canary_key_is_in_no_byte_that_ray_keeps(tmp_path, ray_home, monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", "sk-canary-71c0d2")  # actors of the Ray that runs already do not inherit it
    key = tmp_path / "key"
    key.write_text("sk-canary-71c0d2")
    with serving(Behaviour(api_keys=("sk-canary-71c0d2",), faults={"503": 0.2})) as server:
        parts = Builder(tmp_path / "out", server.url, api_key=f"file:{key}")
        settings = RuntimeSettings(kind="ray", window=8, workers=2)
        summary = run_parts(Numbers(30), parts, Limits(partition_seeds=8), settings, runner=run_ray.run)
    assert (summary.complete, summary.counts.seeds["accepted"]) == (True, 30)
    kept = [path for folder in (ray_home, tmp_path / "out") for path in folder.rglob("*") if path.is_file()]
    assert len(kept) > 20
    assert not [path for path in kept if b"sk-canary-71c0d2" in path.read_bytes()]


def test_a_run_starts_a_ray_of_its_own_where_there_is_none(tmp_path):
    ray.shutdown()
    assert job_on_ray(tmp_path, 8, runtime={"workers": 1}).complete
    assert not ray.is_initialized()
