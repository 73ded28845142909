"""Links that lead out of a run's folder: no command reads, writes or removes a file through one."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.support.commands import foil, write_job

pytestmark = pytest.mark.slow

OUTSIDE = ("staging", "orphans", "data/calls", "data/topics", "journal", "versions", "commits")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    assert foil("run", write_job(folder, 20)).returncode == 0
    return folder / "out"


@pytest.fixture
def out(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", OUTSIDE)
def test_gc_and_compact_remove_nothing_outside(out, tmp_path, name):
    outside = tmp_path / "outside"
    if (out / name).is_dir():
        (out / name).rename(outside)
    outside.mkdir(exist_ok=True)
    for other in ("thesis.parquet", "sub/thesis.json", "00000001/thesis.log", "x-0001.log"):
        (outside / other).parent.mkdir(exist_ok=True)
        (outside / other).write_bytes(b"mine")
        os.utime(outside / other, (time.time() - 90 * 86_400,) * 2)
    (out / name).symlink_to(outside)
    before = files(outside)
    for command in ("gc", "compact"):
        told = foil(command, out)
        assert told.returncode in (0, 6), told.stderr
        assert told.returncode == 0 or "leads out of" in told.stderr
    assert before.items() <= files(outside).items()


def test_a_link_below_a_folder_of_a_run_is_not_followed_by_gc(out, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis").write_bytes(b"mine")
    (out / "orphans" / "more").symlink_to(outside)
    told = foil("gc", out)
    assert (told.returncode, "leads out of" in told.stderr) == (6, True), told.stderr
    assert files(outside) == {"thesis": b"mine"}


@pytest.mark.parametrize("name", ["desk", "desk/notes.jsonl"])
def test_notes_are_not_read_through_a_link(out, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "notes.jsonl").write_text(
        '{"topic_id": "t", "author": "a", "flag": "bad", "note": "secret", "noted_at": ""}\n'
    )
    (outside / "verified.txt").write_text("mine")
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).symlink_to(outside if name == "desk" else outside / "notes.jsonl")
    for arguments in (["sql", out, "SELECT * FROM notes"], ["sql", out, "--views"], ["verify", out]):
        told = foil(*arguments)
        if arguments[0] == "verify" and name != "desk":
            continue
        assert (told.returncode, "leads out of" in told.stderr) == (6, True), told.stderr
        assert "secret" not in told.stdout
    assert (outside / "verified.txt").read_text() == "mine"
