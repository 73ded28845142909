"""`foil report`: its numbers are SQL's, nothing in it is obeyed or loaded, and it stays small."""

import html
import json
import re

import pytest

from foil.cluster.desk.report import MOST_BYTES, report_page
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.sql.query import run_sql
from foil.engine.errors import NoRunError, UsageError
from tests.support import sample_run
from tests.support.commands import foil, write_job
from tests.support.desk.hostile import hostile_run
from tests.support.desk.page_tables import PageReader, is_value

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    assert foil("run", write_job(folder, 30)).returncode in {0, 3}
    return folder / "out"


@pytest.fixture(scope="module")
def page(run):
    done = foil("report", run)
    assert (done.returncode, done.stdout) == (0, f"{run / 'report.html'}\n"), done.stderr
    return (run / "report.html").read_text()


def test_every_number_is_what_its_sql_says(run, page):
    sections = {name: section for name, section in PageReader(page).sections.items() if section.sql}
    assert len(sections) >= 12
    compared = 0
    for section in sections.values():
        rows = [row for row in section.rows if row]
        answers = [list(row.values()) for row in run_sql(run, section.sql).to_pylist()]
        assert len(rows) == len(answers)
        for cells, values in zip(rows, answers, strict=True):
            assert all(map(is_value, cells, values)), (cells, values)
            compared += len(cells)
    assert compared > 150


def test_the_tiles_are_the_run(run, page):
    facts = run_sql(run, "SELECT topics_accepted, passages_rows, judgments_rows FROM runs").to_pylist()[0]
    tiles = {label: value for value, label in re.findall(r"<li><b>([\d,.]+)</b><span>([a-z ]+)</span>", page)}
    assert [tiles[name] for name in ("topics accepted", "passages", "judgments")] == [f"{n:,}" for n in facts.values()]


def test_json_carries_the_verdict_that_the_page_says(run, tmp_path):
    done = foil("report", run, "--into", tmp_path / "page.html", "--json")
    said = json.loads(done.stdout.splitlines()[-1])
    page = html.unescape((tmp_path / "page.html").read_text())
    assert (done.returncode, said["page"]) == (0, str(tmp_path / "page.html"))
    assert said["verdict"]["headline"] in page
    assert all(finding["sentence"] in page for finding in said["verdict"]["findings"])


def test_it_loads_nothing_and_has_no_script(page):
    reader = PageReader(page)
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert all(re.fullmatch(r"a href=#[\w-]+", load) for load in reader.loads)
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in page


def test_a_report_of_another_run_beside_it(run, tmp_path):
    page, _ = report_page(run, sample_run.make(tmp_path / "other"))
    assert "The same in other" in page
    assert page.count("<td>other</td>") == 1  # its line of the table of diversity


def test_hostile_texts_are_shown_and_never_obeyed(tmp_path):
    page, _ = report_page(hostile_run(tmp_path / "<b>out"))
    reader = PageReader(page)
    assert not reader.tags & {"script", "img"}
    assert not [load for load in reader.loads if not load.startswith("a href=#")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u202e]", page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert r"\x1b[2J\u202egnp.exe\u200b{{ 7*7 }}" in page
    assert len(page.encode()) < MOST_BYTES


def test_a_run_without_topics_is_refused_in_words(tmp_path):
    CommitLog(tmp_path).open("f" * 64, {})
    with pytest.raises(UsageError, match="nothing to report; run the job first"):
        report_page(tmp_path)
    with pytest.raises(NoRunError):
        report_page(tmp_path / "none")
