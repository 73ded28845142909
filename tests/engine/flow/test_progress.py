"""Counts: every seed and topic has one end, and what each validator made of them adds up."""

from collections import Counter

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.engine.errors import CorruptDataError
from foil.engine.flow.progress import (
    Counts,
    check_conservation,
    count_topics,
    counts_of,
    outcomes,
    read_sessions,
    total,
)
from foil.engine.storage.local_store import LocalStore
from foil.engine.topic import Topic, Verdict


def test_a_run_that_lost_or_doubled_a_seed_is_not_called_complete():
    counts = Counts(seeds=Counter(accepted=3), topics=Counter(accepted=3))
    for planned in (2, 4):
        with pytest.raises(CorruptDataError, match=f"{planned} seeds were planned"):
            check_conservation(planned, counts)


def test_what_each_validator_made_of_the_topics_is_counted_and_adds_up(tmp_path):
    said = [
        Verdict("shape", "topic", "pass"),
        Verdict("pii", "p1", "pass", "email"),
        Verdict("judge", "p1", "pass", cost_usd=0.25),
        Verdict("judge", "p2", "edit", "dropped", cost_usd=0.5),
        Verdict("judge", "p3", "reject", "positive_lost"),
    ]
    topic = Topic("t", "s", "c", "r", "q", verdicts=tuple(said), status="rejected", reason="positive_lost")
    assert set(outcomes(topic)) == {("shape", "pass"), ("pii", "mark"), ("judge", "reject")}
    one = count_topics([topic])
    both = total([one, one])
    assert both.validators == {("shape", "pass"): 2, ("pii", "mark"): 2, ("judge", "reject"): 2}
    assert both.plain()["validators"] == {"shape pass": 2, "pii mark": 2, "judge reject": 2}
    assert both.validators_usd == {"judge": 1.5}
    log = CommitLog(tmp_path)
    log.open("f" * 64, {})
    log.commit(0, [topic], {})
    assert counts_of(log.committed()[0]) == one


def test_sessions_only_inform_so_a_folder_of_them_that_does_not_read_ends_nothing(tmp_path, caplog):
    folder = tmp_path / "sessions"
    folder.symlink_to(folder)  # listing it fails: too many levels of links
    assert read_sessions(LocalStore(tmp_path)) == []
    assert "the folder sessions does not read" in caplog.text
