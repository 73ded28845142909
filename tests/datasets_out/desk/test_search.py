"""Searches as SQL: facets, words with quotes in them, marks, pages; and what a URL may hold."""

from dataclasses import replace

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.desk.live_run import LiveRun
from foil.datasets_out.desk.search import FACET_SQL, PAGE_ROWS, facets, quoted, read_search
from foil.datasets_out.desk.text_index import TextIndex
from foil.datasets_out.notes.notes import put_note
from foil.datasets_out.sql.query import run_sql
from tests.support import sample_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = sample_run.make(tmp_path_factory.mktemp("search") / "out")
    topic = sample_run.accepted("dict").id
    put_note(out, topic_id=topic, author="ann", flag="bad", note="look", noted_at="2026-01-01T00:00:00+00:00")
    return out


def found(run, **values):
    search, snapshot, index = read_search(values), load_snapshot(run, None), TextIndex()
    rows = run_sql(run, search.sql()).to_pylist()
    index.update(snapshot)
    if search.each_word:
        assert run_sql(run, search.sql(index.find(snapshot, search.each_word))).to_pylist() == rows
    return [row["query"] for row in rows]


def test_all_topics_with_the_flagged_one_first(run):
    queries = found(run)
    assert queries[0] == "how does dict sort?"
    assert len(queries) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "queries"),
    [
        ({"status": "rejected", "reason": "leak"}, ["what is tuple?"]),
        (
            {"q": "SORT year"},
            ["how does dict sort?", "how does list sort?"],
        ),  # query and instruction
        ({"q": "or"}, ["how does dict sort?", "how does list sort?"]),
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
    assert f"LIMIT {PAGE_ROWS} OFFSET 0" in search.sql()
    assert "\0" not in search.sql()
    assert quoted("it's") == "'it''s'"


@pytest.mark.slow
def test_a_word_is_found_by_the_index_as_by_sql_whatever_letters_it_has(tmp_path):
    texts = ["naïve ÉCOLE", "école", "ab", "", "b", "aab abab", "\u4f60\u597d", "x" * 3000]
    topics = [replace(sample_run.accepted(f"seed {n}"), query=text) for n, text in enumerate(texts)]
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, topics[:5], {})
    log.commit(1, topics[5:], {})
    for word in ("école", "É", "ab", "aba", "\u597d", "xxx", "ecole", "seed", "b", "ba"):
        found(tmp_path, q=word)


def test_the_index_follows_a_run_that_grows_and_gives_up_where_texts_are_too_many(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [sample_run.accepted("list")], {})
    early, index, small = load_snapshot(tmp_path, None), TextIndex(), TextIndex(10)
    index.update(early)
    log.commit(1, [sample_run.accepted("dict")], {})
    late = load_snapshot(tmp_path, None)
    assert index.holds(early)
    assert not index.holds(late)
    index.update(late)
    assert index.find(late, ["dict", "SORT"]) == [sample_run.accepted("dict").id]
    small.update(late)
    assert not small.holds(late)
    index.close()
    assert not index.holds(early)


def test_a_search_before_and_after_the_index_is_read_shows_the_same(run):
    live = LiveRun(run)
    try:
        before = live.search(read_search({"q": "sort"}))
        live.index().join()
        assert live._texts.holds(live.snapshot())
        assert live.search(read_search({"q": "sort"})) == before
        assert len(before) == 2
    finally:
        live.close()
