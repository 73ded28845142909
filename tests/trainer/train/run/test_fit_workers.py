"""Two workers make the same losses and the same weights as one: over plain gloo, and on a real Ray Train pool."""

import json
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file

from foil.engine.errors import RunFailedError, TrainingDivergedError
from foil.trainer.model.checkpoint import weights
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import LossSettings, ValidationSettings
from foil.trainer.train.run.fit import train
from tests.support.paths import REPO
from tests.support.trainer_world import commit, open_view, topic
from tests.support.training import StoppedError, fitted, load, settings_for, settings_that_diverge

pytestmark = pytest.mark.slow

ALONE, SHARED = range(40), range(40, 60)
TOPICS = [topic(n) for n in ALONE] + [topic(n, text=f"a text of topics {n // 2 * 2} and one more") for n in SHARED]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return commit(tmp_path_factory.mktemp("world"), TOPICS)


def ways(bert):
    """Runs that reach workers differently: columns of all, pairs of all instructions, literal columns, a cache."""
    every = {"instructions": "batch"}
    for name, loss, cached in (
        ("topic", LossSettings(), False),
        ("batch", LossSettings(blocks=("P", "I", "IQ", "Q"), **every), True),
        ("literal", LossSettings(blocks=("P", "I"), combine="sum", duplicates="kept", **every), True),
    ):
        settings = settings_for(bert, loss=loss, gradient_cache=cached, model=ModelSettings(matryoshka=(8,)))
        keep = settings.retention.model_copy(update={"plain_topics": 5})
        yield name, settings.model_copy(update={"retention": keep})


def stopped(settings, world, folder):
    """A run that ends after step 3, with a checkpoint of step 2."""

    def stop(row):
        if row.step == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        fitted(settings, open_view(world), folder, on_step=stop)


def fit_one(rank, workers, folder, bert, world):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=workers)
    stopped(settings_for(bert), world, folder / "many-then-one")
    losses, _ = fitted(settings_for(bert), open_view(world), folder / "one-then-many")
    (folder / f"one-then-many-{rank}.json").write_text(json.dumps(losses))
    for name, settings in ways(bert):
        losses, after = fitted(settings, open_view(world), folder / name)
        if rank == 0:
            save_file({name: value.contiguous() for name, value in after.items()}, folder / f"{name}.safetensors")
        (folder / f"{name}-{rank}.json").write_text(json.dumps(losses))
    try:
        fitted(settings_that_diverge(bert), open_view(world), folder / "diverged")
    except TrainingDivergedError as error:
        (folder / f"diverged-{rank}.txt").write_text(str(error))
    dist.destroy_process_group()


def assert_together(found, expected, start):
    """The weights lie together to 1e-6 of their length, and to 1e-4 of the way that training went."""
    apart, whole, moved = (
        torch.cat([(one[name] - other.get(name, 0)).reshape(-1) for name in expected]).norm()
        for one, other in ((found, expected), (expected, {}), (expected, start))
    )
    assert apart <= 1e-6 * whole
    assert apart <= 1e-4 * moved
    print(f"weights apart by {apart / whole:.1e} of their length, {apart / moved:.1e} of the way")


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.long)])
def test_gloo_workers_equal_one_worker(bert, world, tmp_path, workers):
    stopped(settings_for(bert), world, tmp_path / "one-then-many")
    mp.start_processes(fit_one, (workers, tmp_path, bert, world), nprocs=workers, start_method="spawn")
    for name, settings in ways(bert):
        losses, after = fitted(settings, open_view(world), tmp_path / f"{name} alone")
        told = [json.loads((tmp_path / f"{name}-{rank}.json").read_text()) for rank in range(workers)]
        assert all(found == told[0] for found in told)
        assert np.allclose(told[0], losses, rtol=1e-6, atol=1e-6), name
        assert_together(load_file(tmp_path / f"{name}.safetensors"), after, weights(load(bert)))

    words = [(tmp_path / f"diverged-{rank}.txt").read_text() for rank in range(workers)]
    assert words == words[:1] * workers

    straight, after = fitted(settings_for(bert), open_view(world), tmp_path / "straight")
    shrunk, shrunk_after = fitted(settings_for(bert), open_view(world), tmp_path / "many-then-one")
    grown = json.loads((tmp_path / "one-then-many-0.json").read_text())
    assert np.allclose([grown, shrunk], [straight, straight], rtol=1e-6, atol=1e-6)
    assert_together(shrunk_after, after, weights(load(bert)))


@pytest.fixture
def ray_cluster(ray_home, monkeypatch):
    import ray

    monkeypatch.setenv("PYTHONPATH", str(REPO))
    ray.init(address="local", num_cpus=2, include_dashboard=False, _temp_dir=str(ray_home), log_to_driver=False)
    yield ray
    ray.shutdown()


def assert_same(one, other):
    assert np.allclose(one.facts["losses"], other.facts["losses"], atol=1e-5)
    ours, theirs = (weights(load(run.model)) for run in (one, other))
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], atol=1e-5), name


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_two_ray_workers_equal_one_process_and_ray_measures_the_same(bert, world, tmp_path, ray_cluster):
    from foil.trainer.train.run.fit_ray import train_on_ray

    plan = ValidationSettings(steps=4, keep="best", measure="should_fall")
    view, settings = open_view(world, dev_share=0.2), settings_for(bert, validation=plan)
    alone = train(settings, view, tmp_path / "alone")
    pool = train_on_ray(settings.model_copy(update={"workers": 2}), view, tmp_path / "pool")
    assert_same(pool, alone)
    assert pool.facts["step"] == alone.facts["step"]
    found, expected = ({m["step"]: m["means"] for m in run.facts["validations"]} for run in (pool, alone))
    assert list(found) == list(expected) == [0, 4, 6]
    for step, means in expected.items():
        assert found[step] == pytest.approx(means, abs=1e-3)
    (told,) = (tmp_path / "pool" / "ray").glob("*/checkpoint_manager_snapshot.json")
    results = json.loads(told.read_text())["checkpoint_results"]
    assert {one["metrics"]["step"]: one["metrics"]["net"] for one in results} == {
        step: means["net"] for step, means in found.items()
    }
    logged = (tmp_path / "pool" / "logs" / "validation.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in logged] == ["step", "0", "4", "6"]


def workers_of(process):
    """The training workers among the descendants of a process."""
    children = psutil.Process(process).children(recursive=True)
    return sorted(child.pid for child in children if "RayTrainWorker" in " ".join(child.cmdline()))


def kill_a_worker(log, after):
    """Kills a training worker of this process once so many steps are logged; join what is returned."""

    def wait():
        while not log.exists() or len(log.read_text().splitlines()) <= after:
            time.sleep(0.01)
        os.kill(workers_of(os.getpid())[-1], signal.SIGKILL)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_pool_that_diverges_stops_at_once(bert, world, tmp_path, ray_cluster):
    from foil.trainer.train.run.fit_ray import train_on_ray

    settings = settings_that_diverge(bert).model_copy(update={"workers": 2})
    with pytest.raises(TrainingDivergedError, match=r"Lower `schedule.learning_rate`"):
        train_on_ray(settings, open_view(world), tmp_path)
    assert not (tmp_path / "model").exists()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_pool_whose_worker_is_killed_restarts_as_often_as_allowed_and_ends_the_same(
    bert, world, tmp_path, ray_cluster
):
    from foil.trainer.train.run.fit_ray import train_on_ray

    view = open_view(world)
    settings = settings_for(bert, steps=200).model_copy(update={"checkpoint_steps": 10, "workers": 2})
    log = tmp_path / "pool" / "logs" / "train.csv"
    killer = kill_a_worker(log, after=25)
    with pytest.raises(RunFailedError, match="2 Ray workers failed"):
        train_on_ray(settings.model_copy(update={"max_failures": 0}), view, tmp_path / "pool")
    killer.join()
    assert not (tmp_path / "pool" / "model").exists()
    killer = kill_a_worker(log, after=100)
    pool = train_on_ray(settings.model_copy(update={"max_failures": 1}), view, tmp_path / "pool")
    killer.join()
    assert [int(row.split(",")[0]) for row in log.read_text().splitlines()[1:]] == list(range(1, 201))
    assert_same(pool, train(settings, view, tmp_path / "alone"))
