"""`foil doctor`: each thing that a run needs is missed by name, with an exit code of its own."""

import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foil.cluster.commands.app import app
from foil.cluster.commands.operators import doctor
from foil.cluster.deploy.ray_environment import HEAD, NETWORK, WORKER
from tests.support.commands import foil, write_job
from tests.support.models.fault_server import Behaviour, serving

KEY = "sk-doctor-0123456789"
NO_RAY = {"RAY_AUTH_MODE": ""}
"""A Ray of another test of this process has a token of its own."""


def hosted_job(folder: Path, url: str) -> Path:
    job = write_job(folder, 5)
    model = f"{{kind: hosted, model: m, url: '{url}', api_key: '${{DOCTOR_KEY}}'}}"
    job.write_text(job.read_text() + f"models: {{writer: {model}}}\n")
    return job


@pytest.mark.slow
def test_keys_and_endpoints_of_a_job_are_tried(tmp_path):
    with serving(Behaviour(api_keys=(KEY,))) as server:
        job = hosted_job(tmp_path, server.url)
        fine = foil("doctor", job, "--out", tmp_path, env={**NO_RAY, "DOCTOR_KEY": KEY})
        absent = foil("doctor", job, "--out", tmp_path, env={**NO_RAY, "DOCTOR_KEY": ""})
    dead = foil("doctor", job, "--out", tmp_path, env={**NO_RAY, "DOCTOR_KEY": KEY})
    assert fine.returncode == 0, fine.stderr
    assert (absent.returncode, dead.returncode) == (15, 15)
    assert "DOCTOR_KEY is empty" in absent.stderr
    assert f"{server.url} does not answer" in dead.stderr
    assert KEY not in dead.stdout + dead.stderr + fine.stdout


@pytest.mark.slow
def test_a_token_that_is_missing_or_that_others_can_read_is_told(tmp_path):
    token = tmp_path / "token"
    env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": str(token)}
    missing = foil("doctor", "--out", tmp_path, env=env)
    assert (missing.returncode, "ray get-auth-token --generate" in missing.stderr) == (15, True)
    token.write_text("0" * 64)
    token.chmod(0o644)
    assert "chmod 600" in foil("doctor", "--out", tmp_path, env=env).stderr
    token.chmod(0o600)
    assert foil("doctor", "--out", tmp_path, env=env).returncode == 0


def test_a_file_system_where_two_can_create_one_name_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("pathlib.Path.hardlink_to", lambda self, target: self.write_bytes(Path(target).read_bytes()))
    result = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path), "--json"])
    assert result.exit_code
    assert f"{doctor._RACERS} of {doctor._RACERS} threads created the same name" in result.stdout


def node(name: str, **facts):
    return {
        "node": name * 8, "host": name, "problem": "", "won": False, "winner": "a" * 8, "skew_s": 0.1,
        "skew_within_s": 0.01, "missing": [], "variables": dict(NETWORK), "python": "3.11.9", "ray": "2.60.0",
        "head": name == "a", "cannot_reach": [], **facts,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"winner": "b" * 8, "won": True}, "is not one folder on all nodes"),
        ({"won": True}, "lets two create the same name"),
        ({"skew_s": -7.0}, "its clock is -7.0 s off"),
        ({"problem": "FileNotFoundError: no such folder"}, "no such folder"),
        ({"missing": ["duckdb"]}, "not installed: duckdb"),
        ({"variables": {}}, "RAY_health_check_period_ms=(unset)"),
        ({"ray": "2.59.0"}, "different versions of ray: 2.59.0, 2.60.0"),
        (
            {"cannot_reach": ["node aaaaaaaa, node manager, 10.0.0.1:4711"]},
            "(b) cannot reach node aaaaaaaa, node manager",
        ),
    ],
)
def test_what_differs_between_nodes_is_told(second, told):
    nodes = [node("a", won=True), node("b", **second)]
    [problem] = doctor.node_problems(nodes, Path("/runs"))
    assert told in problem
    assert doctor.node_problems([nodes[0], node("b")], Path("/runs")) == []


KEPT = {**NETWORK, **HEAD, "RAY_gcs_storage_path": "/volume/records"}


@pytest.mark.parametrize(
    ("head", "other", "told"),
    [
        (KEPT, {**NETWORK, **WORKER}, None),
        ({**NETWORK, "RAY_REDIS_ADDRESS": "redis:6379"}, {**NETWORK, **WORKER}, None),
        ({**NETWORK, **HEAD}, {**NETWORK, **WORKER}, "(a): its death costs all actors"),
        ({**KEPT, "RAY_gcs_storage": "memory"}, {**NETWORK, **WORKER}, "RAY_gcs_storage=memory"),
        (KEPT, NETWORK, "(b): it gives a dead head less time to come back"),
    ],
)
def test_what_costs_actors_when_a_head_dies_is_a_note_and_no_problem(head, other, told):
    nodes = [node("a", won=True, variables=head), node("b", variables=other)]
    notes = doctor.node_notes(nodes)
    assert (len(notes) == 1 and told in notes[0]) if told else notes == []
    assert doctor.node_problems(nodes, Path("/runs")) == []


def test_a_node_that_did_not_answer_has_no_notes():
    absent = {"node": "c" * 8, "head": True, "gpus": 0.0, "problem": "the node did not answer: GetTimeoutError"}
    assert doctor.node_notes([absent]) == []


def test_a_port_that_nobody_can_connect_to_is_named():
    node_probe = pytest.importorskip("foil.cluster.deploy.node_probe", exc_type=ImportError)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        ports = [("127.0.0.1", each.getsockname()[1], name) for each, name in ((listening, "open"), (silent, "shut"))]
        assert node_probe.closed(ports) == [f"shut, 127.0.0.1:{silent.getsockname()[1]}"]


def test_this_machine_alone_passes(tmp_path):
    assert (
        foil("doctor", "--out", tmp_path, env={name: "" for name in os.environ if name.startswith("RAY_")}).returncode
        == 0
    )
