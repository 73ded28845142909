"""Kappa against an independent implementation, label files and their mistakes, and `foil agreement` over a run."""

import json
import math
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from foil.cluster.desk.measures import agreements
from foil.engine.errors import UsageError
from foil.validators.judges.agreement import compare_raters, measure_agreement, read_labels, read_votes
from tests.support.models.corrupt_judge import Flips
from tests.support.paths import REPO
from tests.support.small_parts import topics
from tests.support.topics.judged_topics import finish

SIGNS = st.sampled_from([1, -1])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SIGNS, SIGNS), min_size=1, max_size=60))
def test_kappa_is_what_others_compute(labels):
    measured = measure_agreement("a", "b", labels)
    assert measured.pairs == len(labels)
    assert measured.agreed == pytest.approx(sum(a == b for a, b in labels) / len(labels), abs=1e-4)
    if len({*[a for a, _ in labels], *[b for _, b in labels]}) == 1:
        assert (measured.kappa, measured.low, measured.high) == (None, None, None)
        return
    assert measured.kappa == pytest.approx(cohen_kappa_score(*zip(*labels, strict=True)), abs=1e-4)
    assert -1.0001 <= measured.low <= measured.high <= 1.0001


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Two raters, each right with probability 0.9 of pairs that are relevant half of the time: kappa is 0.64."""
    covered = 0
    for trial in range(200):
        rng = Random(trial)
        labels = []
        for _ in range(300):
            truth = rng.choice([1, -1])
            labels.append(tuple(truth if rng.random() < 0.9 else -truth for _ in range(2)))
        measured = measure_agreement("a", f"b{trial}", labels)
        covered += measured.low <= 0.64 <= measured.high
    assert 180 <= covered <= 198


def test_the_same_labels_give_the_same_numbers_and_more_of_them_a_narrower_interval():
    few = [(1, 1)] * 8 + [(1, -1)] * 2 + [(-1, -1)] * 8 + [(-1, 1)] * 2
    assert measure_agreement("a", "b", few) == measure_agreement("a", "b", few)
    narrow, wide = measure_agreement("a", "b", few * 25), measure_agreement("a", "b", few)
    assert narrow.kappa == wide.kappa == 0.6
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3


def test_raters_are_compared_where_they_share_pairs():
    a, b, c = ("t", "i", "p"), ("t", "i", "q"), ("u", "i", "p")
    measured = compare_raters({"x": {a: 1, b: -1}, "y": {a: 1, b: 1, c: 1}, "z": {c: -1}})
    assert [(a.first, a.second, a.pairs, a.agreed) for a in measured] == [("x", "y", 2, 0.5), ("y", "z", 1, 0.0)]


def test_votes_are_read_from_evidence_and_the_majority_counts():
    def evidence(*votes):
        return json.dumps({"intent": "i", "shown": ["p", "q"], "votes": votes})

    rows = [
        ("t", "judge_scenarios", evidence(["judge", "p"], ["judge2", "none"], ["judge", "q"], ["judge", "p"])),
        ("u", "judge_scenarios", evidence(["judge", "unreadable_judge"], ["judge2", "tie"])),
        ("t", "shape", "no votes"),
        ("t", "judge_scenarios", '{"votes": 3}'),
    ]
    assert read_votes(rows) == {
        "judge_scenarios by judge": {("t", "i", "p"): 1, ("t", "i", "q"): -1},
        "judge_scenarios by judge2": {("t", "i", "p"): -1, ("t", "i", "q"): -1},
    }


GOOD = {"topic_id": "t", "intent_id": "i", "passage_id": "p", "relevance": 1}


def test_a_label_file_may_be_json_lines_or_csv_with_annotators(tmp_path):
    path = tmp_path / "labels.jsonl"
    rows = [GOOD, {**GOOD, "passage_id": "q", "relevance": "-1"}, {**GOOD, "annotator": "ana", "note": "sure"}, GOOD]
    path.write_text("\n\n".join(map(json.dumps, rows)))
    expected = {"human": {("t", "i", "p"): 1, ("t", "i", "q"): -1}, "human ana": {("t", "i", "p"): 1}}
    assert read_labels(path) == expected
    path = tmp_path / "labels.csv"
    path.write_text("\ufeffrelevance,topic_id,intent_id,passage_id,annotator\n+1,t,i,p,\n-1,t,i,q,\n1,t,i,p,ana\n")
    assert read_labels(path) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "{", r"a\.jsonl:1: expected a JSON object"),
        ("a.jsonl", "[1]", r":1: expected a JSON object, found '\[1\]'; mend the line$"),
        ("a.jsonl", json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "relevance": 2}), r":2: relevance 2 is neither"),
        ("a.jsonl", json.dumps({k: v for k, v in GOOD.items() if k != "intent_id"}), r":1: no 'intent_id'"),
        (
            "a.jsonl",
            json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "relevance": -1}),
            r":2: intent i and passage p were",
        ),
        ("a.jsonl", "", "holds no label"),
        ("a.csv", "topic_id,intent_id,relevance\nt,i,1\n", r":2: no 'passage_id'"),
        ("a.csv", "topic_id,intent_id,passage_id,relevance\nt,i,p,yes\n", r":2: relevance 'yes'"),
        ("a.csv", "topic_id,intent_id,passage_id,relevance\nt,i\n", r":2: expected 4 fields as in the header"),
        ("a.csv", "topic_id,intent_id,passage_id,relevance\n", "holds no label"),
    ],
)
def test_a_label_that_says_nothing_is_named(tmp_path, name: str, text: str, message: str):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_labels(path)


def test_a_label_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_labels(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="expected a header in UTF-8"):
        read_labels(tmp_path / "bytes.csv")


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """A run whose judge errs in one answer of ten."""
    folder = tmp_path_factory.mktemp("agreement") / "out"
    assert finish(folder, Flips("flips", 0.1), share=0.02, threshold=0.01).complete
    return folder


def test_judges_labels_and_people_of_a_run_are_compared(out, tmp_path):
    labels = tmp_path / "labels.jsonl"
    truth = [(t.id, j) for t in topics(out) for j in t.judgments]
    assert truth
    labels.write_text(
        "\n".join(
            json.dumps({"topic_id": t, "intent_id": j.intent_id, "passage_id": j.passage_id, "relevance": j.relevance})
            for t, j in truth
        )
    )
    measured = {(agreement.first, agreement.second): agreement for agreement in agreements(out, labels)}
    assert set(measured) == {
        ("human", "judge_polarity by judge"), ("human", "labels of the topics"),
        ("judge_polarity by judge", "labels of the topics"),
    }  # fmt: skip
    assert measured["human", "labels of the topics"].kappa == 1.0
    judged = measured["human", "judge_polarity by judge"]
    assert 0.7 < judged.low <= judged.kappa <= judged.high < 1
    assert not math.isnan(judged.kappa)


def test_the_command_prints_them(out):
    command = [sys.executable, "-m", "foil", "agreement", str(out), "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=True)
    [agreement] = json.loads(printed.stdout)
    assert (agreement["first"], agreement["second"]) == ("judge_polarity by judge", "labels of the topics")


def test_labels_of_another_run_are_refused(out, tmp_path):
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps(GOOD))
    with pytest.raises(UsageError, match="is it the file of another run"):
        agreements(out, labels)
