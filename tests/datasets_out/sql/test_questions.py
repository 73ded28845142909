"""The questions of docs/sql.md, asked of real runs: one by rule, and of calls one over a scripted model."""

import json
import re
import textwrap
from pathlib import Path

import pytest

from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.sql.schema_words import questions, questions_of_one_run
from tests.support.commands import foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.paths import REPO

_PAGE = (REPO / "docs" / "sql.md").read_text()
QUESTIONS = re.findall(r"^(\d+)\. ([^\n]+)\n\n +```sql\n(.*?)```", _PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("questions")
    job = write_job(folder, 24)
    seeds = folder / "seeds.jsonl"
    short = json.loads(seeds.read_text().splitlines()[0]) | {"id": "short", "good": "Yes."}
    seeds.write_text(f"{seeds.read_text()}{json.dumps(short)}\n")
    done = foil("run", job, "--out", folder / "rules")
    assert done.returncode == 0, done.stderr
    with serving(answer=Character()) as server:
        done = foil("run", hosted_job(folder, server.url, 8), "--out", folder / "model")
    assert done.returncode == 0, done.stderr
    return {"rules": folder / "rules", "model": folder / "model"}


def test_there_are_twenty():
    assert [int(number) for number, *_ in QUESTIONS] == list(range(1, 21))


def test_the_desk_offers_the_questions_of_the_page():
    written = [(words, textwrap.dedent(sql).strip()) for _, words, sql in QUESTIONS]
    assert list(questions()) == written
    assert len(questions_of_one_run()) == 19


@pytest.mark.slow
@pytest.mark.parametrize(("question", "sql"), [each[1:] for each in QUESTIONS], ids=[each[0] for each in QUESTIONS])
def test_a_question_has_an_answer(runs, question, sql):
    several = "`foil sql A B" in question
    answer = run_sql(runs if several else runs["model" if "FROM calls" in sql else "rules"], textwrap.dedent(sql))
    assert answer.num_rows > 0
    assert any(column.null_count < answer.num_rows for column in answer.columns)
