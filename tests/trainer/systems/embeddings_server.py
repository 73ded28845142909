"""A loopback /v1/embeddings: a vector follows from its text alone; `replies` are given first, as (status, body)."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def vector_of(text):
    return np.random.default_rng(list(text.encode())).normal(size=8).round(6).tolist()


@contextmanager
def embeddings_server(replies=()):
    """Yields its URL, and a list that gets (authorization, texts) of each request."""
    left, seen = list(replies), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append((self.headers["authorization"], asked["input"]))
            rows = [
                {"object": "embedding", "index": i, "embedding": vector_of(t)} for i, t in enumerate(asked["input"])
            ]
            body = {"object": "list", "model": asked["model"], "data": rows[::-1], "usage": {}}
            status, body = left.pop(0) if left else (200, body)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
