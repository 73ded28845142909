"""Metrics and JSON logs: safe labels, bounded series, counters that only grow, lines that parse."""

import json
import logging
import sys
from collections import Counter

import pytest

from foil.engine.flow.limits import BudgetSettings
from foil.engine.flow.progress import Counts
from foil.engine.flow.run_metrics import CountRecorder, record_budget
from foil.engine.keys import know_key
from foil.engine.telemetry.json_logs import JsonFormatter, add_log_facts
from foil.engine.telemetry.metrics import METRICS, MOST_SERIES, REJECTS, Meter, is_recording, use_meter

KEY = "sk-proj-" + "Zq83hfKq02mfLw93nvbTx71"
HOSTILE = ['"} 1\nfoil_seeds_total 9', "sk-proj-1234567890abcdef", "What is Slate?", "a" * 33, "", "\u202e", "-x"]


@pytest.fixture
def recorded():
    """(metric, labels) -> the values recorded there."""
    values = {}

    def bind(metric, labels):
        return values.setdefault((metric.name, labels), []).append

    use_meter(Meter(bind))
    yield values
    use_meter(None)


def test_names_are_unique_and_follow_the_conventions():
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("foil_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_a_label_that_is_no_code_becomes_other(recorded):
    for text in HOSTILE:
        REJECTS.record(1, text)
    REJECTS.record(1, "leak")
    assert recorded == {(REJECTS.name, ("other",)): [1] * len(HOSTILE), (REJECTS.name, ("leak",)): [1]}


def test_a_metric_has_a_bounded_number_of_series(recorded):
    for number in range(10 * MOST_SERIES):
        REJECTS.record(1, f"check_{number}")
    assert len(recorded) == MOST_SERIES + 1
    assert sum(map(len, recorded.values())) == 10 * MOST_SERIES
    assert len(recorded[REJECTS.name, ("other",)]) == 9 * MOST_SERIES


def test_nothing_is_recorded_without_a_meter():
    assert not is_recording()
    REJECTS.record(1, "leak")


def counts(accepted, dollars):
    return Counts(
        seeds=Counter(accepted=accepted),
        validators=Counter({("leak", "reject"): accepted, ("leak", "pass"): 7}),
        calls=accepted,
        cost_usd=dollars,
    )


def test_counters_grow_to_the_highest_counts_though_a_dead_worker_takes_some_along(recorded):
    recorder = CountRecorder()
    for accepted, dollars in [(3, 0.5), (2, 0.25), (5, 1.0), (5, 1.0)]:
        recorder.record(counts(accepted, dollars))
    assert recorded["foil_seeds_total", ("accepted",)] == [3, 2]
    assert recorded["foil_rejects_total", ("leak",)] == [3, 2]
    assert recorded["foil_cost_usd_total", ()] == [0.5, 0.5]


def test_a_run_that_has_ended_says_so_and_holds_no_workers_or_seeds(recorded):
    recorder = CountRecorder()
    recorder.begin(2)
    recorder.end()
    assert recorded["foil_run_up", ()] == [1, 0]
    assert recorded["foil_workers", ("wanted",)] == [2, 0]
    assert recorded["foil_workers", ("placed",)][-1] == recorded["foil_seeds_in_flight", ()][-1] == 0


def test_the_scarcest_part_of_a_budget_is_recorded(recorded):
    record_budget(BudgetSettings(), counts(3, 0.5))
    assert not recorded
    record_budget(BudgetSettings(calls=10, usd=1.0), counts(3, 0.5))
    assert recorded["foil_budget_used_share", ()] == [0.5]


def test_a_line_of_json_says_where_it_was_written_and_holds_no_key(monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", KEY)
    know_key("${FOIL_TEST_KEY}")
    record = logging.LogRecord("engine.x", logging.WARNING, "f", 1, "key %s\n\x1b[2J", (KEY,), None)
    try:
        int("broken")
    except ValueError:
        record.exc_info = sys.exc_info()
    add_log_facts(partition=3, seed="s" * 999, stage="recipe verifiable")
    text = JsonFormatter("abc").format(record)
    line = json.loads(text)
    assert "\n" not in text
    assert text.isascii()
    assert KEY not in text
    assert (line["level"], line["run"], line["partition"], line["stage"]) == ("warning", "abc", 3, "recipe verifiable")
    assert len(line["seed"]) == 200
    assert "ValueError: invalid" in line["exception"]
