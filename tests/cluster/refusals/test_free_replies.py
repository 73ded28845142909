"""`limits.budget` counts what this run paid: what the journal, another run or rules give is free."""

import pytest

from tests.support.commands import foil
from tests.support.drills.refused_job import refuses, rows, write_job
from tests.support.models.scripted_server import answered, scripted


def run(job, seeds, *more, calls=1, **env):
    limits = ("--set", f"limits.seeds={seeds}", "--set", f"limits.budget.calls={calls}")
    return foil("run", job, *limits, *more, env=env)


def reusing(folder):
    return ("--reuse", folder / "out", "--out", folder / "new")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_replies_of_another_run_are_free(tmp_path, workers):
    with scripted(lambda _text, _asked: answered()) as server:
        job, more = write_job(tmp_path, server.url, 8), (*reusing(tmp_path), "--set", f"runtime.workers={workers}")
        assert run(job, 6, calls=6).returncode == 0
        for _ in range(2):  # then from its own journal
            again = run(job, 6, *more)
            assert again.returncode == 0, again.stderr
        assert server.sent("question") == 6
        spent = run(job, 8, *more)
        assert spent.returncode == 4, spent.stderr
    assert server.sent("question") == 7


def test_replies_of_another_run_are_free_where_a_kill_left_them_in_the_journal(tmp_path):
    with scripted(lambda _text, _asked: answered()) as server:
        job = write_job(tmp_path, server.url)
        assert run(job, 6, calls=6).returncode == 0
        assert run(job, 6, *reusing(tmp_path), FOIL_CRASH_POINT="commit.encoded:2").returncode != 0
        again = run(job, 6, *reusing(tmp_path))
        assert again.returncode == 0, again.stderr
    assert server.sent("question") == 6


def test_a_reply_of_another_run_that_failed_its_row_stays_free_when_it_is_asked_again(tmp_path):
    with scripted(refuses(answered(body="no JSON"))) as server:
        job, more = write_job(tmp_path, server.url, 8, poison=(2,)), reusing(tmp_path)
        assert run(job, 6, calls=100).returncode == 3
        server.script = refuses(answered(), times=0)
        before = len(server.sends)
        assert run(job, 6, *more).returncode == 3
        again = run(job, 6, *more, "--retry-failed")
        assert again.returncode == 0, again.stderr
        assert len(server.sends) == before + 1
        grown = run(job, 8, *more, calls=3)
        assert grown.returncode == 0, grown.stderr
        assert len(server.sends) == before + 3
    assert rows(tmp_path)[0] == {("accepted", ""): 5, ("failed", "unreadable_reply"): 1}


def test_what_rules_write_is_free(tmp_path):
    ended = run("examples/jobs/first_topic.yaml", 4, "--out", tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
