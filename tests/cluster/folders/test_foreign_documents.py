"""A plan or limits of another run, or limits that are gone, are told by `foil verify` and `foil status`."""

import shutil
from pathlib import Path

import pytest

from foil.datasets_out.commits.encoding import seal, unseal
from tests.support.commands import foil, write_job

pytestmark = pytest.mark.slow


def grow(job: Path, out: Path, *sizes: int) -> None:
    for seeds in sizes:
        told = foil("run", job, "--out", out, "--set", f"limits.seeds={seeds}")
        assert told.returncode == 0, told.stderr


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Path:
    """A run that grew twice, and another of the same size."""
    folder = tmp_path_factory.mktemp("grown")
    job = write_job(folder, 40)
    grow(job, folder / "out", 15, 25, 35)
    grow(job, folder / "other", 12, 22)
    return folder


@pytest.fixture
def out(grown, tmp_path) -> Path:
    return Path(shutil.copytree(grown / "out", tmp_path / "out"))


def told(out: Path, kind: str, name: str) -> None:
    verified = foil("verify", out)
    assert (verified.returncode, f"DAMAGED  {kind}  {name}" in verified.stderr) == (6, True), verified.stderr


@pytest.mark.parametrize("name", ["plan.json", "growth-00000001.json", "plan-00000001.json"])
def test_a_document_of_another_run_is_foreign(grown, out, name):
    shutil.copy(grown / "other" / name, out / name)
    told(out, "foreign", name)


@pytest.mark.parametrize("number", [1, 2])
def test_a_growth_that_is_gone_is_told_and_changes_no_status(out, number):
    (out / f"growth-{number:08d}.json").unlink()
    told(out, "missing", f"growth-{number:08d}.json")
    status = foil("status", out)
    assert (status.returncode, f"growth-{number:08d}.json is missing" in status.stderr) == (6, True), status.stderr


def test_the_seeds_tell_a_growth_of_which_no_plan_is_left(out):
    for name in ("growth-00000002.json", "plan-00000002.json"):
        (out / name).unlink()
    told(out, "missing", "growth-00000002.json")


def test_a_document_that_names_no_run_is_told(out):
    for path in (*out.glob("plan*.json"), *out.glob("growth-*.json")):
        body = unseal(path, path.read_bytes())
        del body["fingerprint"]
        path.write_bytes(seal(body))
    status = foil("status", out, "--json")
    assert (status.returncode, "names no run, as builds before 0.1.0 wrote it" in status.stderr) == (6, True)
