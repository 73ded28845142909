"""What cannot be reached is named in seconds, with an exit code of its own."""

import socket

from tests.support.commands import foil, write_job

UNREACHABLE = 14


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


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
