"""The pins with their hashes: all pins, no index, and pip refuses a file whose bytes are others."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import REPO

HASHED = (REPO / "constraints-hashed.txt").read_text()
PINS = re.findall(
    r"^([A-Za-z0-9_.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", HASHED, re.MULTILINE
)
SMALL = "annotated-doc"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_pin_has_hashes_and_no_index_is_named():
    pins = [line.split("==") for line in (REPO / "constraints.txt").read_text().splitlines()]
    assert {(normal(name), version) for name, version in pins} == {(name, version) for name, version, _ in PINS}
    body = "".join(f"{name}=={version} \\\n{hashes}" for name, version, hashes in PINS)
    assert HASHED.partition("\n")[2] == body, "there is nothing but pins and hashes"
    assert "://" not in HASHED
    assert "index" not in HASHED


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
