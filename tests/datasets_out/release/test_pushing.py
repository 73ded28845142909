"""Releases on a hub and in a bucket: sent once, gone on with after an end, refused where rights forbid it."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.commands import foil
from tests.support.models.hub_server import LARGE, hub

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(release, tmp_path) -> Path:
    return Path(shutil.copytree(release("hf"), tmp_path / "release"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def push(folder: Path, target: str, env: dict[str, str], *more: str):
    return foil("push", folder, target, "--json", *more, env=env)


def test_a_release_lies_on_the_hub_as_it_is_and_is_sent_once(folder):
    with hub() as state:
        env = {"HF_ENDPOINT": state.url, "HF_TOKEN": "hf_test", "HF_HUB_DISABLE_XET": "1"}
        done = push(folder, "org/set", env)
        assert done.returncode == 0, done.stderr
        assert state.files["org/set"] == contents(folder)
        assert (state.private["org/set"], state.kinds["org/set"]) == (True, "dataset")
        assert state.uploads == sum(len(data) >= LARGE for data in contents(folder).values()) > 0
        assert set(state.commits[-1]) == {"README.md", "checksums.sha256"}
        again = json.loads(push(folder, "org/set", env).stdout)
        assert (again["sent"], again["present"]) == (0, len(contents(folder)))
        assert len(state.commits) == 2


def test_a_push_that_ended_goes_on_where_it_was(folder):
    with hub() as state:
        env = {"HF_ENDPOINT": state.url, "HF_TOKEN": "hf_test", "HF_HUB_DISABLE_XET": "1"}
        state.files["org/set"] = {name: data for name, data in contents(folder).items() if name.startswith("t")}
        there = len(state.files["org/set"])
        state.fail_commits = 1
        failed = push(folder, "org/set", env)
        assert failed.returncode == 8
        assert "what is there is not sent again" in " ".join(failed.stderr.split())
        assert "checksums.sha256" not in state.files["org/set"]
        told = json.loads(push(folder, "org/set", env).stdout)
        assert (told["present"], told["sent"]) == (there, len(contents(folder)) - there)
        assert state.files["org/set"] == contents(folder)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """An S3 server on loopback with the bucket `releases`, and the variables that lead to it."""
    folder = tmp_path_factory.mktemp("bucket")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(sys.executable).with_name("localbucket")
    server = subprocess.Popen(
        [str(script), "--port", str(port), str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{url}/releases", method="PUT"), timeout=1)
            break
        except OSError:
            time.sleep(0.1)
    yield {
        "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    server.terminate()
    server.wait()


def test_a_release_lies_in_a_bucket_as_it_is_and_only_what_changed_is_sent(folder, bucket, tmp_path):
    done = push(folder, "s3://releases/one/set", bucket)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sent"] == len(contents(folder))
    for name, data in contents(folder).items():
        with urllib.request.urlopen(f"{bucket['AWS_ENDPOINT_URL']}/releases/one/set/{name}") as answer:
            assert answer.read() == data
    assert json.loads(push(folder, "s3://releases/one/set", bucket).stdout)["sent"] == 0
    name = "topics/train-00000.parquet"
    other = bytes(reversed(contents(folder)[name]))  # of the same length
    url = f"{bucket['AWS_ENDPOINT_URL']}/releases/one/set/{name}"
    urllib.request.urlopen(urllib.request.Request(url, data=other, method="PUT"))
    assert json.loads(push(folder, "s3://releases/one/set", bucket).stdout)["sent"] == 1
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == contents(folder)[name]


def test_a_bucket_that_does_not_answer_is_told(folder, bucket):
    failed = push(folder, "s3://absent-bucket/set", bucket)
    assert failed.returncode == 8
    assert "AWS_ENDPOINT_URL" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(("manifest", "words"), [
    ({"nonredistributable_topics": 3, "allow_nonredistributable": True}, "texts of 3 topics"),
    ({"nonredistributable_topics": 3, "restored": 5}, "restored texts"),
])  # fmt: skip
def test_texts_that_may_not_be_passed_on_are_not_sent(folder, bucket, manifest, words):
    path = folder / "release.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | manifest))
    from foil.datasets_out.release.checksums import write_checksums

    write_checksums(folder)
    refused = push(folder, "s3://releases/private", bucket)
    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.split())
    allowed = push(folder, "s3://releases/private", bucket, "--allow-nonredistributable")
    assert allowed.returncode == (2 if "restored" in manifest else 0)


def test_a_changed_folder_and_a_wrong_target_are_refused(folder):
    assert push(folder, "ftp://x/y", {}).returncode == 2
    (folder / "README.md").write_text("changed")
    refused = push(folder, "s3://releases/changed", {})
    assert refused.returncode == 6
    assert "README.md has changed" in " ".join(refused.stderr.split())
