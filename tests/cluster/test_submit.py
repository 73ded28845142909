"""What `foil submit` uploads: the sources, and nothing whose name speaks of keys."""

import subprocess

import pytest

from cluster.commands.operators.submit import files_to_send
from tests.support.paths import REPO

SECRETS = [
    ".env", ".env.local", "prod.env", ".netrc", "a/key.pem", "a/server.key", "a/id_rsa", ".ssh/config", "a/.aws/config",
    "hf_token.txt", "ID_ED25519", "my-secrets.yaml", "gcp-credentials.json",
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


def test_this_checkout_is_sent_with_all_that_a_run_reads():
    sent, secrets = files_to_send(REPO)
    names = {str(path.relative_to(REPO)) for path in sent}
    assert {"cluster/__main__.py", "engine/keys.py", "prompts/constraints/wordings.yaml", "pyproject.toml"} <= names
    assert not any(name.startswith(("tests/", "benchmarks/", ".git/")) for name in names)
    assert secrets == []
