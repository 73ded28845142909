"""What cannot be reached is named in seconds, with an exit code of its own."""

import socket

import pytest

from tests.support.commands import foil, write_job

UNREACHABLE = 14


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_an_object_store_is_refused_and_no_folder_of_its_name_is_made(tmp_path, scheme):
    job = write_job(tmp_path, 4)
    refused = foil("run", job, "--out", f"{scheme}://bucket/x", folder=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert "object stores come later" in refused.stderr
    assert not (tmp_path / f"{scheme}:").exists()


def test_a_ray_address_at_which_nothing_listens_is_named(tmp_path):
    address = f"127.0.0.1:{closed_port()}"
    runtime = ("runtime.kind=ray", "runtime.workers=1", f"runtime.ray_address={address}")
    ended = foil("run", write_job(tmp_path, 4), *(part for value in runtime for part in ("--set", value)))
    assert ended.returncode == UNREACHABLE, ended.stderr
    assert f"no Ray head answers at {address}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_dead_head_ends_submit_with_a_message(tmp_path):
    address = f"http://127.0.0.1:{closed_port()}"
    sets = ("--set", "runtime.kind=ray", "--set", "runtime.workers=1")
    ended = foil("submit", write_job(tmp_path, 4), "--address", address, *sets, folder=tmp_path)
    assert ended.returncode == UNREACHABLE, ended.stderr
    assert f"no Ray head answers at {address}" in ended.stderr
    assert "Traceback" not in ended.stderr
