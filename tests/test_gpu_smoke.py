"""`scripts/gpu_smoke.py` on a machine without a GPU: it says so, and what to do; programs that are there are run."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.paths import REPO


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has NVIDIA's driver")
def test_a_machine_without_a_gpu_hears_so_and_what_to_do(tmp_path):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho cannot find crt/host_config.h >&2\nexit 2\n")
    nvcc.chmod(0o755)
    command = [sys.executable, REPO / "scripts" / "gpu_smoke.py"]
    environment = {**os.environ, "CUDA_HOME": str(tmp_path), "PYTHONPATH": str(REPO)}
    words, data = (
        subprocess.run([*command, *more], capture_output=True, text=True, check=False, env=environment)
        for more in ([], ["--json"])
    )
    assert (words.returncode, data.returncode) == (1, 1)
    checks = {each["name"]: each for each in json.loads(data.stdout)["checks"]}
    assert "there is no NVIDIA GPU here" in words.stdout
    assert "nvidia.com/gpu" in checks["driver"]["problem"]
    assert "cannot find crt/host_config.h; set CUDA_HOME" in checks["nvcc"]["problem"]
    assert not [name for name in checks if name.startswith("GPU")], "no product is tried where there is no GPU"
    assert all(bool(each["finding"]) != bool(each["problem"]) for each in checks.values())
    assert len(words.stdout.splitlines()) == len(checks)


@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("gcc")), reason="no gcc and g++ here")
def test_the_compiler_is_tried_with_pythons_headers():
    headers = Path(sysconfig.get_path("include"), "Python.h").is_file()
    command = [sys.executable, "-c", "import gpu_smoke; print(gpu_smoke.compiler())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPO / "scripts")
    assert (done.returncode == 0) == headers, done.stderr
