"""Who we are to a bucket, what its errors say, and what is written down of it."""

import os
import pickle
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foil.engine.storage import object_store
from foil.engine.storage.mirrors import mirror_of
from foil.engine.storage.object_store import ObjectStore
from foil.engine.storage.opening import open_store
from tests.support.drills.ports import free_port
from tests.support.paths import REPO
from tests.support.storage import servers


def test_a_bucket_opens_by_its_folder_and_its_url_goes_to_other_processes(make_store):
    store = make_store("localbucket")
    store.put("a", b"1")
    again = open_store(mirror_of(store.url))
    assert isinstance(again, ObjectStore)
    assert (again.url, again.folder) == (store.url, store.folder)
    sent = pickle.loads(pickle.dumps(again))
    assert (sent.url, sent.folder, sent.get("a")) == (store.url, store.folder, b"1")
    kept = b"".join(path.read_bytes() for path in store.folder.rglob("*") if path.is_file()) + pickle.dumps(again)
    for secret in servers.KEYS.values():
        assert secret.encode() not in kept


def test_a_profile_leads_to_a_bucket_where_the_variables_do_not(server_of, tmp_path):
    (tmp_path / "config").write_text(f"[profile foil]\nregion = eu-west-1\nendpoint_url = {server_of('localbucket')}\n")
    (tmp_path / "keys").write_text("[foil]\naws_access_key_id = testing\naws_secret_access_key = sec%ret\n")
    code = (
        "from foil.engine.storage.object_store import ObjectStore\n"
        "store = ObjectStore('s3://runs/profile', patience_s=5)\n"
        "store.put('a', b'1')\nprint(store.get('a'))"
    )
    env = {
        "PATH": "/usr/bin", "HOME": str(tmp_path), "FOIL_CACHE": str(tmp_path / "cache"), "AWS_PROFILE": "foil",
        "AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=REPO, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "b'1'\n", done.stderr


def test_a_bucket_that_is_absent_and_a_server_that_is_away_are_told(make_store, monkeypatch, tmp_path):
    make_store("localbucket")
    with pytest.raises(OSError, match=r"make the bucket.*'s3://absent/a/key'"):
        ObjectStore("s3://absent/a", patience_s=5).put_if_absent("key", b"")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    away = ObjectStore("s3://runs/a", patience_s=1)
    for verb in (lambda: away.get("key"), lambda: list(away.list_objects("key")), lambda: away.put("key", b"")):
        with pytest.raises(OSError, match=r"within 1 s; look at it.*'s3://runs/a/key'"):
            verb()


class NoRole(BaseHTTPRequestHandler):
    """A machine's own service that knows no role."""

    def do_PUT(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def test_without_any_key_a_bucket_is_given_up_soon_and_says_what_to_set(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FOIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(object_store, "_KEY_S", 0.5)
    with ThreadingHTTPServer(("127.0.0.1", 0), NoRole) as machine:
        threading.Thread(target=machine.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{machine.server_port}")
        began = time.monotonic()
        with pytest.raises(OSError, match=r"no key is set and this machine has no role.*'s3://runs/a/key'"):
            ObjectStore("s3://runs/a", patience_s=60).get("key")
        assert time.monotonic() - began < 20
        machine.shutdown()


def test_without_the_extra_a_bucket_says_what_to_install(tmp_path):
    code = "import sys\nsys.modules['obstore'] = None\nfrom foil.engine.storage.object_store import ObjectStore\n"
    code += "ObjectStore('s3://runs/a').get('key')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=False,
        env={"FOIL_CACHE": str(tmp_path), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert "UsageError: s3://runs/a needs obstore" in done.stderr
    assert "pip install 'foil-ir[cloud]'" in done.stderr
