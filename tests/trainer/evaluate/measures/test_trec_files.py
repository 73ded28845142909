"""TREC's files: what is written reads back, and a bad line is named."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.evaluate.measures.trec_files import read_qrels, read_run, write_run

names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=4)
scores = st.floats(-1e30, 1e30)


@given(st.dictionaries(names, st.dictionaries(names, scores, min_size=1), min_size=1))
def test_a_run_reads_back_equal_and_stands_best_first(tmp_path_factory, run):
    path = tmp_path_factory.getbasetemp() / "run.txt"
    write_run(path, run, tag="ours")
    assert read_run(path) == run
    for entry in read_run(path).values():
        assert np.all(np.diff(np.array(list(entry.values()), dtype=np.float32)) <= 0)


@given(st.dictionaries(names, st.dictionaries(names, st.integers(-2, 4), min_size=1), min_size=1))
def test_judgments_read_back_equal(tmp_path_factory, qrels):
    path = tmp_path_factory.getbasetemp() / "qrels.txt"
    path.write_text("".join(f"{q} 0 {d} {r}\n" for q, judged in qrels.items() for d, r in judged.items()))
    assert read_qrels(path) == qrels


def test_the_lines_are_trecs_and_other_tools_read_them(tmp_path):
    write_run(tmp_path / "run", {"q": {"a": 0.5, "b": 0.5, "c": 1.0}}, tag="ours")
    assert (tmp_path / "run").read_text() == "q Q0 c 1 1.0 ours\nq Q0 b 2 0.5 ours\nq Q0 a 3 0.5 ours\n"
    with (tmp_path / "run").open() as run:
        assert pytrec_eval.parse_run(run) == {"q": {"c": 1.0, "b": 0.5, "a": 0.5}}


def test_blank_lines_tabs_and_further_fields_of_a_run_are_read(tmp_path):
    (tmp_path / "run").write_text("q\tQ0\td\t99\t 2.5 tag more at the end\r\n\n")
    assert read_run(tmp_path / "run") == {"q": {"d": 2.5}}


@pytest.mark.parametrize(
    "line",
    ["q Q0 d 1", "q Q0 d 1 high tag", "q Q0 d 1 nan tag", "q Q0 d 1 0.5"],
)
def test_a_bad_line_of_a_run_names_file_line_and_format(tmp_path, line):
    (tmp_path / "run").write_text(f"q Q0 a 1 0.9 tag\n{line}\n")
    with pytest.raises(UsageError, match=r"run:2: expected `query Q0 document rank score tag`, score a number, found"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("line", ["19335 Q0 1017759", "q 0 d 1.5", "q 0 d ²", "q 0 d 1 1", "q 0 d --1"])
def test_a_bad_line_of_qrels_names_file_line_and_format(tmp_path, line):
    (tmp_path / "qrels.txt").write_text(f"19335 Q0 1017759 0\n{line}\n")
    with pytest.raises(UsageError, match=r"qrels.txt:2: expected a judgment: topic, iteration, document, grade"):
        read_qrels(tmp_path / "qrels.txt")


def test_a_document_with_two_grades_keeps_the_higher_and_is_told(tmp_path, caplog):
    (tmp_path / "qrels").write_text("q 0 d 1\nq2 0 d 1\nq 0 d 0\nq 0 d 1\n")
    assert read_qrels(tmp_path / "qrels") == {"q": {"d": 1}, "q2": {"d": 1}}
    assert "1 judgments give a pair another grade" in caplog.text
    assert "qrels:3, query 'q' and document 'd'" in caplog.text


def test_a_document_stands_once_for_a_query_of_a_run(tmp_path):
    (tmp_path / "run").write_text("q Q0 d 1 0.5 a\nq Q0 d 2 0.4 a\n")
    with pytest.raises(UsageError, match="run:2: 'd' stands twice for query 'q'"):
        read_run(tmp_path / "run")


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"q 0 \xff x\n")
    for name, said in (("binary", "binary:1: expected a judgment"), ("absent", "no such file or folder: .*absent")):
        with pytest.raises(UsageError, match=said):
            read_qrels(tmp_path / name)
    with pytest.raises(UsageError, match="binary does not read as text"):
        read_run(tmp_path / "binary")


@pytest.mark.parametrize("name", ["a b", "", "tab\tbed", "line\n"])
def test_a_name_with_blanks_cannot_be_written(tmp_path, name):
    with pytest.raises(UsageError, match="cannot stand in a TREC file"):
        write_run(tmp_path / "run", {"q": {name: 1.0}})
    assert not list(tmp_path.iterdir())
