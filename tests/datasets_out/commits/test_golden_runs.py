"""A run that was killed after two of three partitions, in each format that was ever in use: it is used and finished.

tests/golden/runs/N.tar.xz: 20 seeds of tests.support.small_parts in partitions of 8.

    1   the first
"""

import tarfile
from functools import partial
from pathlib import Path

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.errors import SeedsChangedError
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.trainer.train.run.fit import train
from tests.support.commands import foil
from tests.support.paths import GOLDEN
from tests.support.small_parts import Echo, Numbers, billed, build, run_parts, sound, topics
from tests.support.trainer_world import tiny_bert
from tests.support.training import settings_for

FORMATS = sorted((GOLDEN / "runs").glob("*.tar.xz"), key=lambda path: path.name)


@pytest.fixture(params=FORMATS, ids=lambda path: path.name.split(".")[0])
def out(request, tmp_path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    return tmp_path / "out"


def resume(out: Path, reader: Numbers, bill: Path):
    parts = partial(build, out, model=Echo(bill))
    return run_parts(reader, parts, Limits(partition_seeds=8), RuntimeSettings())


@pytest.mark.slow
def test_every_command_of_curators_opens_it(out):
    CommitLog(out).open("job", {"job": "test"})
    assert "accepted" in foil("status", out).stdout
    assert foil("verify", out).returncode == 11
    for sql, told in (
        ("SELECT count(*) AS n FROM topics", "16"),
        ("SELECT count(*) AS n FROM calls WHERE coalesce(reused, false)", "0"),
        ("SELECT partitions FROM runs", "2"),
    ):
        assert foil("sql", out, sql, "--csv").stdout.splitlines()[1] == told
    assert foil("why", out, topics(out)[0].id).returncode == 0
    assert foil("snapshot", out, "v1").returncode == 0
    assert len(topics(out)) == 16


@pytest.mark.slow
def test_it_is_finished_without_paying_again(out, tmp_path):
    before = {path: path.read_bytes() for path in (out / "data").rglob("*-0000000[01].parquet")}
    summary = resume(out, Numbers(20), tmp_path / "bill")
    assert (summary.complete, summary.exit_code, billed(tmp_path / "bill")) == (True, 0, [])
    assert all(path.read_bytes() == data for path, data in before.items())
    assert len(before) == 12
    sound(out, 20)
    assert foil("verify", out).returncode == 0


def test_seeds_that_changed_are_refused(out, tmp_path):
    summary = resume(out, Numbers(20, traps={3: "another query"}), tmp_path / "bill")
    assert summary.exit_code == SeedsChangedError.exit_code
    assert "the seeds changed under this run" in summary.stopped


@pytest.mark.slow
def test_it_trains(out, tmp_path):
    base = tiny_bert(tmp_path / "base")
    view = TrainingView([TopicSource(load_snapshot(out, None))], SplitSettings(heldout_share=0, dev_share=0))
    trained = train(settings_for(base, steps=2), view, tmp_path / "model")
    assert len(trained.facts["losses"]) == 2
