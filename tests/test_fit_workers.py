"""Two workers make the same losses and the same weights as one: over plain gloo, and on a real Ray Train pool."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from test_fit import fitted, load, settings_for
from trainer_world import commit, open_view, tiny_bert, topic

from trainer.checkpoint import weights
from trainer.fit import train
from trainer.model_settings import ModelSettings
from trainer.settings import LossSettings

ALONE, SHARED = range(40), range(40, 60)
TOPICS = [topic(n) for n in ALONE] + [topic(n, text=f"a text of topics {n // 2 * 2} and one more") for n in SHARED]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return commit(tmp_path_factory.mktemp("world"), TOPICS)


def ways(tiny):
    """Runs that reach workers differently: columns of all, pairs of all instructions, literal columns, a cache."""
    every = {"instructions": "batch"}
    for name, loss, cached in (
        ("topic", LossSettings(), False),
        ("batch", LossSettings(blocks=("P", "I", "IQ", "Q"), **every), True),
        ("literal", LossSettings(blocks=("P", "I"), combine="sum", duplicates="kept", **every), True),
    ):
        yield name, settings_for(tiny, loss=loss, gradient_cache=cached, model=ModelSettings(matryoshka=(8,)))


def fit_one(rank, workers, folder, tiny, world):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=workers)
    for name, settings in ways(tiny):
        losses, after = fitted(settings, open_view(world), folder / name)
        if rank == 0:
            save_file({name: value.contiguous() for name, value in after.items()}, folder / f"{name}.safetensors")
        (folder / f"{name}-{rank}.json").write_text(json.dumps(losses))
    dist.destroy_process_group()


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.long)])
def test_gloo_workers_equal_one_worker(tiny, world, tmp_path, workers):
    mp.start_processes(fit_one, (workers, tmp_path, tiny, world), nprocs=workers, start_method="spawn")
    for name, settings in ways(tiny):
        losses, after = fitted(settings, open_view(world), tmp_path / f"{name} alone")
        told = [json.loads((tmp_path / f"{name}-{rank}.json").read_text()) for rank in range(workers)]
        assert all(found == told[0] for found in told)
        assert np.allclose(told[0], losses, rtol=1e-6, atol=1e-6), name
        for part, value in load_file(tmp_path / f"{name}.safetensors").items():
            assert torch.allclose(value, after[part], atol=1e-6), (name, part, (value - after[part]).abs().max())


@pytest.fixture
def ray_cluster(monkeypatch):
    import ray

    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent.parent))
        ray.init(address="local", num_cpus=4, include_dashboard=False, _temp_dir=folder, log_to_driver=False)
        yield ray
        ray.shutdown()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_two_ray_workers_equal_one_process(tiny, world, tmp_path, ray_cluster):
    from trainer.fit_ray import train_on_ray

    view, settings = open_view(world), settings_for(tiny)
    alone = train(settings, view, tmp_path / "alone")
    pool = train_on_ray(settings.model_copy(update={"workers": 2}), view, tmp_path / "pool")
    assert np.allclose(pool.facts["losses"], alone.facts["losses"], atol=1e-5)
    ours, theirs = (weights(load(run.model)) for run in (alone, pool))
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], atol=1e-5), name
