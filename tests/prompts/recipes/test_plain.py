"""Published rows as topics: judged as they came, through the command, and mixed into training."""

import json

import pytest

from foil.datasets_out.training.sources import SourceSettings, pin_source
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from tests.support.commands import foil
from tests.support.small_parts import topics

JOB = """
seeds:
  kind: table
  corpus: rows
  path: {folder}/train.jsonl
  negatives: 0
  columns: {{query: query, positives: positive_passages, negatives: negative_passages, id: query_id}}
recipe: {{kind: plain, negatives: 2}}
validators: [{{kind: shape}}, {{kind: duplicates}}]
out: {folder}/out
"""


def passage(name, text):
    return {"docid": name, "title": "", "text": text}


@pytest.fixture
def out(tmp_path):
    """Rows in Tevatron's layout: the third repeats a text among its negatives, the last has no relevant passage."""
    rows = [
        {
            "query_id": f"q{number}",
            "query": f"where do {bird} nest",
            "positive_passages": [passage(f"p{number}", f"The {bird} nest in {place}, far from the shore.")],
            "negative_passages": [passage(f"n{number}{i}", f"The {bird} eat {food}.") for i, food in enumerate(foods)],
        }
        for number, (bird, place, foods) in enumerate(
            [
                ("gulls", "cliffs", ["fish", "crabs", "bread"]),
                ("owls", "barns", ["mice"]),
                ("swifts", "walls", ["ants"] * 2),
            ]
        )
    ]
    rows.append({**rows[0], "query_id": "q9", "query": "what is left", "positive_passages": []})
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    done = foil("run", tmp_path / "job.yaml")
    assert done.returncode == 0, done.stderr
    return tmp_path / "out"


def test_rows_become_topics_with_their_own_judgments(out):
    gulls, owls, swifts, left = topics(out)
    assert [(p.source_id, p.role) for p in gulls.passages] == [
        ("p0", "seed_positive"), ("n00", "seed_negative"), ("n01", "seed_negative"),
    ]  # fmt: skip
    assert [(i.role, i.instruction, i.query) for i in owls.intents] == [("original", "", "where do owls nest")]
    assert {(j.relevance, j.judge) for j in owls.judgments} == {(1, "seed"), (-1, "seed")}
    assert len(swifts.passages) == 2
    assert (left.status, left.reason) == ("rejected", "no_positive")


def test_a_trainer_reads_them(out):
    view = TrainingView([pin_source(SourceSettings(run=out))], SplitSettings(heldout_share=0, dev_share=0))
    groups = view.read_all("train")
    assert [group.relevance.tolist() for group in groups] == [[[1, -1, -1]], [[1, -1]], [[1, -1]]]
