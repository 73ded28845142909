"""`foil view` before clients that never end a request, or send more than they say."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from foil.datasets_out.desk.guard import MOST_BODY_BYTES
from foil.datasets_out.desk.server import REQUEST_S
from tests.support.commands import foil, write_job
from tests.support.desk.browser import desk_process

pytestmark = pytest.mark.slow
_MOST_S = REQUEST_S + 8


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    assert foil("run", write_job(folder, 4)).returncode == 0
    with desk_process("view", folder / "out", "--author", "curator") as started:
        yield started


def head(desk, method="GET", *lines):
    """A request of someone with the token, without the empty line that ends it."""
    host = desk.base.removeprefix("http://")
    port, token = host.rpartition(":")[2], desk.url.rpartition("=")[2]
    named = [f"Host: {host}", f"Origin: http://{host}", f"Cookie: foil-desk-{port}={token}", *lines]
    return "\r\n".join([f"{method} /sql HTTP/1.1", *named]).encode() + b"\r\n"


def seconds_held(desk, sent, *, drip=b"x"):
    """For how long a connection stays open that sends a little each second, once it has sent `sent`."""
    host, _, port = desk.base.removeprefix("http://").partition(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=1) as connection:
        connection.sendall(sent)
        while time.monotonic() - began < _MOST_S:
            try:
                if drip:
                    connection.sendall(drip)
                if not connection.recv(65_536):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    return time.monotonic() - began


def test_a_request_that_does_not_end_is_given_up(desk):
    body = f"Content-Length: {MOST_BODY_BYTES}"
    whole = head(desk) + b"\r\n"
    cases = [
        (b"", b""),
        (b"", b"G"),
        (head(desk) + b"X-Slow: ", b"a"),
        (head(desk, "POST", body) + b"\r\n", b"q"),
        (whole + b"GET / HTTP/1.1\r\nX-Slow: ", b"a"),
    ]
    with ThreadPoolExecutor(len(cases)) as clients:
        held = list(clients.map(lambda case: seconds_held(desk, case[0], drip=case[1]), cases))
    assert max(held) < _MOST_S, held


@pytest.mark.parametrize("length", [["Content-Length: 5"], []])
def test_a_body_in_chunks_is_refused_whatever_length_is_told(desk, length):
    host, _, port = desk.base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head(desk, "POST", *length, "Transfer-Encoding: chunked", "Connection: close") + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert connection.recv(65_536).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


def test_a_request_in_peace_is_answered_twice_on_one_connection(desk):
    host, _, port = desk.base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        for _ in range(2):
            connection.sendall(head(desk) + b"\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            time.sleep(0.3)
            connection.settimeout(0.3)
            try:
                while connection.recv(65_536):
                    pass
            except TimeoutError:
                connection.settimeout(20)
