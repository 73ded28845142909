"""Engines of two GPUs each on the nodes of a real Ray cluster, whose GPUs are mere numbers: one goes, one comes."""

import threading
from functools import partial

import pytest

from tests.support.models.fake_engine import run_pooled, settings_of
from tests.support.small_parts import billed, sound

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("ray_home")]


@pytest.fixture
def cluster():
    """A head for driver and worker, and two nodes of two GPUs."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, num_gpus=2)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def devices(out):
    starts = out / "starts"
    return [line.split()[1] for line in starts.read_text().splitlines()] if starts.exists() else []


@pytest.mark.long
def test_an_engine_whose_node_is_lost_moves_to_one_that_comes(tmp_path, cluster):
    settings = settings_of(2, engine_cpus=0, tensor_parallel_size=2)
    lost = cluster.list_all_nodes()[-1]
    losing = threading.Thread(target=partial(cluster.remove_node, lost, allow_graceful=False))
    added = []

    def watch(progress):
        if losing.ident is None and len(devices(tmp_path)) == 2 and len(billed(tmp_path / "bill")) > 20:
            losing.start()
        if losing.ident and not losing.is_alive() and not added:
            added.append(
                cluster.add_node(num_cpus=1, num_gpus=2)
            )  # in this thread: Ray's Node sets handlers of signals

    summary = run_pooled(tmp_path, settings, 700, delay_s=1.0, progress=watch)
    assert (summary.complete, summary.exit_code, summary.workers_lost) == (True, 0, 0)
    assert devices(tmp_path) == ["0,1"] * 3
    sound(tmp_path, 700)
