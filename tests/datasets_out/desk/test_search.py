"""Searches as SQL: facets, words with quotes in them, marks, pages; and what a URL may hold."""

import pytest

from datasets_out.desk.search import FACET_SQL, PAGE_ROWS, facets, quoted, read_search
from datasets_out.notes.notes import put_note
from datasets_out.sql.query import run_sql
from tests.support import sample_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = sample_run.make(tmp_path_factory.mktemp("search") / "out")
    topic = sample_run.accepted("dict").id
    put_note(out, topic_id=topic, author="ann", flag="bad", note="look", noted_at="2026-01-01T00:00:00+00:00")
    return out


def found(run, **values):
    return [row["query"] for row in run_sql(run, read_search(values).sql).to_pylist()]


def test_all_topics_with_the_flagged_one_first(run):
    queries = found(run)
    assert queries[0] == "how does dict sort?"
    assert len(queries) == 5


@pytest.mark.parametrize(
    ("values", "queries"),
    [
        ({"status": "rejected", "reason": "leak"}, ["what is tuple?"]),
        (
            {"q": "SORT year"},
            ["how does dict sort?", "how does list sort?"],
        ),  # query and instruction
        ({"q": "axes list"}, ["how does dict sort?", "how does list sort?"]),
        ({"q": "no'such; DROP VIEW topics --"}, []),
        ({"corpus": "' OR true --"}, []),
        ({"mark": "flag"}, ["how does dict sort?"]),
        ({"mark": "note", "status": "accepted"}, ["how does dict sort?"]),
        ({"mark": "judge"}, []),
        ({"status": "accepted", "page": "2"}, []),
    ],
)
def test_facets_words_and_marks_narrow(run, values, queries):
    assert sorted(found(run, **values)) == queries


def test_facets_are_counted(run):
    counted = facets(run_sql(run, FACET_SQL).to_pylist())
    assert counted["status"] == [("accepted", 2), ("rejected", 2), ("failed", 1)]
    assert counted["corpus"] == [("docs", 5)]


@pytest.mark.parametrize("page", ["-1", "0", "x", "9" * 30, "²"])
def test_a_page_that_is_no_number_is_the_first(page):
    search = read_search({"page": page, "unknown": "x", "q": "a\0b"})
    assert search.page == 1
    assert f"LIMIT {PAGE_ROWS} OFFSET 0" in search.sql
    assert "\0" not in search.sql
    assert quoted("it's") == "'it''s'"
