"""A loopback server whose answers a test writes: what it says follows from the prompt and from how often it was asked.

with scripted(lambda text, times: answered(403) if "forbidden" in text else answered()) as server:
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

USAGE = {"prompt_tokens": 40, "completion_tokens": 9}


class Answered(NamedTuple):
    """What is sent for a request, after `seconds`."""

    status: int
    body: Any
    headers: Mapping[str, str]
    seconds: float


Script = Callable[[str, int], Answered]
"""The answer to a prompt, its turns as one text, that was asked so often before."""


def answered(status: int = 200, body: Any = None, seconds: float = 0.0, **headers: str) -> Answered:
    """An answer: with 200 a reply of this text, else a body; in the names of headers `_` stands for `-`."""
    if status == 200 and not isinstance(body, Mapping):
        message = {"role": "assistant", "content": body or '{"text": "A plain sentence."}'}
        body = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE}
    return Answered(status, body, {name.replace("_", "-"): value for name, value in headers.items()}, seconds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ScriptedServer"

    def do_GET(self) -> None:
        self._send(answered(200, {"data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = "\n".join(str(turn["content"]) for turn in body["messages"])
        with self.server.lock:
            times = self.server.asked[text]
            self.server.asked[text] += 1
            self.server.sends.append((time.monotonic(), body))
            self.server.headers.append(dict(self.headers))
        answer = self.server.script(text, times)
        time.sleep(answer.seconds)
        self._send(answer)

    def _send(self, answer: Answered) -> None:
        raw = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
        with suppress(OSError):
            self.send_response(answer.status)
            for name, value in {"content-length": str(len(raw)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class ScriptedServer(ThreadingHTTPServer):
    """`asked` counts the sends of each prompt; `sends` has their times and bodies, `headers` their headers.

    `script` may be changed.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.lock = script, threading.Lock()
        self.asked: Counter[str] = Counter()
        self.sends: list[tuple[float, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def sent(self, words: str = "") -> int:
        """How many sends had these words in their prompt."""
        return sum(times for text, times in self.asked.items() if words in text)


@contextmanager
def scripted(script: Script) -> Iterator[ScriptedServer]:
    """The server, in threads of its own; `url` ends with /v1."""
    with ScriptedServer(script) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
