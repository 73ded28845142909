"""The job of the first page, through `foil run` on every kind of worker: the same bytes."""

from pathlib import Path

import pytest

from tests.support.commands import foil
from tests.support.paths import REPO

QUICKSTART = REPO / "examples" / "jobs" / "quickstart.yaml"
SEEDS = 600


@pytest.fixture(scope="module")
def two_cpus(ray_home):
    """The address of a Ray of two CPUs."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield cluster.address
    cluster.shutdown()


def shards(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in (out / "data").rglob("*.parquet")}


def run(out: Path, *settings: str) -> dict[str, bytes]:
    """The shards of a whole run that verifies."""
    sets = [word for setting in (f"limits.seeds={SEEDS}", *settings) for word in ("--set", setting)]
    ended = foil("run", QUICKSTART, "--out", out, *sets)
    assert ended.returncode == 0, ended.stderr
    assert foil("verify", out).returncode == 0
    return shards(out)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_one_process_two_children_and_one_two_or_six_actors_on_two_cpus_write_the_same_bytes(tmp_path, two_cpus):
    alone = run(tmp_path / "alone")
    assert len(alone) == 6 * SEEDS / 100
    assert run(tmp_path / "children", "runtime.workers=2") == alone
    for actors in (1, 2, 6):
        settings = ("runtime.kind=ray", f"runtime.ray_address={two_cpus}", f"runtime.workers={actors}")
        assert run(tmp_path / f"actors-{actors}", *settings) == alone, actors
