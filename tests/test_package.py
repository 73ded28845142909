"""The wheel as others install it: complete, and beside packages that are called as our folders are."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.commands import write_job
from tests.support.paths import PACKAGES, REPO

PROOF = """
import pathlib, pkgutil, sys, importlib
import engine, trainer, validators
import foil
assert {engine.OWNER, trainer.OWNER, validators.OWNER} == {"somebody else"}
assert pathlib.Path(foil.__file__).is_relative_to(sys.argv[1]), foil.__file__
names = [m.name for m in pkgutil.walk_packages(foil.__path__, "foil.") if not m.name.endswith("__main__")]
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name.split(".")[0] not in {"foil", *sys.argv[2:]}
print(len(names))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The wheel, unpacked, beside packages of others."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("foil", *PACKAGES):
        unbuilt = shutil.ignore_patterns("__pycache__", "part-*")
        shutil.copytree(REPO / name, folder / "source" / name, symlinks=True, ignore=unbuilt)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, folder / "source")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(folder / "source"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    for name in ("engine", "trainer", "validators"):
        (folder / "site" / name).mkdir()
        (folder / "site" / name / "__init__.py").write_text('OWNER = "somebody else"\n')
    return folder / "site"


@pytest.mark.slow
def test_it_holds_every_file_of_the_folders(site):
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=REPO, check=True, capture_output=True, text=True)
    assert [name for name in listed.stdout.split() if not (site / "foil" / name).is_file()] == []


@pytest.mark.slow
def test_all_of_it_imports_and_runs_beside_packages_of_the_same_names(site, tmp_path):
    environment = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    proof = [sys.executable, "-c", PROOF, str(site), *PACKAGES]
    done = subprocess.run(proof, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400
    job = write_job(tmp_path, 12)
    for command in (["run", str(job)], ["sql", str(tmp_path / "out"), "SELECT count(*) AS n FROM topics", "--csv"]):
        words = [sys.executable, "-m", "foil", *command]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0
