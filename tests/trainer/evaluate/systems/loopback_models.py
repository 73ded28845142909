"""Models on loopback: /v1/embeddings whose vectors follow from the text, and a chat model that judges by a rule."""

import json
import math
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def vector_of(text):
    return np.random.default_rng(list(text.encode())).normal(size=8).round(6).tolist()


@contextmanager
def embeddings_server(replies=()):
    """Yields its URL, and a list that gets (authorization, texts) of each request; `replies` are given first."""
    left, seen = list(replies), []

    def answer(asked, authorization):
        seen.append((authorization, asked["input"]))
        rows = [{"object": "embedding", "index": i, "embedding": vector_of(t)} for i, t in enumerate(asked["input"])]
        body = {"object": "list", "model": asked["model"], "data": rows[::-1], "usage": {}}
        return left.pop(0) if left else (200, body)

    with _server(answer) as url:
        yield url, seen


@contextmanager
def chat_server(relevance, replies=()):
    """Yields its URL, and a list that gets the prompt of each request.

    `relevance` of (query, instruction, passage) is P(yes) of one passage, and what a list of passages is ordered by.
    `replies` are given first, as (status, body); each is taken out of the list.
    """
    left, seen = replies if isinstance(replies, list) else list(replies), []

    def answer(asked, _):
        (message,) = asked["messages"]
        seen.append(message["content"])
        if left:
            return left.pop(0)
        query, instruction, passages = _parts(message["content"])
        scores = [relevance(query, instruction, passage) for passage in passages]
        if asked.get("logprobs"):
            tokens = [
                {"token": "Yes", "logprob": math.log(scores[0])},
                {"token": "no", "logprob": math.log1p(-scores[0])},
            ]
            logprobs = {"content": [tokens[0] | {"top_logprobs": tokens}]}
            return 200, _completion(asked["model"], "Yes", logprobs)
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return 200, _completion(asked["model"], " > ".join(f"[{place + 1}]" for place in order), None)

    with _server(answer) as url:
        yield url, seen


@contextmanager
def choices_server(choices):
    """Yields its URL, and a list that gets the prompt of each request; `choices` of the body are (text, reason)s."""
    seen = []

    def answer(asked, _):
        seen.append(asked["messages"][-1]["content"])
        told = [
            {"index": i, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
            for i, (text, reason) in enumerate(choices(asked))
        ]
        usage = {"prompt_tokens": 9, "completion_tokens": len(told), "total_tokens": 9 + len(told)}
        return 200, {"object": "chat.completion", "model": asked["model"], "choices": told, "usage": usage}

    with _server(answer) as url:
        yield url, seen


def _parts(prompt):
    """Query, instruction and passages of a prompt."""
    query, instruction, passage = (re.findall(rf"<{tag}>(.*?)</{tag}>", prompt, re.DOTALL)
                                   for tag in ("query", "instruction", "passage"))  # fmt: skip
    return query[0], "".join(instruction), passage


def _completion(model, text, logprobs):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    return {"object": "chat.completion", "model": model, "choices": [choice | {"logprobs": logprobs}], "usage": usage}


@contextmanager
def _server(answer):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body = answer(asked, self.headers["authorization"])
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
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
