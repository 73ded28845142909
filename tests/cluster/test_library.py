"""`import foil`: the functions do what the commands of their names do."""

import asyncio
import json
import subprocess
import sys

import pytest

import foil
from foil.engine.errors import FoilError, NoRunError, UsageError
from tests.support.commands import write_job
from tests.support.paths import REPO

LOADED = "import sys, foil, json; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules} & {%s})))"


def test_a_run_is_made_and_read_in_one_process(tmp_path):
    job = foil.load_job(write_job(tmp_path, 12), ["limits.seeds=8"])
    summary = foil.run(job)
    made = foil.open_run(job.out)
    assert summary.exit_code == 0
    [row] = made.sql(
        "SELECT count(*) AS topics, count(*) FILTER (status = 'accepted') AS accepted FROM topics"
    ).to_pylist()
    assert len(list(made.topics())) == row["accepted"] > 0
    assert made.status()["complete"]
    assert made.verify() == []
    assert foil.run(job).exit_code == 0


def test_a_notebook_runs_an_event_loop(tmp_path):
    async def cell():
        return foil.run(write_job(tmp_path, 4))

    assert asyncio.run(cell()).exit_code == 0


def test_a_url_is_that_of_a_bucket(tmp_path):
    """No provider answers there; the folder `s3:` is not made or read."""
    with pytest.raises(FoilError, match="s3://no-such-bucket"):
        foil.open_run("s3://no-such-bucket/out?endpoint=http://127.0.0.1:9")
    with pytest.raises(FoilError, match="ftp"):
        foil.open_run("ftp://somewhere/out")


def test_errors_are_those_of_the_commands(tmp_path):
    with pytest.raises(NoRunError, match="holds no run"):
        foil.open_run(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        foil.run(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="no `train` section"):
        foil.train(write_job(tmp_path, 2))


def test_importing_it_loads_nothing_and_lists_its_names():
    libraries = ", ".join(map(repr, ("pyarrow", "duckdb", "pydantic", "ray", "torch", "openai")))
    done = subprocess.run([sys.executable, "-c", LOADED % libraries], cwd=REPO, capture_output=True, check=True)
    assert json.loads(done.stdout) == []
    assert all(callable(getattr(foil, name)) for name in foil.__all__)
    with pytest.raises(AttributeError, match="public names are"):
        _ = foil.nothing
