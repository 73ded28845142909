"""Servers on loopback, each with the bucket `runs` and an own folder, and the variables that lead to them."""

import base64
import hmac
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from email.utils import formatdate
from functools import partial
from pathlib import Path

from tests.support.drills.ports import free_port
from tests.support.paths import REPO
from tests.support.storage.fault_proxy import FaultProxy, proxied

BUCKET = "runs"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_REGION": "us-east-1"}

_QUICK = Path(__file__).with_name("quick_localbucket.py")

AZURE = {  # the emulator's own account, the same everywhere
    "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1",
    "AZURE_STORAGE_ACCOUNT_KEY": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr"
    "/KBHBeksoGMGw==",
}


def program(name: str) -> str | None:
    """A server's script: beside this Python, where scripts/setup-stores puts it, or on the path."""
    for installed in (Path(sys.executable).with_name(name), REPO / ".stores" / "bin" / name):
        if installed.is_file():
            return str(installed)
    return shutil.which(name)


@contextmanager
def localbucket(folder: Path) -> Iterator[str]:
    port = free_port()
    here = importlib.util.find_spec("localbucket") is not None
    server = [sys.executable, str(_QUICK)] if here else [str(program("localbucket"))]
    command = [*server, "--port", str(port), str(folder)]
    (folder / BUCKET).mkdir(parents=True)
    with serving(command, f"http://127.0.0.1:{port}", folder) as url:
        yield url


@contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """Its port answers long before it can store: ready is when a put has gone through."""
    import obstore
    from obstore.store import S3Store

    folder.mkdir(parents=True)
    ports = [free_port() for _ in range(4)]
    options = ["-ip=127.0.0.1", "-volume.max=20", "-master.volumeSizeLimitMB=64", f"-dir={folder}", "-s3", "-filer"]
    options += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]  # else on ports of their own
    names = ("-master.port", "-volume.port", "-filer.port", "-s3.port")
    grpc = [f"{name}.grpc={free_port()}" for name in names]
    command = [str(program("weed")), "server", *options, *grpc, *map("{}={}".format, names, ports)]
    with serving(command, f"http://127.0.0.1:{ports[-1]}", folder) as url:
        who = {name.lower(): value for name, value in environment(url).items() if name.startswith("AWS")}
        client = S3Store(BUCKET, config=who, retry_config={"max_retries": 0})
        for key in ("", "ready"):
            signed = obstore.sign(client, "PUT", key, expires_in=timedelta(minutes=10))
            wait_for(partial(_opens, urllib.request.Request(signed, data=b"", method="PUT")), 90)
        yield url


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    folder.mkdir(parents=True)
    port = free_port()
    options = ["--blobPort", str(port), "--location", str(folder), "--skipApiVersionCheck", "--silent"]
    with serving([str(program("azurite-blob")), *options], f"http://127.0.0.1:{port}", folder) as url:
        when, path = formatdate(usegmt=True), f"/{AZURE['AZURE_STORAGE_ACCOUNT_NAME']}/{BUCKET}"
        headers = {"x-ms-date": when, "x-ms-version": "2023-11-03", "Content-Length": "0"}
        signed = f"PUT{12 * chr(10)}x-ms-date:{when}\nx-ms-version:2023-11-03\n{path.rpartition('/')[0]}{path}"
        key = base64.b64decode(AZURE["AZURE_STORAGE_ACCOUNT_KEY"])
        signature = hmac.digest(key, f"{signed}\nrestype:container".encode(), "sha256")
        headers["Authorization"] = f"SharedKey devstoreaccount1:{base64.b64encode(signature).decode()}"
        made = urllib.request.Request(f"{url}{path}?restype=container", headers=headers, method="PUT")
        urllib.request.urlopen(made, timeout=10).close()
        yield url


@contextmanager
def google(folder: Path) -> Iterator[str]:
    """The S3 server behind a proxy that translates Google's condition: the emulators that exist ignore it."""
    rename = (b"x-goog-if-generation-match: 0", b"if-none-match: *")
    with localbucket(folder) as url, proxied(FaultProxy(url, 0, {}, rename=rename)) as proxy:
        yield proxy.url


@contextmanager
def serving(command: Sequence[str], url: str, folder: Path) -> Iterator[str]:
    """Runs a server until the block ends; yields once its port answers."""
    with Path(folder, f"{Path(command[0]).name}.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, start_new_session=True, env={**os.environ, **KEYS}
        )
    try:
        wait_for(lambda: _opens(url), 60)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_for(ready: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a server is not ready after {seconds:g} s; its log lies in its folder")
        time.sleep(0.1)


def _opens(request: str | urllib.request.Request) -> bool:
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except urllib.error.HTTPError as error:
        return isinstance(request, str) or error.code == 409  # it answers, if only to say no, or has the bucket
    except OSError:
        return False
    return True


def environment(url: str) -> dict[str, str]:
    """What a process needs to use the server at this URL."""
    azure = {**AZURE, "AZURE_STORAGE_ENDPOINT": f"{url}/{AZURE['AZURE_STORAGE_ACCOUNT_NAME']}"}
    account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account),
        **KEYS,
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        **azure,
    }
