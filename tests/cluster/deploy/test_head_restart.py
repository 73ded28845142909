"""A head that dies under a run and comes back at its address with its records: what HEAD and WORKER promise."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pytest

from foil.cluster.deploy.ray_environment import HEAD, NETWORK, WORKER
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.storage.opening import open_store
from tests.support.commands import foil
from tests.support.drills.ray_head import Head
from tests.support.drills.run_drill import job
from tests.support.paths import REPO
from tests.support.small_parts import billed, digest, opened, paid_twice, sound

pytest.importorskip("ray")
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
SEEDS, WINDOW = 2_000, 4
DRIVERS_NODE, OTHER_NODE = "127.0.0.2", "127.0.0.3"


@pytest.fixture
def head():
    with tempfile.TemporaryDirectory(prefix="fh", dir="/tmp", ignore_cleanup_errors=True) as folder:
        records = {**HEAD, "RAY_gcs_storage_path": f"{folder}/records"}
        head = Head(Path(folder), cpus=0, **NETWORK, **records)
        nodes = [head.join(ip, **NETWORK, **WORKER) for ip in (DRIVERS_NODE, OTHER_NODE)]
        yield head
        for node in (head, *nodes):
            node.kill()


def start_run(head: Head, out: Path, **more: str) -> subprocess.Popen:
    """The test job as a process of its own, which belongs to the head's node unless `node_ip` is another's."""
    told = {
        "seeds": SEEDS, "delay_s": 0.4, "prepaid": True, "bill": str(out / "bill"), "limits": {"partition_seeds": 8},
        "runtime": {"kind": "ray", "workers": 2, "window": WINDOW, "ray_address": f"127.0.0.1:{head.port}"},
        **more,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.support.small_run", str(opened(out)), json.dumps(told)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPO, env={**head.env, **NETWORK, **WORKER})


def actors(out: Path) -> list[int]:
    """The processes that paid last."""
    return sorted({int(line.split()[1]) for line in (out / "bill").read_text().splitlines()[-8 * WINDOW :]})


def await_payments(out: Path, more: int, run: subprocess.Popen) -> None:
    enough, end = len(billed(out / "bill")) + more, time.monotonic() + 120
    while len(billed(out / "bill")) < enough:
        assert run.poll() is None, "the run ended by itself"
        assert time.monotonic() < end, "nothing is paid any more"
        time.sleep(0.05)


def longest_without_commit_s(out: Path) -> float:
    commits = sorted(path.stat().st_mtime for path in (out / "commits").glob("*.json"))
    return max(later - earlier for earlier, later in pairwise(commits))


def as_a_local_run(out: Path, folder: Path) -> None:
    sound(out, SEEDS)
    assert foil("verify", out).returncode == 0
    job(folder, SEEDS)
    assert digest(out) == digest(folder)


def test_a_restarted_head_finds_the_actors_of_a_run_again(head, tmp_path):
    out = tmp_path / "ray"
    with start_run(head, out, node_ip=DRIVERS_NODE) as run:
        await_payments(out, 100, run)
        before, died = actors(out), time.monotonic()
        head.kill()
        await_payments(out, 100, run)
        head.start()
        away_s = time.monotonic() - died
        await_payments(out, 100, run)
        assert actors(out) == before
        assert paid_twice(out / "bill") == 0
        os.kill(before[0], signal.SIGKILL)
        summary = json.loads(run.communicate(timeout=200)[0].splitlines()[-1])
    print(f"no head for {away_s:.1f} s; never {longest_without_commit_s(out):.1f} s without a commit")
    assert (summary["complete"], summary["exit_code"]) == (True, 0)
    assert before[1] in actors(out)
    assert set(actors(out)) - set(before), "the new head starts actors for the run"
    assert paid_twice(out / "bill") <= possibly_paid_twice(open_store(out)) <= 2 * WINDOW
    as_a_local_run(out, tmp_path / "local")


def test_a_run_whose_own_node_died_with_the_head_says_so_and_is_resumed(head, tmp_path):
    out = tmp_path / "ray"
    with start_run(head, out) as run:
        await_payments(out, 100, run)
        head.kill()
        head.start()
        summary = json.loads(run.communicate(timeout=120)[0].splitlines()[-1])
    assert (summary["complete"], summary["exit_code"]) == (False, 14)
    with start_run(head, out) as again:
        summary = json.loads(again.communicate(timeout=200)[0].splitlines()[-1])
    assert (summary["complete"], summary["exit_code"]) == (True, 0)
    assert paid_twice(out / "bill") <= possibly_paid_twice(open_store(out)) <= 2 * 2 * WINDOW
    as_a_local_run(out, tmp_path / "local")
