"""`foil calibrate` over an endpoint: the table of a judge that can tell, and the refusal of one that guesses."""

import json
from hashlib import sha256

import pytest

from tests.support.commands import foil
from tests.support.models.fault_server import Behaviour, serving

JOB = """
seeds: {{kind: python_docs}}
recipe: {{kind: verifiable}}
models:
  writer: {{kind: hosted, model: test-model, url: "{url}"}}
  judge: {{kind: hosted, model: test-model, url: "{url}", price: {{prompt: 1.0, completion: 2.0}}}}
validators: [{judge}]
out: {out}
"""
ROWS = [
    {"query": f"colour of {name}", "passage": f"{name} is {colour}.", "relevant": colour != "unknown", "core": name}
    for name in ("flint", "jade", "opal", "ruby", "onyx", "beryl", "topaz", "agate")
    for colour in ("red", "unknown")
]


def tells(request, _choice):
    """P(true) is high where the passage names a colour."""
    known = "is red" in request["messages"][-1]["content"]
    return ("true", "length", {"true": 0.8, "false": 0.2}) if known else ("false", "length", {"true": 0.3, "No": 0.7})


def guesses(request, _choice):
    true = int(sha256(request["messages"][-1]["content"].encode()).hexdigest()[:2], 16) / 256
    return "true", "length", {"true": true, "false": 1 - true}


def calibrated(tmp_path, answer, *more, judge="{kind: judge_demands}"):
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with serving(Behaviour(), answer) as server:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(url=server.url, out=tmp_path / "out", judge=judge))
        run = foil("calibrate", job, "--on", labels, "--replies", tmp_path / "replies", *more)
        return run, server.report()["requests"]


def test_a_judge_that_can_tell_has_its_figures_and_pays_once(tmp_path):
    run, asked = calibrated(tmp_path, tells, "--json")
    assert run.returncode == 0, run.stderr
    [row] = json.loads(run.stdout.splitlines()[-1])
    assert (row["judge"], row["model"], row["units"], row["auc"], row["kappa"]) == (
        "judge_demands", "test-model", len(ROWS), 1.0, 1.0,
    )  # fmt: skip
    assert (row["keep"], row["drop"], row["decided"], row["neutral"]) == (0.8, 0.3, 1.0, 0.55)
    assert row["usd"] > 0
    assert asked == len(ROWS)
    again, asked = calibrated(tmp_path, tells)
    assert (again.returncode, asked) == (0, 0)
    assert "judge_demands" in again.stdout


def test_a_judge_that_guesses_is_refused_with_its_numbers(tmp_path):
    run, _ = calibrated(tmp_path, guesses)
    assert run.returncode == 5
    assert "is no better than a coin: AUC" in run.stderr
    assert "judge_demands" in run.stdout, "the table is shown all the same"


@pytest.mark.parametrize(
    ("labels", "judge", "said"),
    [("nowhere.jsonl", "{kind: judge_demands}", "cannot be read"), ("labels.jsonl", "{kind: shape}", "names no judge")],
)
def test_without_labels_or_judges_nothing_is_asked(tmp_path, labels, judge, said):
    (tmp_path / "labels.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    (tmp_path / "job.yaml").write_text(JOB.format(url="http://127.0.0.1:9/v1", out=tmp_path / "out", judge=judge))
    run = foil("calibrate", tmp_path / "job.yaml", "--on", tmp_path / labels)
    assert run.returncode == 2
    assert said in run.stderr
