"""`foil submit`, `logs` and `cancel` against a real head with token authentication, in a process group of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from foil.cluster.deploy.ray_environment import NETWORK, WORKER
from tests.support.commands import foil, write_job
from tests.support.drills.ports import free_ports
from tests.support.drills.ray_head import Head
from tests.support.paths import REPO
from tests.support.small_parts import digest

pytestmark = pytest.mark.slow

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def head():
    with tempfile.TemporaryDirectory(prefix="fr", dir="/tmp", ignore_cleanup_errors=True) as home:
        head = Head(Path(home))
        yield head
        head.kill()


@pytest.fixture
def job(tmp_path):
    """A small job inside of the checkout, whose `out` and seeds are elsewhere."""
    with tempfile.TemporaryDirectory(prefix=".foil-test-", dir=REPO) as folder:
        page = write_job(tmp_path, 30).read_text()
        inside = Path(folder) / "job.yaml"
        inside.write_text(page.replace("runtime: {window: 8}", "runtime: {kind: ray, workers: 1}"))
        yield inside


@pytest.mark.timeout(280)
def test_a_submitted_job_ends_with_its_own_exit_code_and_is_uploaded_once(head, job, tmp_path):
    other = tmp_path / "elsewhere"
    done = head.foil("submit", job, "--out", other, "--python", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "planned 30 seeds = 30 accepted" in done.stdout
    status = json.loads(head.foil("status", other, "--json").stdout)
    assert (status["complete"], status["accepted"]) == (True, 30)
    name = done.stdout.partition("submitted ")[2].split()[0]
    assert "planned 30 seeds = 30 accepted" in head.foil("logs", other).stdout

    spent = head.foil(
        "submit", job, "--python", sys.executable, "--reuse", other, "--set", "limits.seeds=10", "--set",
        "models.writer.kind=no_such",
    )  # fmt: skip
    assert spent.returncode == 2
    refused = head.foil("submit", job, "--out", other, "--set", "limits.seeds=10", "--python", sys.executable)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "Uploading" not in refused.stderr
    assert name not in head.foil("logs", other).stdout


@pytest.mark.timeout(280)
def test_cancel_drains_in_time_and_the_same_job_resumes(head, job, tmp_path):
    out = tmp_path / "out"
    more = ["--set", "limits.partition_seeds=2", "--python", sys.executable]
    write_job(tmp_path, 3_000)
    began = head.foil("submit", job, "--no-wait", *more)
    assert began.returncode == 0, began.stderr
    deadline = time.monotonic() + 120
    while not list((out / "commits").glob("*")):
        assert time.monotonic() < deadline, head.foil("logs", out).stdout
        time.sleep(0.2)
    first = began.stdout.partition("submitted ")[2].split()[0]
    refused = head.foil("submit", job, *more)
    assert refused.returncode == 12, refused.stdout + refused.stderr
    stopped = head.foil("cancel", out)
    assert f"{first}: STOPPED" in stopped.stdout, stopped.stdout + stopped.stderr
    assert "still held" not in stopped.stdout
    watched = head.foil("watch", out)
    assert watched.returncode == 143, watched.stdout
    assert "stopped by SIGTERM" in watched.stdout
    assert "0 seeds left unsettled" not in watched.stdout
    status = json.loads(head.foil("status", out, "--json").stdout)
    assert 0 < status["accepted"] < 3_000
    assert status["possibly_paid_twice"] == 0
    assert head.foil("logs", "-f", first).returncode == 143
    assert json.loads(head.foil("cancel", out, "--json").stdout)["state"] == "has ended already"
    nobody = head.foil("cancel", tmp_path / "nobody")
    assert nobody.returncode == 2
    assert "none whose `out` is" in nobody.stderr


def test_a_head_that_is_not_there_or_wants_a_token_is_told_in_one_line(head, job, tmp_path):
    [port] = free_ports(1)
    absent = foil("submit", job, "--address", f"http://127.0.0.1:{port}")
    assert (absent.returncode, "Traceback" in absent.stderr) == (14, False), absent.stderr
    (tmp_path / "wrong").write_text("0" * 64)
    wrong = head.foil("submit", job, RAY_AUTH_TOKEN_PATH=str(tmp_path / "wrong"))
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (14, False), wrong.stderr
    assert "RAY_AUTH_TOKEN_PATH" in wrong.stderr


@pytest.mark.timeout(200)
def test_doctor_looks_from_every_node(head, tmp_path):
    second = head.join("127.0.0.2", **NETWORK, **WORKER)
    try:
        seen = head.foil("doctor", "--out", tmp_path, "--address", head.address, "--python", sys.executable, "--json")
    finally:
        second.kill()
    facts = json.loads(seen.stdout)
    nodes = facts["cluster"]["nodes"]
    assert {node["problem"] for node in nodes} == {""}
    [winner] = {node["winner"] for node in nodes}
    assert [node["node"] for node in nodes if node["won"]] == [winner]
    assert all(abs(node["skew_s"]) <= 1 + node["skew_within_s"] for node in nodes)
    assert [node["cannot_reach"] for node in nodes] == [[], []]
    assert seen.returncode == 15, "this head was started without our network settings"
    [problem] = facts["cluster"]["problems"]
    assert "RAY_grpc_client_keepalive_time_ms=(unset)" in problem
    [note] = facts["notes"]
    assert "its death costs all actors" in note
    assert "RAY_gcs_storage=(unset), RAY_gcs_storage_path=(unset)" in note
    assert not list(tmp_path.iterdir())


RAY_WRAPPER = """#!/usr/bin/env bash
# `ray start --head` in a process group of its own and on free ports; all else is Ray's.
if [ "$1 $2" = "start --head" ]; then
  setsid "{ray}" "$@" --block --num-cpus=2 --node-ip-address=127.0.0.1 {ports} > "{home}/head.log" 2>&1 &
  echo $! > "{home}/head.pid"
  for _ in $(seq 60); do
    (: < "/dev/tcp/127.0.0.1/$DASHBOARD_PORT") 2> /dev/null && exit 0
    sleep 1
  done
  cat "{home}/head.log" >&2; exit 1
fi
exec "{ray}" "$@"
"""


@pytest.mark.long
@pytest.mark.timeout(280)
def test_the_page_leads_from_nothing_to_data():
    page = (REPO / "docs" / "clusters.md").read_text()
    section = page.partition("# A cluster, from nothing to data")[2].partition("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 3
    port, dashboard, agent, grpc, metrics, client = free_ports(6)
    with tempfile.TemporaryDirectory(prefix="fw", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home, bin_ = Path(folder), Path(sys.executable).parent
        ports = f"--dashboard-agent-listen-port={agent} --dashboard-agent-grpc-port={grpc} "
        ports += f"--metrics-export-port={metrics} --ray-client-server-port={client}"
        (home / "bin").mkdir()
        (home / "bin" / "ray").write_text(RAY_WRAPPER.format(ray=bin_ / "ray", ports=ports, home=home))
        (home / "bin" / "ray").chmod(0o755)
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        env |= {
            "HOME": folder, "PATH": f"{home}/bin:{bin_}:{env['PATH']}", "PYTHONPATH": str(REPO), "OUT": f"{home}/runs",
            "HEAD_PORT": str(port), "DASHBOARD_PORT": str(dashboard), "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0",
        }  # fmt: skip
        (home / "runs").mkdir()
        try:
            walked = subprocess.run(
                ["bash", "-euc", "\n".join(blocks)], env=env, cwd=REPO, capture_output=True, text=True, check=False
            )
        finally:
            if (home / "head.pid").exists():
                os.killpg(int((home / "head.pid").read_text()), signal.SIGKILL)
        assert walked.returncode == 0, walked.stdout + walked.stderr
        assert "how fast does giant kelp grow" in walked.stdout
        assert "ended with exit code 0" in walked.stdout
        assert (home / ".ray" / "auth_token").stat().st_mode & 0o077 == 0


@pytest.mark.long
@pytest.mark.timeout(280)
def test_a_head_that_dies_under_a_job_ends_submit_with_a_code_of_its_own(job, tmp_path):
    write_job(tmp_path, 20_000)
    with tempfile.TemporaryDirectory(prefix="fr", dir="/tmp", ignore_cleanup_errors=True) as home:
        mortal = Head(Path(home))
        command = [sys.executable, "-m", "foil", "submit", str(job), "--python", sys.executable]
        env = {**mortal.env, "RAY_API_SERVER_ADDRESS": mortal.address}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=env, cwd=REPO, text=True, **pipes) as submitting:
            while not list((tmp_path / "out" / "commits").glob("*")):
                assert submitting.poll() is None, submitting.communicate()
                time.sleep(0.2)
            mortal.kill()
            told = submitting.communicate(timeout=120)[1]
    assert submitting.returncode == 14, told
    assert "Traceback" not in told
    assert "submit it again" in told


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_job_whose_head_died_goes_on_under_a_new_head(job, tmp_path):
    write_job(tmp_path, 3_000)
    out, local = tmp_path / "out", tmp_path / "local"
    settings = ["--set", "limits.partition_seeds=50"]
    for is_last in (False, True):
        with tempfile.TemporaryDirectory(prefix="fr", dir="/tmp", ignore_cleanup_errors=True) as home:
            head = Head(Path(home))
            try:
                if is_last:
                    done = head.foil("submit", job, "--python", sys.executable, *settings)
                    while done.returncode == 12:  # the driver under the dead head holds the folder until it gives up
                        assert "is held by another run" in done.stdout
                        done = head.foil("submit", job, "--python", sys.executable, *settings)
                    assert done.returncode == 0, done.stdout + done.stderr
                else:
                    head.foil("submit", job, "--no-wait", "--python", sys.executable, *settings)
                    while len(list((out / "commits").glob("*"))) < 3:
                        time.sleep(0.2)
            finally:
                head.kill()
        committed = len(list((out / "commits").glob("*")))
        assert committed < 60 or is_last
    status = json.loads(foil("status", out, "--json").stdout)
    assert (status["complete"], status["planned"], status["failed"]) == (True, 3_000, 0)
    assert status["possibly_paid_twice"] <= 64
    assert foil("verify", out).returncode == 0
    plain = foil("run", job, "--out", local, *settings, "--set", "runtime={kind: local}")
    assert plain.returncode == 0, plain.stderr
    assert digest(out) == digest(local)
