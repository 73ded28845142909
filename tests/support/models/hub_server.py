"""A hub of data sets and models on loopback: endpoints that a push needs, what they were sent, faults to order."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGE = 4_000
"""Bytes from which a file goes to the large file storage, by its sha256."""


class HubState:
    """`files`: repository -> name -> bytes. `uploads` counts objects of the storage; `fail_commits` are refused."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.objects: dict[str, bytes] = {}
        self.private: dict[str, bool] = {}
        self.kinds: dict[str, str] = {}
        self.uploads = 0
        self.commits: list[list[str]] = []
        self.fail_commits = 0
        self.url = ""

    def tree(self, name: str) -> list[dict[str, object]]:
        return [self._entry(path, data) for path, data in sorted(self.files[name].items())]

    def _entry(self, path: str, data: bytes) -> dict[str, object]:
        oid = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
        entry: dict[str, object] = {"type": "file", "path": path, "size": len(data), "oid": oid}
        if len(data) >= LARGE:
            entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return entry

    def commit(self, name: str, lines: list[dict]) -> None:
        names = []
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self.files[name][value["path"]] = base64.b64decode(value["content"])
                names.append(value["path"])
            elif line["key"] == "lfsFile":
                self.files[name][value["path"]] = self.objects[value["oid"]]
                names.append(value["path"])
        self.commits.append(names)


class _Handler(BaseHTTPRequestHandler):
    server: "HubServer"

    def do_GET(self) -> None:
        if match := re.match(r"/api/(?:datasets|models)/([^/]+/[^/]+)/tree/main", self.path):
            self._answer(self.server.state.tree(match[1]))
        else:
            self._answer({"error": self.path}, 404)

    def do_POST(self) -> None:
        body, state = self._body(), self.server.state
        if self.path == "/api/repos/create":
            told = json.loads(body)
            name = f"{told['organization']}/{told['name']}" if told.get("organization") else told["name"]
            state.files.setdefault(name, {})
            state.kinds.setdefault(name, told.get("type", "model"))
            state.private.setdefault(name, bool(told.get("private") or told.get("visibility") == "private"))
            self._answer({"url": f"{state.url}/datasets/{name}", "id": name})
        elif re.match(r"/api/(?:datasets|models)/[^/]+/[^/]+/preupload/main", self.path):
            told = json.loads(body)["files"]
            modes = {file["path"]: "lfs" if file["size"] >= LARGE else "regular" for file in told}
            files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
            self._answer({"files": files})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif self.path.endswith("/info/lfs/objects/batch"):
            self._answer(self._batch(json.loads(body)))
        elif match := re.match(r"/api/(?:datasets|models)/([^/]+/[^/]+)/commit/main", self.path):
            if state.fail_commits:
                state.fail_commits -= 1
                self._answer({"error": "the storage is full"}, 400)
                return
            state.commit(match[1], [json.loads(line) for line in body.splitlines() if line])
            self._answer(
                {"commitOid": "0" * 40, "commitUrl": f"{state.url}/datasets/{match[1]}/commit/{0:040}", "success": True}
            )
        else:
            self._answer({"error": self.path}, 404)

    def do_PUT(self) -> None:
        body = self._body()
        self.server.state.objects[hashlib.sha256(body).hexdigest()] = body
        self.server.state.uploads += 1
        self._answer({})

    def _batch(self, told: dict) -> dict:
        objects = [{"oid": each["oid"], "size": each["size"]} for each in told["objects"]]
        for each in objects:
            if each["oid"] not in self.server.state.objects:
                each["actions"] = {"upload": {"href": f"{self.server.state.url}/objects/{each['oid']}"}}
        return {"transfer": "basic", "objects": objects, "hash_algo": "sha256"}

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, value: object, status: int = 200) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        return


class HubServer(ThreadingHTTPServer):
    """Answers on loopback; `state` is what it holds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = HubState()
        self.state.url = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def hub() -> Iterator[HubState]:
    """A hub that runs until the block ends."""
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
