"""A real Prometheus and promtool, where this machine has them (`scripts/setup-prometheus`)."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.drills.ports import free_port
from tests.support.paths import REPO


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test where there is none."""
    unpacked = REPO / ".prometheus" / "usr" / "bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed; scripts/setup-prometheus unpacks it on Debian")
    return found


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """The URL of a Prometheus that scrapes the port `target` of this machine every second."""
    binary, port = program("prometheus"), free_port()
    config = folder / "prometheus.yaml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: foil, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    )
    process = subprocess.Popen(
        [binary, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def get(url: str) -> str | None:
    """What is served there; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return None


def value(url: str, expression: str, alive: subprocess.Popen[str]) -> float:
    """The first value above 0 that Prometheus gives for an expression while the process lives; else 0."""
    query = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    while alive.poll() is None:
        answer = get(query)
        result = json.loads(answer)["data"]["result"] if answer else []
        if result and float(result[0]["value"][1]) > 0:
            return float(result[0]["value"][1])
        time.sleep(0.2)
    return 0.0
