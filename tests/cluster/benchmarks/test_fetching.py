"""Benchmarks from a hub on loopback: pinned at the first fetch, resumed, checked; and what cannot be fetched."""

import json
import subprocess
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cluster.benchmarks.fetching import HUB
from tests.support.paths import REPO
from tests.trainer.benchmarks.tiny_benchmarks import write_benchmark

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


@pytest.fixture
def hub(tmp_path):
    write_benchmark("infosearch", tmp_path / "tiny")
    tiny = next(path for path in (tmp_path / "tiny").iterdir() if path.is_dir())
    for repository in HUB["infosearch"].values():
        (tmp_path / "hub" / repository).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub" / repository).symlink_to(tiny, target_is_directory=True)
    server = Hub(tmp_path / "hub")
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def foil(hub, *arguments):
    """The command in a process of its own: the hub's library reads HF_ENDPOINT when it is imported."""
    told = subprocess.run(
        [sys.executable, "-m", "cluster", *map(str, arguments)], cwd=REPO, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"},
    )  # fmt: skip
    return told.returncode, " ".join(told.stderr.split())


@pytest.mark.slow
def test_a_fetched_benchmark_is_pinned_read_and_taken_at_the_same_revision_again(hub, tmp_path):
    folder = tmp_path / "info"
    assert foil(hub, "benchmarks", "fetch", "infosearch", "--to", folder)[0] == 0
    lock = json.loads((folder / "fetched.json").read_text())
    assert {name.split("/")[0] for name in lock} == set(HUB["infosearch"])
    assert all(f"/resolve/{OLD}/" in entry["url"] and len(entry["sha256"]) == 64 for entry in lock.values())
    code, told = foil(hub, "evaluate", "bm25", "--on", f"infosearch:{folder}#Clarity-v1", "--out", tmp_path / "out")
    assert (code, "Traceback" in told) == (0, False)
    hub.newest, hub.asked = NEW, []
    next(folder.rglob("corpus*")).unlink()
    assert foil(hub, "benchmarks", "fetch", "infosearch", "--to", folder)[0] == 0
    taken = [path for path in hub.asked if "/resolve/" in path]
    assert len(taken) == 1
    assert f"/resolve/{OLD}/" in taken[0]


@pytest.mark.slow
def test_a_part_alone_a_named_revision_and_what_cannot_be_fetched(hub, tmp_path):
    one = ["benchmarks", "fetch", "infosearch", "--to", tmp_path / "one", "--only", "Format-v1/*", "--revision", NEW]
    assert foil(hub, *one)[0] == 0
    lock = json.loads((tmp_path / "one" / "fetched.json").read_text())
    assert {(name.split("/")[0], f"/{NEW}/" in entry["url"]) for name, entry in lock.items()} == {("Format-v1", True)}
    for arguments, code, told in (
        (["pir"], 2, "bring a folder with pir_two_tasks.json"),
        (["infosearch", "--only", "nothing*"], 2, "no file of infosearch matches 'nothing*'"),
        (["mair"], 1, "the hub does not list MAIR-Bench/MAIR-Queries"),
        (["nothing"], 2, "there is no benchmark 'nothing'"),
    ):
        found = foil(hub, "benchmarks", "fetch", *arguments, "--to", tmp_path / "none")
        assert (found[0], told in found[1]) == (code, True), found
