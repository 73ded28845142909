"""What `foil submit` uploads: the sources, and nothing whose name speaks of keys."""

import os
import subprocess
import sys

import pytest

from foil.cluster.commands.operators.submit import checked_files, command_of, copy_files, files_to_send
from foil.engine.errors import UsageError
from foil.engine.keys import know_key
from tests.support.commands import write_job
from tests.support.paths import REPO

SECRETS = [
    ".env", ".env.local", "prod.env", ".netrc", "a/key.pem", "a/server.key", "a/id_rsa", ".ssh/config", "a/.aws/config",
    "hf_token.txt", "key", "conf/KEY", "openai.api_key", "my_api-key.txt", "conf/openai-key.txt", "a/token",
    "ID_ED25519", "my-secrets.yaml", "gcp-credentials.json",
]  # fmt: skip
SENT = ["job.yaml", "engine/a.py", "engine/keys.py", "engine/secret_names.py", "prompts/t.j2", "pyproject.toml"]
SILENT = [
    ".venv/bin/x", ".venv-vllm/y", "engine/__pycache__/a.pyc", "tests/t.py", "datasets_out/data/d", "out/r",
    ".mypy_cache/z",
]  # fmt: skip


@pytest.mark.parametrize("git", [True, False])
def test_secrets_are_left_out_by_name_and_named(tmp_path, git):
    for name in SECRETS + SENT + SILENT + (["ignored.bin", ".gitignore"] if git else []):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("ignored.bin\n")
    (tmp_path / "link").symlink_to("/etc/passwd")
    if git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        subprocess.run(["git", "-C", str(tmp_path), "add", "-f", ".env"], check=True)
    sent, secrets = files_to_send(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in sent} == {*SENT, *([".gitignore"] if git else [])}
    assert secrets == sorted(SECRETS)


HOLDING = [
    text.replace("~", "")  # so that no key of a kind stands in this file
    for text in (
        "use sk~-proj-a1b2c3d4e5f6g7h8i9",
        "key='sk~-ant-api03-Ab1Ab1Ab1Ab1Ab1'",
        "hf~_AbCdEfGhIjKlMnOpQrStUvWxYz123456",
        "gh~p_0123456789abcdefghijABCDEFGHIJ012345",
        "AK~IAIOSFODNN7EXAMPLE",
        "-----BEGIN~ OPENSSH PRIVATE KEY-----\nb3Blb",
        "gs~k_0123456789abcdefghijklmnop",
        "a key of the job: quite-unlike-any-0",
    )
]


@pytest.mark.parametrize("text", HOLDING)
def test_a_file_that_holds_a_key_is_left_out_and_named(tmp_path, monkeypatch, text):
    monkeypatch.setenv("FOIL_TEST_KEY", "quite-unlike-any-0")
    know_key("${FOIL_TEST_KEY}")
    for name in ("notes.md", "run.py"):
        (tmp_path / name).write_bytes(b"\xff\x00" * 5000 + text.encode() + b"\n")
    (tmp_path / "plain.md").write_text("sk-learn, sk_learn_words, pk-fields; task-1234567890123456789\n")
    (tmp_path / "empty").touch()
    sent, secrets = files_to_send(tmp_path)
    assert [path.name for path in sent] == ["empty", "plain.md"]
    assert secrets == ["notes.md (holds a key)", "run.py (holds a key)"]


def test_a_job_that_holds_a_key_is_refused(tmp_path):
    job = write_job(tmp_path, 1)
    job.write_text(f"{job.read_text()}# {HOLDING[0]}\n")
    with pytest.raises(UsageError, match="is not sent, since it holds a key"):
        checked_files(tmp_path, job)


def test_this_checkout_is_sent_with_all_that_a_run_reads():
    sent, secrets = files_to_send(REPO)
    names = {str(path.relative_to(REPO)) for path in sent}
    assert {"cluster/__main__.py", "engine/keys.py", "prompts/constraints/wordings.yaml", "pyproject.toml"} <= names
    assert not any(name.startswith(("tests/", "benchmarks/", ".git/")) for name in names)
    assert secrets == []


def test_what_is_sent_runs_and_has_each_file_once(tmp_path):
    """The links by which a checkout's folders are `foil.NAME` stay behind: Ray would send what they lead to as well."""
    sent, _ = files_to_send(REPO)
    copy_files(sent, REPO, tmp_path / "sent")
    there = [path for path in (tmp_path / "sent").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in there) == sum(path.stat().st_size for path in sent)
    assert not [path for path in (tmp_path / "sent").rglob("*") if path.is_symlink()]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "foil", "run", write_job(tmp_path, 4)]
    ended = subprocess.run(command, cwd=tmp_path / "sent", env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_what_the_cluster_starts_is_a_foil_run_with_the_flags_that_were_given(monkeypatch):
    monkeypatch.chdir(REPO)
    job, out = REPO / "examples" / "jobs" / "first_topic.yaml", "/nowhere/out"
    command = command_of(sys.executable, job, ["limits.seeds=1"], out, [], ["--all", "--retry-failed"])
    assert command[3:] == [
        "run", "examples/jobs/first_topic.yaml", "--set", "limits.seeds=1", "--all", "--retry-failed", "--out", out,
    ]  # fmt: skip
    ended = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
