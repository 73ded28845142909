"""A real, small instruct model behind vLLM's OpenAI-compatible server on this machine's CPU.

FOIL_TEST_MODEL    a folder with its weights; else it is assembled once by the script that lies beside the shared data
"""

import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.drills.ports import free_port
from tests.support.paths import REPO
from tests.support.vllm.int8 import write_int8

NAME = "smollm-135m"
_PYTHON = REPO / ".venv-vllm" / "bin" / "python"
_SCRIPT = (
    Path(os.environ.get("FOIL_SHARED_DATA", REPO.parent / "shared" / "data")).parent / "tools/real_models/get_model"
)
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "foil-test-models"
_START_S = 300


def why_not() -> str:
    """Why no model can answer here; "" where one can."""
    if not _PYTHON.exists():
        return "there is no .venv-vllm: make setup-vllm"
    if not (os.environ.get("FOIL_TEST_MODEL") or _SCRIPT.exists() or (_CACHE / NAME / "config.json").exists()):
        return f"no model: set FOIL_TEST_MODEL to a folder with one ({NAME} is what the figures are for)"
    return ""


def model_folder() -> Path:
    """The folder of the weights; assembles them where they are not there yet, and skips where that cannot be done."""
    if named := os.environ.get("FOIL_TEST_MODEL"):
        return Path(named)
    folder = _CACHE / NAME
    if not (folder / "config.json").exists():
        environment = {**os.environ, "PYTHON": str(REPO / ".venv" / "bin" / "python")}
        try:
            command = ["bash", _SCRIPT, NAME, folder]
            subprocess.run(command, check=True, env=environment, capture_output=True, timeout=600)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"the packages of {NAME} cannot be had: {error}")
    return folder


def int8_folder() -> Path:
    """The same model in int8, made once: two cores answer about twice as fast with it."""
    source = model_folder()
    folder = _CACHE / f"{source.name}-int8"
    if not folder.exists():
        shutil.rmtree(made := _CACHE / f"{source.name}-int8.tmp", ignore_errors=True)
        write_int8(source, made).rename(folder)
    return folder


@contextmanager
def served(folder: Path, log: Path) -> Iterator[str]:
    """The address of a server that answers with this model, as `model`."""
    port = free_port()
    command = [
        _PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "model",
        "--max-model-len", "4096", "--enforce-eager", "--port", str(port), "--host", "127.0.0.1",
    ]  # fmt: skip
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w") as file:
        server = subprocess.Popen(
            [*map(str, command)], stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        _wait(f"http://127.0.0.1:{port}/v1/models", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, 15)
        server.wait(60)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise TimeoutError(f"no answer within {_START_S} s: {log.read_text()[-2000:]}")
