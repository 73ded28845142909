"""A loopback server that answers every request with the bytes that a test gives it, HTTP or not."""

import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

Bytes = Callable[[bytes], Iterable[bytes]]
"""What is sent for a request, given its first line, or its body where that is wanted."""


def http(body: bytes, status: str = "200 OK", **headers: str) -> list[bytes]:
    """A whole answer; in the names of headers `_` stands for `-`."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", "content-type: application/json", "connection: close", *lines])
    return [f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode("latin-1"), body]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            first, headers = self.rfile.readline(), {}
            while (line := self.rfile.readline()).strip():
                name, _, value = line.partition(b":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers.get(b"content-length", b"0")))
            while b"transfer-encoding" in headers and (size := int(self.rfile.readline(), 16)):
                self.rfile.read(size + 2)
            self.server.requests += 1
            for part in self.server.answer(body if self.server.by_body else first):
                self.wfile.write(part)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 512

    def __init__(self, answer: Bytes, *, by_body: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.by_body, self.requests = answer, by_body, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def answering(answer: Bytes, *, by_body: bool = False) -> Iterator[_Server]:
    """The server, in threads of its own; `url` ends with /v1, `requests` counts what came."""
    with _Server(answer, by_body=by_body) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
