"""`--reuse`: the replies of another run are taken from its journal or from its rows, and what is paid is said first."""

import re
import shutil
from dataclasses import replace

import pytest

from tests.support.commands import calls_sent, foil, hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import topics


@pytest.mark.parametrize("without_journal", [False, True])
def test_a_run_is_made_anew_without_a_paid_call(tmp_path, without_journal):
    with serving(answer=Character(said=0.03)) as server:
        job = hosted_job(tmp_path, server.url, 12)
        whole = ["--set", "replies.candidates=0"]  # a row keeps one of several choices
        assert foil("run", job, *whole).returncode in (0, 3)
        sent = calls_sent(server)
        if without_journal:
            shutil.rmtree(tmp_path / "out" / "journal")
        ended = foil("run", job, *whole, "--out", tmp_path / "again", "--reuse", tmp_path / "out")
        assert calls_sent(server) == sent > 0
    share = re.search(r"in the first 12 seeds (\d+) of (\d+) prompts \(100%\) are paid", ended.stderr)
    assert share, ended.stderr
    assert share[1] == share[2]
    plain = [[replace(row, calls=()) for row in topics(tmp_path / name)] for name in ("out", "again")]
    assert plain[0] == plain[1]


def test_a_share_that_is_not_paid_is_said_before_anything_is_sent(tmp_path):
    with serving(answer=Character()) as server:
        job = hosted_job(tmp_path, server.url, 6)
        foil("run", job, "--set", "limits.seeds=3")
        shutil.rmtree(tmp_path / "out" / "journal")
        ended = foil("run", job, "--out", tmp_path / "again", "--reuse", tmp_path / "out")
    assert "3 of these seeds need no new reply" in ended.stderr
    assert ended.stderr.index("reuse: in the first 6 seeds") < ended.stderr.index("reading seeds")


def test_what_the_run_itself_has_paid_counts_when_it_goes_on(tmp_path):
    with serving(answer=Character()) as server:
        job = hosted_job(tmp_path, server.url, 6)
        foil("run", job, "--set", "limits.seeds=3")
        again = ["run", job, "--out", tmp_path / "again", "--reuse", tmp_path / "out"]
        assert "3 of these seeds need no new reply" in foil(*again).stderr
        assert "6 of these seeds need no new reply" in foil(*again).stderr


@pytest.mark.parametrize("command", ["run", "plan", "try"])
def test_a_folder_without_a_run_is_refused(tmp_path, command):
    with serving(answer=Character()) as server:
        job = hosted_job(tmp_path, server.url, 3)
        for folder in (tmp_path / "nowhere", tmp_path):
            ended = foil(command, job, "--reuse", folder)
            assert ended.returncode == 2
            assert f"{folder} {'holds no run' if folder.exists() else 'is not there'}" in " ".join(ended.stderr.split())
        assert calls_sent(server) == 0
