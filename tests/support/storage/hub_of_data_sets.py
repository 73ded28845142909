"""A hub of data sets on loopback that is read: it lists files at a revision, and sends them."""

import json
import subprocess
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.support.paths import REPO

OLD, NEW = "a" * 40, "b" * 40


class Hub(ThreadingHTTPServer):
    """Data sets as folders. `newest` is the revision that the hub calls main; all revisions hold the same files."""

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), partial(Answer, root))
        self.newest, self.asked, self.missing = OLD, [], set()


class Answer(BaseHTTPRequestHandler):
    def __init__(self, root, *rest):
        self.root = root
        super().__init__(*rest)

    def do_GET(self):
        self.server.asked.append(self.path)
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "datasets"]:
            self._list("/".join(parts[2:4]), parts[5] if len(parts) > 5 else self.server.newest)
        else:
            _, owner, name, _, revision, *rest = parts
            path = self.root / owner / name / "/".join(rest)
            if self.path in self.server.missing or not path.is_file() or revision not in (OLD, NEW):
                self._send(404, b"")
            else:
                self._send(200, path.read_bytes())

    def _list(self, repository, revision):
        folder = self.root / repository
        files = [{"rfilename": str(path.relative_to(folder))} for path in sorted(folder.rglob("*")) if path.is_file()]
        body = {"id": repository, "sha": revision, "siblings": files}
        self._send(200 if folder.is_dir() else 404, json.dumps(body).encode())

    def _send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serving(root):
    """Yields a hub of the data sets below `root`, until the caller is done with it."""
    server = Hub(root)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def foil(hub, *arguments):
    """The code and the words of the command in a process of its own: the hub's library reads HF_ENDPOINT once."""
    told = subprocess.run(
        [sys.executable, "-m", "foil", *map(str, arguments)], cwd=REPO, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"},
    )  # fmt: skip
    return told.returncode, " ".join(f"{told.stderr} {told.stdout}".split())
