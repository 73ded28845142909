"""What a pool of systems puts in doubt, and what a reader's marks change."""

import pytest

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.making.review import ReviewSettings, changes, doubtful, with_judgments

QRELS = {"q": {"good": 2, "lost": 1, "bad": 0}, "p": {"good": 1}}
WORLD = Benchmark(
    "ours", "", {name: ("", name) for name in ("good", "lost", "bad", "new", "rare", "low")},
    (EvaluationQuery("q", "ask"), EvaluationQuery("p", "plead")), QRELS,
)  # fmt: skip


def run(*documents):
    return {"q": {name: float(-place) for place, name in enumerate(documents)}, "p": {"good": 1.0}}


RUNS = [run("good", "new", "bad", "low"), run("new", "good", "rare"), run("bad", "new", "good", "lost")]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, ["new", "lost"]),  # three systems rank `new` high, two do not find `lost`, one alone ranks `rare`
        ({"least_systems": 1}, ["new", "lost", "low", "rare"]),
        ({"least_systems": 1, "high_rank": 3}, ["new", "lost", "rare"]),
        ({"missed_share": 0.7}, ["new"]),
        ({"low_rank": 3, "missed_share": 0.7}, ["lost", "new"]),
        ({"passages": 1}, ["new"]),
        ({"high_rank": 1, "least_systems": 2, "missed_share": 0.7}, []),
    ],
)
def test_documents_come_by_how_many_systems_contradict_the_judgments(changed, found):
    settings = ReviewSettings(**{"high_rank": 10, **changed})
    assert doubtful(WORLD, RUNS, settings) == ({"q": found} if found else {})


def test_the_queries_in_most_doubt_are_kept():
    runs = [{**each, "p": {"new": 1.0, "good": 0.5}} for each in RUNS]
    assert doubtful(WORLD, runs, ReviewSettings()) == {"q": ["new", "lost"], "p": ["new"]}
    assert list(doubtful(WORLD, runs, ReviewSettings(items=1))) == ["q"]


def test_marks_become_judgments_and_a_higher_grade_stays():
    marked = with_judgments(WORLD, {"q": {"good": True, "lost": False, "new": True, "rare": False}, "p": {"new": True}})
    assert marked.qrels == {
        "q": {"good": 2, "lost": 0, "bad": 0, "new": 1, "rare": 0},
        "p": {"good": 1, "new": 1},
    }
    assert changes(WORLD, marked) == {"new_relevant": 2, "new_not_relevant": 1, "no_longer_relevant": 1}
    assert QRELS["q"] == {"good": 2, "lost": 1, "bad": 0}
    turned = with_judgments(WORLD, {"q": {"bad": True}})
    assert turned.qrels["q"]["bad"] == 1
    assert changes(WORLD, turned)["no_longer_relevant"] == 0
