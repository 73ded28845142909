"""Several runs as one: every topic once, verified, the same bytes after a stop."""

import json
from dataclasses import replace

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.curation.merge import merge
from foil.engine.errors import DifferentJobError
from foil.engine.topic import Call
from tests.support.commands import foil
from tests.support.small_parts import topics
from tests.support.trainer_world import commit, topic


@pytest.fixture
def runs(tmp_path):
    """Twenty topics, one of them rejected; and twenty of which four are among those, one of which was paid for."""
    first = [topic(number) for number in range(20)]
    first[3] = replace(first[3], status="rejected", reason="leak")
    second = [topic(number) for number in range(16, 36)]
    call = Call("r1", "task", "m", "t@1", 7, 3, 0.5, "stop", "{}")
    second[9] = replace(second[9], calls=(call,))
    return commit(tmp_path / "a", first), commit(tmp_path / "b", second)


@pytest.mark.slow
def test_all_topics_are_there_once_and_nothing_is_paid_again(runs, tmp_path):
    done = foil("merge", *runs, tmp_path / "both", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["topics"], told["repeated"]) == (0, 36, 4), done.stderr
    assert sorted(each.id for each in topics(tmp_path / "both")) == [f"topic-{number:03d}" for number in range(36)]
    assert foil("verify", tmp_path / "both").returncode == 0
    status = json.loads(foil("status", tmp_path / "both", "--json").stdout)
    assert (status["complete"], status["accepted"], status["rejected"]) == (True, 35, 1)
    assert (status["cost_usd"], json.loads(foil("status", runs[1], "--json").stdout)["cost_usd"]) == (0, 0.5)
    again = json.loads(foil("merge", *runs, tmp_path / "both", "--json").stdout)
    assert again == told


def test_of_one_id_the_first_accepted_topic_goes_in_and_others_are_told_apart(tmp_path):
    made = [topic(number) for number in range(6)]
    strict = [replace(each, status="rejected", reason="too_long") for each in made[:3]] + made[3:]
    other = [replace(each, query=f"{each.query} again") for each in made[1:5]]
    runs = [commit(tmp_path / name, topics) for name, topics in (("strict", strict), ("first", made), ("other", other))]
    merged = merge([load_snapshot(run, None) for run in runs], tmp_path / "all")
    assert (merged.repeated, merged.differing) == (3, 7)
    assert sorted(topics(tmp_path / "all"), key=lambda each: each.id) == made


def test_a_merge_that_was_stopped_ends_with_the_same_bytes(runs, tmp_path, monkeypatch):
    sources = [load_snapshot(run, None) for run in runs]
    whole = merge(sources, tmp_path / "whole").snapshot.digest
    commit_partition = CommitLog.commit

    def stop_at_four(log, index, *arguments):
        if index == 4:
            raise KeyboardInterrupt
        commit_partition(log, index, *arguments)

    with monkeypatch.context() as stopping:
        stopping.setattr(CommitLog, "commit", stop_at_four)
        with pytest.raises(KeyboardInterrupt):
            merge(sources, tmp_path / "stopped")
    assert len(CommitLog(tmp_path / "stopped").partitions()) == 4
    assert merge(sources, tmp_path / "stopped").snapshot.digest == whole


def test_another_folder_or_other_runs_are_refused(runs, tmp_path):
    inside = foil("merge", *runs, runs[0])
    assert (inside.returncode, "a folder of its own" in inside.stderr) == (2, True), inside.stderr
    merge([load_snapshot(runs[0], None)], tmp_path / "one")
    with pytest.raises(DifferentJobError):
        merge([load_snapshot(run, None) for run in runs], tmp_path / "one")
