"""`foil run --retry-failed`: failed rows are asked again as a new version of their partitions, and once."""

import os
import shutil
import time
from collections import Counter

import pytest

from foil.datasets_out.sql.query import run_sql
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.storage.opening import open_store
from tests.support.commands import foil
from tests.support.drills.refused_job import refuses, rows, run, slowly, write_job
from tests.support.models.scripted_server import answered, scripted

POINTS = [
    "fold.entered",
    "fold.removed",
    "reopen.folded",
    "reopen.kept",
    "reopen.placed",
    "reopen.entered",
    "flow.made",
    "flow.committed",
]
POISON = (0, 3, 4)
PRICED = ("--set", "models.writer.price={prompt: 1000, completion: 10000}")
USD_A_REPLY = 40 * 0.001 + 9 * 0.01


def retry(job, *more, **env):
    return foil("run", job, "--retry-failed", *more, env=env)


def old_rows(folder, snapshot):
    told = run_sql(folder / "out", "SELECT status FROM topics", snapshot=snapshot).to_pylist()
    return Counter(row["status"] for row in told)


def is_whole(folder):
    """Whether `foil verify` finds every bit."""
    ended = foil("verify", folder / "out")
    return "to the bit" in ended.stdout + ended.stderr


def test_failed_rows_are_asked_again_once_and_the_old_ones_stay(tmp_path):
    with scripted(refuses(answered(403, "blocked"))) as server:
        job = write_job(tmp_path, server.url, 8, poison=POISON)
        assert run(job).returncode == 3
        server.script = refuses(answered(), times=0)
        before = server.sent("question")
        assert run(job).returncode == 3
        assert server.sent("question") == before
        retried = retry(job)
        assert retried.returncode == 0, retried.stderr
        assert server.sent("question") == before + len(POISON)
        assert rows(tmp_path)[0] == {("accepted", ""): 8}
        for again in (retry(job), run(job)):
            assert again.returncode == 0
        assert server.sent("question") == before + len(POISON)
    assert old_rows(tmp_path, "before-retry-1") == {"accepted": 5, "failed": 3}
    assert is_whole(tmp_path)
    assert foil("gc", tmp_path / "out").returncode == 0
    assert old_rows(tmp_path, "before-retry-1") == {"accepted": 5, "failed": 3}
    assert possibly_paid_twice(open_store(tmp_path / "out")) == 0


def test_what_was_asked_again_stays_when_its_snapshot_goes(tmp_path):
    with scripted(refuses(answered(403, "blocked"))) as server:
        job = write_job(tmp_path, server.url, 8, poison=POISON)
        assert run(job).returncode == 3
        server.script = refuses(answered(), times=0)
        assert retry(job).returncode == 0
        sent = server.sent("question")
        (tmp_path / "out" / "snapshots" / "before-retry-1.json").unlink()
        assert foil("gc", tmp_path / "out").returncode == 0
        assert is_whole(tmp_path)
        assert run(job).returncode == 0
        assert server.sent("question") == sent


def test_what_fails_again_is_a_failed_row_and_may_be_asked_once_more(tmp_path):
    with scripted(refuses(answered(422, "no"))) as server:
        job = write_job(tmp_path, server.url, 8, poison=POISON)
        assert run(job).returncode == 3
        for times in (2, 3):
            assert retry(job).returncode == 3
            assert rows(tmp_path)[0] == {("accepted", ""): 5, ("failed", "refused_request"): 3}
            assert server.sent("DROP") == times * len(POISON)
        server.script = refuses(answered(), times=0)
        assert retry(job).returncode == 0
        assert server.sent("question") == 5 + 4 * len(POISON)
    assert old_rows(tmp_path, "before-retry-3") == {"accepted": 5, "failed": 3}
    assert is_whole(tmp_path)


def test_a_reply_that_could_not_be_read_is_drawn_anew_and_other_replies_are_kept(tmp_path):
    with scripted(refuses(answered(body="no JSON"))) as server:
        job = write_job(tmp_path, server.url, 6, poison=(2,))
        assert run(job).returncode == 3
        assert rows(tmp_path)[0] == {("accepted", ""): 5, ("failed", "unreadable_reply"): 1}
        before, server.script = server.sent("question"), refuses(answered(), times=0)
        assert retry(job).returncode == 0
        assert server.sent("question") == before + 1
    assert rows(tmp_path)[0] == {("accepted", ""): 6}
    assert is_whole(tmp_path)


CLEANED = {
    "as it is": (),
    "without journal": (("gc", "--journal-days", "0"),),
    "packed, without journal": (("compact",), ("gc", "--journal-days", "0")),
}


@pytest.mark.parametrize("cleaned", CLEANED.values(), ids=CLEANED)
def test_the_budget_remembers_the_replies_that_were_set_aside(tmp_path, cleaned):
    with scripted(refuses(answered(body="no JSON"))) as server:
        job = write_job(tmp_path, server.url, 8, poison=(2,))
        assert foil("run", job, *PRICED, "--set", "limits.seeds=6").returncode == 3
        server.script = refuses(answered(), times=0)
        assert retry(job, *PRICED, "--set", "limits.seeds=6").returncode == 0
        for command, *options in cleaned:
            assert foil(command, tmp_path / "out", *options).returncode == 0
        before = len(server.sends)
        for kind, paid in (("calls", before), ("usd", before * USD_A_REPLY)):
            spent = foil("run", job, *PRICED, "--set", f"limits.budget.{kind}={paid:.6g}")
            assert spent.returncode == 4, spent.stderr
            assert f"{paid:.6g} of {paid:.6g} {kind} are used" in spent.stderr
            assert len(server.sends) == before
        assert foil("run", job, *PRICED, "--set", f"limits.budget.calls={before + 2}").returncode == 0


@pytest.mark.parametrize("accept", [8, 9])
def test_a_run_that_accepted_enough_keeps_its_plan_when_more_are_accepted(tmp_path, accept):
    """With 9 the limit grows before what was reopened is made."""
    with scripted(refuses(answered(403, "blocked"))) as server:
        job = write_job(tmp_path, server.url, 20, poison=(0, 1, 3, 8))
        limit = ("--set", "limits.accept=8")
        assert foil("run", job, *limit).returncode == 3
        server.script = refuses(answered(), times=0)
        if accept > 8:
            assert retry(job, *limit, FOIL_CRASH_POINT="reopen.entered").returncode != 0
        retried = retry(job, "--set", f"limits.accept={accept}")
        assert retried.returncode == 0, retried.stderr
    assert rows(tmp_path)[0] == {("accepted", ""): 12}
    assert is_whole(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_a_retry_asks_nothing_twice(tmp_path, point):
    with scripted(refuses(answered(403, "blocked"))) as server:
        job = write_job(tmp_path, server.url, 8, poison=POISON)
        assert run(job).returncode == 3
        server.script = refuses(answered(), times=0)
        before = server.sent("question")
        killed = retry(job, FOIL_CRASH_POINT=point)
        assert killed.returncode != 0, killed.stderr
        resumed = retry(job)
        assert resumed.returncode == 0, resumed.stderr
        in_flight = possibly_paid_twice(open_store(tmp_path / "out"))
        assert before + len(POISON) <= server.sent("question") <= before + len(POISON) + in_flight
    assert rows(tmp_path)[0] == {("accepted", ""): 8}
    assert old_rows(tmp_path, "before-retry-1") == {"accepted": 5, "failed": 3}
    assert is_whole(tmp_path)


def test_a_run_without_its_journal_is_refused(tmp_path):
    with scripted(refuses(answered(403, "blocked"))) as server:
        job = write_job(tmp_path, server.url, 8, poison=POISON)
        assert run(job).returncode == 3
        shutil.rmtree(tmp_path / "out" / "journal")
        before = len(server.sends)
        refused = retry(job)
        assert refused.returncode == 2, refused.stderr
        assert "would be paid for again" in refused.stderr
        assert len(server.sends) == before


def packed(out):
    """Has the rows lie in packs alone: the files of the partitions are gone."""
    assert foil("compact", out).returncode == 0
    long_ago = time.time() - 7 * 86_400
    for path in out.glob("data/*/part-*"):
        os.utime(path, (long_ago, long_ago))
    assert foil("gc", out).returncode == 0


@pytest.mark.parametrize("point", ["", *slowly("reopen.placed")])
def test_failed_rows_of_a_pack_are_asked_again_once(tmp_path, point):
    with scripted(refuses(answered(422, "no"))) as server:
        job = write_job(tmp_path, server.url, 12, poison=(4, 7))
        assert run(job).returncode == 3
        packed(tmp_path / "out")
        assert not list(tmp_path.glob("out/data/*/part-*"))
        for accepted in (10, 12):
            if point:
                assert retry(job, FOIL_CRASH_POINT=point).returncode != 0
            retried, failed = retry(job), 12 - accepted
            assert retried.returncode == (3 if failed else 0), retried.stderr
            assert rows(tmp_path)[0] == Counter({("accepted", ""): accepted, ("failed", "refused_request"): failed})
            packed(tmp_path / "out")
            server.script = refuses(answered(), times=0)
        assert server.sent("DROP") == 3 * 2
        assert server.sent("question") == 10 + 3 * 2
        assert run(job).returncode == 0
        assert server.sent("question") == 10 + 3 * 2
    for snapshot in ("before-retry-1", "before-retry-2"):
        assert old_rows(tmp_path, snapshot) == {"accepted": 10, "failed": 2}
        (tmp_path / "out" / "snapshots" / f"{snapshot}.json").unlink()
    assert foil("gc", tmp_path / "out").returncode == 0
    assert is_whole(tmp_path)
