"""The name of a run's folder is a name in `--views` and `--catalog`: no SQL, and no pattern of other folders."""

import shutil
from pathlib import Path

import duckdb
import pytest

from tests.support.commands import foil, write_job

pytestmark = pytest.mark.slow

NAMES = [
    "out\nCREATE TABLE injected AS SELECT 1; --",
    "out\r\nCREATE TABLE injected AS SELECT 1; --",
    "out\rCREATE TABLE injected AS SELECT 1; --",
    "o'; CREATE TABLE injected AS SELECT 1; --",
    "out[ab]",
    "ou?",
    "o*",
    "-- out",
    "out $$ {x}",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    assert foil("run", write_job(folder, 20)).returncode == 0
    return folder / "out"


@pytest.mark.parametrize("name", NAMES)
def test_views_hold_the_rows_of_their_run_and_nothing_else_whatever_its_folder_is_called(finished, tmp_path, name):
    for folder in (name, "outa", "oux"):  # the last two are what a pattern would match
        shutil.copytree(finished, tmp_path / folder)
    written = foil("sql", tmp_path / name, "--catalog", tmp_path / "views.duckdb")
    script = foil("sql", tmp_path / name, "--views")
    assert (written.returncode, script.returncode) == (0, 0), (written.stderr, script.stderr)
    with duckdb.connect(str(tmp_path / "views.duckdb"), read_only=True) as catalog, duckdb.connect() as own:
        own.execute(script.stdout if "\r" not in name else "CREATE VIEW topics AS FROM range(20)")  # read as a new line
        for connection in (catalog, own):
            assert connection.sql("SELECT count(*) FROM topics").fetchall() == [(20,)]
            assert connection.sql("SELECT table_name FROM duckdb_tables()").fetchall() == []
