"""An HTTP proxy between a client and a server that loses, doubles, delays and refuses requests, by a seed.

Which fault meets a request follows from the seed, its method and path, and how often that was asked: so it does not
depend on which thread came first.
"""

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

FAULTS = {
    "drop": 0.03,  # the request is lost
    "lose": 0.04,  # the server does it, and the answer is lost
    "lose_500": 0.03,  # the server does it, and the answer is an error
    "cut": 0.03,  # the answer ends in the middle
    "delay": 0.05,
    "duplicate": 0.05,  # the server gets it twice, and the answer is the second one
    "late": 0.05,  # the server gets it once more, later
    "500": 0.02,
    "503": 0.03,
    "409": 0.02,  # as S3: nothing was done, ask again
    "412": 0.02,  # a lie: nothing was done
}
_CODES = {"409": "ConditionalRequestConflict", "412": "PreconditionFailed", "500": "InternalError", "503": "SlowDown"}
_LATE_S = 0.3


class FaultProxy:
    """Serves on `url` and sends on to a server. `faults`: the share of requests that each one meets.

    `strip` takes a header from every request, as a server does that does not know it; `rename` puts another header
    line in the place of one. `met` counts the faults, and what failed of itself. `fail_at` decides by a
    request's number, from 1, in place of the shares.
    """

    def __init__(
        self,
        server: str,
        seed: int,
        faults: Mapping[str, float] = FAULTS,
        *,
        strip: str = "",
        rename: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self.url, self.met = "", Counter[str]()
        self._server, self._seed, self._faults, self._strip = (host, int(port)), seed, faults, strip.lower()
        self._rename = rename
        self._asked: Counter[str] = Counter()
        self._at: Callable[[int], str] | None = None
        self.requests = 0
        self._later: set[asyncio.Task[bytes]] = set()

    def fail_at(self, at: Callable[[int], str]) -> None:
        """From now on `at` decides."""
        self.requests, self._at = 0, at

    async def serve(self, started: threading.Event, ended: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=500)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await ended.wait()
        server.close()
        await asyncio.gather(*self._later, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(await _message(reader))
            writer.write(answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError) as error:
            self.met[type(error).__name__] += 1
        writer.close()

    async def _answer(self, request: bytes) -> bytes:
        """What the client gets; nothing where the connection ends without an answer."""
        fault = self._choose(request.partition(b" HTTP/")[0].decode())
        self.met[fault] += 1
        if fault == "drop":
            return b""
        if fault in _CODES:
            return _refusal(fault, _CODES[fault])
        if fault == "delay":
            await asyncio.sleep(random.Random(len(request)).uniform(0.05, 0.3))
        answer = await self._send(request)
        if fault == "duplicate":
            answer = await self._send(request)
        elif fault == "late":
            self._later.add(asyncio.create_task(self._send_later(request)))
        elif fault == "lose":
            return b""
        elif fault == "lose_500":
            return _refusal("500", "InternalError")
        return answer[: len(answer) // 2] if fault == "cut" else answer

    def _choose(self, line: str) -> str:
        self.requests += 1
        if self._at:
            return self._at(self.requests)
        self._asked[line] += 1
        draw = random.Random(f"{self._seed} {line} {self._asked[line]}").random()
        for fault, share in self._faults.items():
            draw -= share
            if draw < 0:
                return fault
        return ""

    async def _send_later(self, request: bytes) -> bytes:
        await asyncio.sleep(_LATE_S)
        return await self._send(request)

    async def _send(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [
            self._rename[1] if line.lower() == self._rename[0] else line
            for line in head.split(b"\r\n")
            if line.partition(b":")[0].lower().decode() not in {"connection", self._strip}
        ]
        reader, writer = await asyncio.open_connection(*self._server)
        try:
            writer.write(b"\r\n".join([*lines, b"connection: close", b"", body]))
            status, _, rest = (await reader.read()).partition(b"\r\n")
        finally:
            writer.close()
        # unsaid, the client puts its next request on this connection, and loses a create, which it may not repeat
        return b"%s\r\nconnection: close\r\n%s" % (status, rest) if status else b""


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return head + await reader.readexactly(int(length[1]) if length else 0)


def _refusal(status: str, code: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
    return b"HTTP/1.1 %s X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (status.encode(), len(body), body)


@contextmanager
def proxied(proxy: FaultProxy) -> Iterator[FaultProxy]:
    """Runs a proxy in a thread until the block ends."""
    started, loop, ended = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(proxy.serve(started, ended),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()
