"""Runs whose `out` is a bucket, through `foil` and over HTTP to a real S3 server: the same rows as in a folder."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.commands import foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import Behaviour, serving
from tests.support.models.tiny_backbones import save_backbone
from tests.support.paths import REPO
from tests.support.storage import servers
from tests.support.storage.fault_proxy import FaultProxy, proxied

pytestmark = pytest.mark.slow

OUT = f"s3://{servers.BUCKET}/team/run"
KINDS = {
    "localbucket": (servers.localbucket, "s3", "localbucket"),
    "google": (servers.google, "gs", "localbucket"),
    "azurite": (servers.azurite, "az", "azurite-blob"),
    "seaweedfs": (servers.seaweedfs, "s3", "weed"),
}
TRAINED = (
    "\ntrain: {{base: {base}, encode: {{max_tokens: 32, precision: float32}}, "
    "schedule: {{topics_per_batch: 4, steps: 6}}, validation: {{topics: 0}}}}\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with servers.localbucket(tmp_path_factory.mktemp("s3") / "server") as url:
        yield url


@pytest.fixture
def machine(server, tmp_path, monkeypatch):
    """The variables of a machine that uses the server; each call gives those of another machine."""
    bucket = f"{OUT}-{tmp_path.name}"

    def make(name: str) -> dict[str, str]:
        return {**servers.environment(server), "FOIL_CACHE": str(tmp_path / name)}

    make.out = bucket
    return make


def digest(out, env) -> str:
    done = foil("snapshot", "create", out, "all", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["digest"]


def rows(out, sql, env=None):
    done = foil("sql", out, sql, "--json", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_in_a_bucket_is_the_run_in_a_folder(tmp_path, machine, workers):
    job, env = write_job(tmp_path, 60), machine("one")
    sets = ("--set", f"runtime.workers={workers}")
    assert foil("run", job, "--out", tmp_path / "local", *sets).returncode == 0
    done = foil("run", job, "--out", machine.out, *sets, env=env)
    assert done.returncode == 0, done.stderr
    assert digest(machine.out, env) == digest(tmp_path / "local", env)
    again = foil("run", job, "--out", machine.out, *sets, env=env)  # finished: nothing is done again
    assert again.returncode == 0, again.stderr

    other = machine("another")  # a machine that has seen nothing of the run
    question = "SELECT status, count(*) AS n FROM topics GROUP BY status ORDER BY status"
    assert rows(machine.out, question, other) == rows(tmp_path / "local", question)
    pairs = "SELECT topic_id, positive, negative FROM triplets ORDER BY ALL"
    assert rows(machine.out, pairs, other) == rows(tmp_path / "local", pairs)
    assert foil("verify", machine.out, env=other).returncode == 0
    state = json.loads(foil("status", machine.out, "--json", env=other).stdout)
    assert (state["complete"], state["held_by"], state["sessions"]) == (True, "", 1)
    shared = foil("diff", machine.out, tmp_path / "local", "--json", env=other)
    assert (
        json.loads(shared.stdout)["counts"]
        == json.loads(foil("diff", machine.out, machine.out, "--json", env=other).stdout)["counts"]
    )
    released = foil("export", machine.out, "--format", "jsonl", "--into", tmp_path / "release", env=other)
    assert released.returncode == 0, released.stderr
    assert (tmp_path / "release" / "README.md").exists()
    topic = rows(machine.out, "SELECT topic_id FROM topics WHERE status = 'accepted' LIMIT 1", other)[0]["topic_id"]
    for command in (("why", machine.out, topic), ("show", machine.out, topic), ("gc", machine.out, "--dry-run")):
        told = foil(*command, env=other)
        assert told.returncode == 0, told.stderr


def test_killed_and_resumed_on_another_machine_nothing_is_lost_and_only_what_was_in_flight_is_paid_again(
    tmp_path, machine
):
    with serving(Behaviour(latency=0.1), Character()) as provider:
        job, deaths = hosted_job(tmp_path, provider.url, 120), 0
        for name in ("one", "two", "three", "four"):
            deaths += _killed_after(job, machine, name, provider, 80)
        done = foil("run", job, "--out", machine.out, env=machine("last"))
        assert done.returncode == 0, done.stderr
        report = provider.report(tasks=True)
    assert deaths >= 2
    state = json.loads(foil("status", machine.out, "--json", env=machine("last")).stdout)
    assert state["complete"]
    assert state["accepted"] + state["rejected"] + state["failed"] == 120
    assert rows(machine.out, "SELECT count(DISTINCT seed_id) AS n FROM topics", machine("last")) == [{"n": 120}]
    again = sum(task["seen"] - 1 for task in report["by_task"].values())
    assert again <= deaths * 8  # the window: no more can be in flight
    assert foil("verify", machine.out, env=machine("last")).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_behind_a_proxy_that_loses_doubles_and_refuses_nothing_is_lost_doubled_or_paid_twice(
    tmp_path, machine, server, seed
):
    with (
        serving(Behaviour(latency=0.05), Character()) as provider,
        proxied(FaultProxy(server, seed)) as proxy,
    ):
        env = machine("one") | servers.environment(proxy.url)
        job = hosted_job(tmp_path, provider.url, 200)
        done = foil("run", job, "--out", machine.out, "--set", "runtime.workers=2", env=env)
        assert done.returncode == 0, done.stderr
        report = provider.report(tasks=True)
    assert all(task["seen"] == 1 for task in report["by_task"].values())
    assert proxy.met.total() - proxy.met[""] > 20  # faults met
    direct = machine("two")
    assert rows(machine.out, "SELECT count(*) AS n, count(DISTINCT seed_id) AS seeds FROM topics", direct) == [
        {"n": 200, "seeds": 200}
    ]
    state = json.loads(foil("status", machine.out, "--json", env=direct).stdout)
    assert (state["complete"], state["possibly_paid_twice"]) == (True, 0)
    assert state["calls"] == report["admitted"]
    assert foil("verify", machine.out, env=direct).returncode == 0


def _killed_after(job, machine, name, provider, calls) -> int:
    """Runs until so many more requests were answered, then kills -9; 1 if it was still alive."""
    command = [sys.executable, "-m", "foil", "run", str(job), "--out", machine.out]
    env = {**os.environ, "PYTHONPATH": str(REPO), **machine(name)}
    with subprocess.Popen(command, cwd=REPO, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        before, end = provider.report()["admitted"], time.monotonic() + 90
        while run.poll() is None and provider.report()["admitted"] < before + calls:
            assert time.monotonic() < end, run.stdout.read()
            time.sleep(0.02)
        alive = run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.stdout.read()
    return int(alive)


def test_two_machines_at_once_one_runs_and_the_other_is_told(tmp_path, machine):
    with serving(Behaviour(latency=0.3), Character()) as provider:
        job = hosted_job(tmp_path, provider.url, 60)
        command = [sys.executable, "-m", "foil", "run", str(job), "--out", machine.out]
        runs = [
            subprocess.Popen(
                command,
                cwd=REPO,
                env={**os.environ, "PYTHONPATH": str(REPO), **machine(name)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in ("one", "two")
        ]
        said = [run.communicate(timeout=120)[1] for run in runs]
        assert sorted(run.returncode for run in runs) == [0, 12], said
        assert all(task["seen"] == 1 for task in provider.report(tasks=True)["by_task"].values())


def test_a_bucket_that_is_not_there_and_one_without_a_condition_are_refused_before_anything_is_paid(tmp_path, machine):
    job = write_job(tmp_path, 4)
    absent = foil("run", job, "--out", "s3://no-such-bucket/run", env=machine("one"))
    assert absent.returncode == 15, absent.stderr
    assert "no-such-bucket" in absent.stderr
    assert "Traceback" not in absent.stderr
    for bad in ("s3://bucket/../run", "ftp://host/run", "s3://key:secret@bucket/run"):
        refused = foil("run", job, "--out", bad, env=machine("one"))
        assert refused.returncode == 2, refused.stderr
        assert "secret" not in refused.stderr


@pytest.mark.long
def test_the_trainer_goes_on_from_a_checkpoint_of_another_machine(tmp_path, machine):
    job = write_job(tmp_path, 60)
    job.write_text(
        job.read_text() + f"train: {{base: {save_backbone(tmp_path, 'bert')}, "
        "encode: {max_tokens: 32, precision: float32}, schedule: {topics_per_batch: 4, steps: 6},"
        " checkpoint_steps: 2, validation: {topics: 0}, split: {heldout_share: 0.1, dev_share: 0.0}}\n"
    )
    local, env = tmp_path / "local", machine("one")
    assert foil("run", job, "--out", local).returncode == 0
    assert foil("train", job, "--out", local).returncode == 0
    assert foil("run", job, "--out", machine.out, env=env).returncode == 0
    command = [sys.executable, "-m", "foil", "train", str(job), "--out", machine.out]
    mirror = tmp_path / "one"
    with subprocess.Popen(
        command, cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO), **env}, stdout=subprocess.DEVNULL
    ) as first:
        end = time.monotonic() + 120
        while first.poll() is None and not list(mirror.rglob("step-00000002/checksums.json")):
            assert time.monotonic() < end
            time.sleep(0.01)
        first.kill()
    other = machine("another")
    done = foil("train", job, "--out", machine.out, env=other)
    assert done.returncode == 0, done.stderr
    [trained] = (tmp_path / "another").rglob("model/model.safetensors")
    assert trained.read_bytes() == (local / "model" / "model.safetensors").read_bytes()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_the_quickstart_lives_in_a_bucket_of_each_kind_as_in_a_folder(tmp_path, kind):
    """Killed by -9 and resumed elsewhere, verified, queried, trained and exported."""
    serve, scheme, program = KINDS[kind]
    if not servers.program(program):
        pytest.skip(f"{program} is not installed")
    job, local, out = tmp_path / "job.yaml", tmp_path / "local", f"{scheme}://{servers.BUCKET}/team/quickstart"
    example = (REPO / "examples/jobs/quickstart.yaml").read_text()
    job.write_text(example + TRAINED.format(base=save_backbone(tmp_path, "bert")))
    with serve(tmp_path / "server") as url:
        first, second = ({**servers.environment(url), "FOIL_CACHE": str(tmp_path / name)} for name in ("one", "two"))
        command = [sys.executable, "-m", "foil", "run", str(job), "--out", out]
        with subprocess.Popen(command, cwd=REPO, env={**os.environ, **first}) as run:
            while not _committed(out, first):
                assert run.poll() is None
            run.kill()
        for command in (("run", job, "--out", out), ("verify", out), ("train", job, "--out", out)):
            done = foil(*command, env=second)
            assert done.returncode == 0, (command, done.stderr)
        for command in (("run", job, "--out", local), ("train", job, "--out", local)):
            assert foil(*command).returncode == 0
        assert digest(out, second) == digest(local, {})
        pairs = "SELECT topic_id, positive, negative FROM triplets ORDER BY ALL"
        assert rows(out, pairs, second) == rows(local, pairs)
        for place, into, env in ((out, "far", second), (local, "near", {})):
            done = foil("export", place, "--format", "jsonl", "--into", tmp_path / into, env=env)
            assert done.returncode == 0, done.stderr
    near, far = (sorted((tmp_path / name).rglob("*.jsonl*")) for name in ("near", "far"))
    assert near
    assert [each.read_bytes() for each in near] == [each.read_bytes() for each in far]
    [trained] = (tmp_path / "two").rglob("model/model.safetensors")
    assert trained.read_bytes() == (local / "model/model.safetensors").read_bytes()


def _committed(out: str, env: dict[str, str]) -> int:
    """How many partitions of a run are committed; 0 also before there is one."""
    told = foil("status", out, "--json", env=env)
    return json.loads(told.stdout)["partitions"] if told.returncode == 0 else 0
