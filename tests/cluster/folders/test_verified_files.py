"""`foil verify` reads every file that an entry, a version or a snapshot names."""

import shutil
from pathlib import Path

import pytest

from tests.support.commands import foil, write_job

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run of 60 seeds in 6 partitions."""
    folder = tmp_path_factory.mktemp("finished")
    assert foil("run", write_job(folder, 60)).returncode == 0
    return folder / "out"


@pytest.fixture
def out(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def exchange(out: Path) -> int:
    """Puts partition 1 in the place of partition 0; how many files are others now."""
    changed = 0
    for path in out.glob("data/*/part-00000000.parquet"):
        other = path.with_name("part-00000001.parquet").read_bytes()
        changed += other != path.read_bytes()
        path.write_bytes(other)
    return changed


def damaged_files(out: Path) -> list[str]:
    told = foil("verify", out)
    assert told.returncode in (0, 6), told.stderr
    lines = [line for line in told.stderr.splitlines() if line.startswith("DAMAGED")]
    assert bool(lines) == (told.returncode == 6)
    return lines


def test_files_that_only_a_snapshot_names_are_read_once_their_rows_are_packed(out):
    assert foil("snapshot", out, "v1").returncode == 0
    assert foil("compact", out).returncode == 0
    assert damaged_files(out) == []
    changed = exchange(out)
    lines = damaged_files(out)
    assert len(lines) == changed > 4
    assert all("part-00000000.parquet: the snapshot 'v1' names it" in line for line in lines)


def test_a_file_that_only_a_snapshot_names_and_is_gone_is_damage(out):
    assert foil("snapshot", out, "v1").returncode == 0
    assert foil("compact", out).returncode == 0
    (out / "data/topics/part-00000003.parquet").unlink()
    (line,) = damaged_files(out)
    assert "missing  data/topics/part-00000003.parquet" in line


def test_files_that_no_reader_needs_any_more_may_go_and_not_change(out):
    assert foil("compact", out).returncode == 0
    for path in out.glob("data/*/part-00000002.parquet"):
        path.unlink()
    assert damaged_files(out) == []
    changed = exchange(out)
    lines = damaged_files(out)
    assert len(lines) == changed > 4
    assert all("an entry or an older version names it" in line for line in lines)
