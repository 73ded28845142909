"""Fetching, against a real HTTP server on this machine: whole, resumed, checked, and clear where it fails."""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from foil.engine.errors import CorruptDataError, FoilError, UsageError
from foil.engine.seeds.files.download import CORPORA, FetchSettings, PublicCorpus, RemoteFile, fetch, public_corpus

BODY = bytes(range(256)) * 12_000
DIGEST = hashlib.sha256(BODY).hexdigest()
QUICK = FetchSettings(timeout_s=5, attempts=3, backoff_s=0)


class Site(ThreadingHTTPServer):
    """Serves BODY under any path, records the ranges that clients ask for, and fails as the test sets it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = BODY
        self.ranges: list[str | None] = []
        self.statuses: list[int] = []
        self.cut_after: list[int] = []
        self.honours_ranges = True

    def remote(self, name: str = "data.bin", sha256: str = "") -> RemoteFile:
        return RemoteFile(name, f"http://127.0.0.1:{self.server_port}/{name}", sha256)


class Handler(BaseHTTPRequestHandler):
    """Answers as its Site is set."""

    server: Site

    def do_GET(self) -> None:
        site = self.server
        byte_range = self.headers.get("Range")
        site.ranges.append(byte_range)
        if site.statuses:
            self.send_error(site.statuses.pop(0))
            return
        start = int(byte_range.removeprefix("bytes=").rstrip("-")) if byte_range and site.honours_ranges else 0
        if byte_range and start >= len(site.body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.body)}")
            self.end_headers()
            return
        self.send_response(206 if byte_range and site.honours_ranges else 200)
        self.send_header("Content-Length", str(len(site.body) - start))
        if byte_range and site.honours_ranges:
            self.send_header("Content-Range", f"bytes {start}-{len(site.body) - 1}/{len(site.body)}")
        self.end_headers()
        end = start + site.cut_after.pop(0) if site.cut_after else len(site.body)
        self.wfile.write(site.body[start:end])

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ignore_progress(name: str, received: int, total: int | None) -> None:
    """Progress that nobody watches."""


def bring(folder: Path, *files: RemoteFile) -> list[Path]:
    return fetch(PublicCorpus("harbour", "CC0", files), folder, ignore_progress, QUICK)


def test_files_arrive_whole_with_progress_and_a_lock(site: Site, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []
    files = (site.remote("a.bin"), site.remote("qrels/b.bin", DIGEST))
    paths = fetch(PublicCorpus("harbour", "CC0", files), tmp_path, lambda *step: steps.append(step), QUICK)
    assert [path.read_bytes() for path in paths] == [BODY, BODY]
    assert steps[-1] == ("qrels/b.bin", len(BODY), len(BODY))
    assert [received for name, received, _ in steps if name == "a.bin"] == [1 << 20, 2 << 20, len(BODY)]
    lock = json.loads((tmp_path / "fetched.json").read_text())
    assert lock["a.bin"] == {"url": files[0].url, "bytes": len(BODY), "sha256": DIGEST}
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["a.bin", "b.bin", "fetched.json"]


def test_what_is_here_and_unchanged_is_not_asked_for_again(site: Site, tmp_path: Path) -> None:
    bring(tmp_path, site.remote())
    assert bring(tmp_path, site.remote()) == [tmp_path / "data.bin"]
    assert len(site.ranges) == 1


def test_a_cut_connection_is_resumed_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1_000_000, 500_000]
    (path,) = bring(tmp_path, site.remote(sha256=DIGEST))
    assert path.read_bytes() == BODY
    assert site.ranges == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_fetch_that_gave_up_goes_on_at_the_next_call(site: Site, tmp_path: Path) -> None:
    site.cut_after = [10, 10, 10]
    with pytest.raises(FoilError, match=r"could not be fetched in 3 attempts .*30 of .*; 30 bytes are kept"):
        bring(tmp_path, site.remote())
    assert not (tmp_path / "data.bin").exists()
    (path,) = bring(tmp_path, site.remote())
    assert path.read_bytes() == BODY
    assert site.ranges[-1] == "bytes=30-"


def test_a_server_that_knows_no_ranges_is_read_from_the_start(site: Site, tmp_path: Path) -> None:
    site.honours_ranges, site.cut_after = False, [1_000]
    (path,) = bring(tmp_path, site.remote(sha256=DIGEST))
    assert path.read_bytes() == BODY


def test_a_part_that_is_whole_already_is_taken(site: Site, tmp_path: Path) -> None:
    part = tmp_path / f"data.bin.{hashlib.sha256(site.remote().url.encode()).hexdigest()[:8]}.part"
    part.write_bytes(BODY)
    assert bring(tmp_path, site.remote(sha256=DIGEST))[0].read_bytes() == BODY
    (tmp_path / "data.bin").unlink()
    part.write_bytes(BODY + b"too long")
    assert bring(tmp_path, site.remote(sha256=DIGEST))[0].read_bytes() == BODY


def test_a_busy_server_is_asked_again_and_a_refusal_is_final(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429]
    assert bring(tmp_path, site.remote("a"))[0].read_bytes() == BODY
    site.statuses = [404]
    with pytest.raises(FoilError, match=r"/b answers with status 404 .*bring the file to .* by hand"):
        bring(tmp_path, site.remote("b"))
    assert len(site.ranges) == 4


def test_a_wrong_checksum_leaves_no_file_behind(site: Site, tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match=f"has sha256 {DIGEST}, expected {'0' * 64}"):
        bring(tmp_path, site.remote(sha256="0" * 64))
    assert list(tmp_path.iterdir()) == []


def test_the_first_checksum_binds_every_later_fetch(site: Site, tmp_path: Path) -> None:
    bring(tmp_path, site.remote())
    (tmp_path / "data.bin").unlink()
    site.body = BODY[:-1] + b"!"
    with pytest.raises(CorruptDataError, match=f"expected {DIGEST}"):
        bring(tmp_path, site.remote())


def test_a_file_that_changed_here_is_noticed(site: Site, tmp_path: Path) -> None:
    (path,) = bring(tmp_path, site.remote())
    path.write_bytes(BODY[:-1] + b"!")
    with pytest.raises(CorruptDataError, match=r"data\.bin has sha256 .*; delete the file and fetch it again"):
        bring(tmp_path, site.remote())


def test_a_file_brought_by_hand_is_never_overwritten(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"data\.bin is there, but was not fetched from"):
        bring(tmp_path, site.remote())
    assert (tmp_path / "data.bin").read_bytes() == b"mine"


def test_no_network_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused_socket.getsockname()[1]}/x"
        with pytest.raises(FoilError, match=r"could not be fetched in 3 attempts .*Check the network"):
            bring(tmp_path, RemoteFile("x", url))


def test_only_web_addresses_are_fetched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither https nor http"):
        bring(tmp_path, RemoteFile("x", "file:///etc/hostname"))


def test_a_broken_lock_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "fetched.json").write_text("{")
    with pytest.raises(CorruptDataError, match=r"fetched\.json is not JSON"):
        bring(tmp_path, site.remote())


def test_a_licensed_corpus_says_how_to_come_by_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing of 'leetcode' can be fetched\. LeetCode's statements may not be"):
        fetch(public_corpus("leetcode"), tmp_path, ignore_progress)
    assert "sign NIST's agreement" in public_corpus("robust04").by_hand
    with pytest.raises(UsageError, match="no public corpus is called 'trec'; there are gsm8k, "):
        public_corpus("trec")


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=list(CORPORA))
def test_every_corpus_of_the_catalog_is_pinned_and_licensed(corpus: PublicCorpus) -> None:
    assert corpus.licence
    assert corpus.files or corpus.by_hand or corpus.hub
    for remote in corpus.files:
        assert remote.url.startswith("https://")
        assert not Path(remote.name).is_absolute()
        assert ".." not in Path(remote.name).parts
        if not remote.url.startswith("https://trec.nist.gov/"):
            assert re.search(r"/[0-9a-f]{40}/", remote.url)
        assert re.fullmatch(r"[0-9a-f]{64}|", remote.sha256)
