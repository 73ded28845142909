"""TREC collections: both topic styles, documents in either case, Cranfield's and CACM's traps, missing documents."""

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.judged import Document
from foil.engine.seeds.robust04 import Robust04Reader, Robust04Settings
from foil.engine.seeds.trec import read_documents, read_topics

OLD_TOPICS = """<top>

<num> Number: 051
<title> Topic: Harbour
seals

<desc> Description:
Where do seals rest
in a harbour?

<narr> Narrative:
Relevant: rocks &amp; piers.

</top>
<top>
<num> Number: 601
<title>
Pier repair

<desc>
How is a pier mended?
</top>
"""
DOCUMENTS = """Read me first: nothing here.
<DOC>
<DOCNO> FT1-1 </DOCNO>
<HEADLINE>
FT 01 JAN 94 / Seals
</HEADLINE>
<TEXT>
Seals rest on rocks
and piers.

<P>They sleep &amp; bark&hyph;loudly.</P>
</TEXT>
</DOC>
<doc><docno>FT1-2</docno><title>pier</title><author>nobody</author><text>a pier is mended with wood .</text></doc>
<DOC><DOCNO>FT1-3</DOCNO><HL>Head</HL><LP>A lead on seals.</LP><TEXT>
</TEXT></DOC>
<DOC><DOCNO>FT1-4</DOCNO><TEXT></TEXT></DOC>
<DOC id="FT1-5"><TEXT>Caf\xe9 by the harbour, no seals.</TEXT></DOC>
"""
QRELS = "51 0 FT1-1 2\n51 0 FT1-3 1\n51 0 FT1-5 0\n\n601\t0\tFT1-2\t1\n601 0 FT1-4 1\n"


def collection(folder: Path, **settings: Any) -> Robust04Reader:
    for name, text in [("topics", OLD_TOPICS), ("docs", DOCUMENTS), ("qrels", QRELS)]:
        if not (folder / name).exists():
            (folder / name).write_text(text, "latin-1")
    paths = {"topics": folder / "topics", "qrels": str(folder / "qrels"), "documents": folder / "docs"}
    return Robust04Reader(Robust04Settings.model_validate({**paths, "negatives": 0, **settings}))


def test_topics_of_both_styles_give_the_same_fields(tmp_path: Path) -> None:
    (tmp_path / "topics").write_text(OLD_TOPICS)
    first, second = read_topics(tmp_path / "topics", 1 << 20)
    assert not isinstance(first, SeedFormatError)
    assert not isinstance(second, SeedFormatError)
    assert (first.id, first.line, dict(first.attributes)) == (
        "51",
        1,
        {
            "title": "Harbour seals",
            "description": "Where do seals rest in a harbour?",
            "narrative": "Relevant: rocks & piers.",
        },
    )
    assert (second.id, dict(second.attributes)) == (
        "601",
        {"title": "Pier repair", "description": "How is a pier mended?"},
    )


def test_documents_are_found_in_either_case_on_one_line_or_many(tmp_path: Path) -> None:
    (tmp_path / "docs").write_bytes(DOCUMENTS.encode("latin-1"))
    passages = [d.passage for d in read_documents(tmp_path / "docs", 1 << 20) if isinstance(d, Document)]
    assert [(d.source_id, d.title, d.text) for d in passages] == [
        ("FT1-1", "FT 01 JAN 94 / Seals", "Seals rest on rocks and piers.\n\nThey sleep & bark-loudly."),
        ("FT1-2", "pier", "a pier is mended with wood .\n\nnobody"),
        ("FT1-3", "Head", "A lead on seals."),
        ("FT1-4", "", ""),
        ("FT1-5", "", "Caf\xe9 by the harbour, no seals."),
    ]


REGISTER = """<DOC>
<DOCNO> FR940104-0-00009 </DOCNO>
<PARENT> FR940104-0-00009 </PARENT>
<TEXT>

<!-- PJG FTAG 4700 -->

<USDEPT>DEPARTMENT OF HARBOURS

</USDEPT>
<USBUREAU>Seal Service </USBUREAU>
<!-- PJG 0012 frnewline -->
<CFRNO>5 CFR Part 12 </CFRNO>
<DOCTITLE>Rest of Seals
<!-- PJG 0012 frnewline -->
on Piers &hyph; Hours </DOCTITLE>
<SUMMARY>
SUMMARY:
Seals may rest on piers at night.

</SUMMARY>
<DOCTITLE>Annex on Rocks</DOCTITLE>
</TEXT>
</DOC>
<DOC>
<DOCNO> FR940104-0-00010 </DOCNO>
<TEXT>
<!-- PJG STAG 4702 -->
Rocks stay open.
</TEXT>
</DOC>
"""


def test_the_title_of_the_federal_register_stands_within_the_text_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "FR940104.0Z").write_text(REGISTER)
    found = [d.passage for d in read_documents(tmp_path, 1 << 20) if isinstance(d, Document)]
    assert [(d.source_id, d.title, d.text.split("\n\n")) for d in found] == [
        (
            "FR940104-0-00009",
            "Rest of Seals on Piers - Hours",
            ["DEPARTMENT OF HARBOURS", "Seal Service 5 CFR Part 12",
             "SUMMARY: Seals may rest on piers at night.", "Annex on Rocks"],
        ),
        ("FR940104-0-00010", "", ["Rocks stay open."]),
    ]  # fmt: skip


def test_a_seed_has_its_relevant_documents_best_grade_first(tmp_path: Path) -> None:
    seals, pier = collection(tmp_path)
    assert (seals.id, seals.query, seals.corpus) == ("51", "Harbour seals", "robust04")
    assert [p.source_id for p in seals.positives] == ["FT1-1", "FT1-3"]
    assert [(p.source_id, p.role, dict(p.attributes)) for p in seals.negatives] == [("FT1-5", "seed_negative", {})]
    assert [p.source_id for p in pier.positives] == ["FT1-2"]  # FT1-4 is relevant, but has no text
    assert not seals.redistributable


def test_the_description_can_be_the_query(tmp_path: Path) -> None:
    assert [s.query for s in collection(tmp_path, query="description")] == [
        "Where do seals rest in a harbour?",
        "How is a pier mended?",
    ]


def test_a_grade_below_the_threshold_is_used_neither_way(tmp_path: Path) -> None:
    seals, pier = collection(tmp_path, relevant_from=2, negatives=4)
    assert [p.source_id for p in seals.positives] == ["FT1-1"]
    assert [p.source_id for p in seals.negatives] == ["FT1-5"]  # FT1-3 shares "seals", and is judged 1
    assert pier.positives == ()


def test_no_more_than_the_set_number_of_judged_documents_are_taken(tmp_path: Path) -> None:
    assert [len(s.positives) for s in collection(tmp_path, judged=1)] == [1, 1]


def test_negatives_are_mined_from_the_documents_and_marked(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("51 0 FT1-1 1\n601 0 FT1-2 1\n")
    seals, _ = collection(tmp_path, negatives=2)
    assert [(p.source_id, p.attributes["mined"]) for p in seals.negatives] == [("FT1-5", "bm25"), ("FT1-3", "bm25")]


def test_a_passage_is_cut_at_the_set_words_and_says_so(tmp_path: Path) -> None:
    first = next(iter(collection(tmp_path, max_words=4))).positives[0]
    assert (first.text, dict(first.attributes)) == (
        "Seals rest on rocks",
        {"cut_words": "4", "relevance": "judged"},
    )


def test_qrels_that_name_topics_by_position_are_refused_until_told(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 FT1-1 1\n2 0 FT1-2 1\n")
    with pytest.raises(UsageError, match=r"judge 2 topics that .*topics does not number .*set `topic_ids: position`"):
        list(collection(tmp_path))
    by_place = list(collection(tmp_path, topic_ids="position"))
    assert [(s.id, s.query, s.positives[0].source_id) for s in by_place] == [
        ("1", "Harbour seals", "FT1-1"),
        ("2", "Pier repair", "FT1-2"),
    ]


def test_missing_relevant_documents_are_refused_or_counted(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("51 0 FT1-1 1\n51 0 LA9-9 1\n601 0 LA9-8 1\n601 0 LA9-7 0\n")
    with pytest.raises(UsageError, match=r"2 documents that the qrels call relevant are not among .*'LA9-8'"):
        list(collection(tmp_path))
    reader = collection(tmp_path, on_error="skip")
    assert [len(s.positives) for s in reader] == [1, 0]
    assert reader.ledger["missing_documents"] == 3


def test_qrels_of_other_topics_are_refused(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("999 0 FT1-1 1\n")
    with pytest.raises(UsageError, match=r"no query of corpus 'robust04' is judged: the qrels judge e.g. '999'"):
        list(collection(tmp_path))


@pytest.mark.parametrize("bad_line", ["51 0 FT1-1", "51 0 FT1-1 yes", "51 FT1-1 0 1 1", "x"])
def test_a_bad_judgment_is_always_refused(tmp_path: Path, bad_line: str) -> None:
    (tmp_path / "qrels").write_text(QRELS + bad_line + "\n")
    with pytest.raises(UsageError, match=r"qrels:7: expected a judgment: topic, iteration, document, grade"):
        list(collection(tmp_path, on_error="skip"))


def test_a_bad_document_is_refused_with_its_line_or_counted(tmp_path: Path) -> None:
    text = "<DOC>\nW-2 </DOCNO>\nlost\n</DOC>\n<DOC>\n<DOCNO>FT1-9</DOCNO>\n" + DOCUMENTS
    (tmp_path / "docs").write_text(text, "latin-1")
    with pytest.raises(SeedFormatError, match=r"docs:1: expected a document with a <DOCNO>"):
        list(collection(tmp_path))
    reader = collection(tmp_path, on_error="skip")
    assert len(list(reader)) == 2
    assert reader.ledger["skipped"] == 2  # the one without a number, and the one that never ends


def test_a_document_over_the_cap_is_counted_and_not_held(tmp_path: Path) -> None:
    flood = "<DOC><DOCNO>BIG</DOCNO><TEXT>\n" + "flood of words\n" * 20_000 + "</TEXT></DOC>\n"
    (tmp_path / "docs").write_bytes(gzip.compress((flood + DOCUMENTS).encode("latin-1")))
    with pytest.raises(SeedFormatError, match="docs:1: expected at most 4,096 bytes"):
        list(collection(tmp_path, max_row_bytes=4_096))
    reader = collection(tmp_path, max_row_bytes=4_096, on_error="skip")
    assert len(list(reader)) == 2
    assert reader.ledger["skipped"] == 1


@pytest.mark.parametrize("opening", ["<DOC><DOCNO>BIG</DOCNO><TEXT>", "<DOC><DOCNO>BIG</DOCNO><TEXT>\n"])
def test_a_line_over_the_cap_loses_its_document_and_says_so(tmp_path: Path, opening: str) -> None:
    (tmp_path / "docs").write_text(opening + "flood " * 2_000 + "\n</TEXT></DOC>\n" + DOCUMENTS, "latin-1")
    with pytest.raises(SeedFormatError, match="docs:1: expected at most 4,096 bytes"):
        list(collection(tmp_path, max_row_bytes=4_096))
    reader = collection(tmp_path, max_row_bytes=4_096, on_error="skip")
    assert len(list(reader)) == 2
    assert reader.ledger["skipped"] == 1


def test_a_topic_without_a_number_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "topics").write_text(OLD_TOPICS + "<top>\n<title> nameless\n</top>\n")
    with pytest.raises(SeedFormatError, match=r"topics:23: expected a topic with <num> and a <title> or <desc>"):
        list(collection(tmp_path))


CACM_PAGE = """<html>
<pre>


Harbour Tables by Machine

Tables of tides are made by machine,
twice a day.

CACM May, 1961

Doe, J.

CA610501 JB March 20, 1978

12\t5\t115
12\t6\t115

</pre>
</html>
"""


def test_cacm_is_read_from_its_archive_with_its_own_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cacm.tar.gz", "w:gz") as archive:
        for name, page in [("CACM-0115.html", CACM_PAGE), ("CACM-1024.html", CACM_PAGE.replace("Tables", "Charts"))]:
            info = tarfile.TarInfo(name)
            info.size = len(page)
            archive.addfile(info, io.BytesIO(page.encode()))
    (tmp_path / "topics").write_text("<DOC>\n<DOCNO> 1 </DOCNO>\n\n Tables made by\nmachine\n\nDoe, J.\n</DOC>\n")
    (tmp_path / "qrels").write_text("1 Q0 CACM-115 1\n")
    (seed,) = collection(tmp_path, corpus="cacm", documents=tmp_path / "cacm.tar.gz", negatives=1)
    assert (seed.query, seed.corpus) == ("Tables made by machine Doe, J.", "cacm")
    assert [(p.source_id, p.title, p.text) for p in seed.positives] == [
        (
            "CACM-115",
            "Harbour Tables by Machine",
            "Tables of tides are made by machine, twice a day.\n\nCACM May, 1961\n\nDoe, J.",
        )
    ]
    assert [p.source_id for p in seed.negatives] == ["CACM-1024"]


PAPERS = """<doc><docno>1</docno><title>on tides .</title><author>holm,i. and sand,p.</author>
<bib>j. of tides 2000, 1964, 3.</bib><text>on tides .
  tide tables are computed .</text></doc>
<doc><docno>2</docno><title>on tides .</title><author></author><bib></bib><text>on tides .
  lamps are counted .</text></doc>
"""


def test_a_record_of_a_paper_has_its_author_and_source_and_no_other_papers_title(tmp_path: Path) -> None:
    (tmp_path / "papers").write_text(PAPERS)
    first, second = (d.passage for d in read_documents(tmp_path / "papers", 1 << 20) if isinstance(d, Document))
    assert first.text == "tide tables are computed .\n\nholm,i. and sand,p.\n\nj. of tides 2000, 1964, 3."
    assert dict(first.attributes) == {"form": "abstract", "author": "Holm; Sand", "year": "1964"}
    assert (second.title, second.text, dict(second.attributes)) == ("", "lamps are counted .", {"form": "abstract"})


def test_a_page_of_cacm_is_an_abstract_without_its_classes(tmp_path: Path) -> None:
    parts = ("On Tides", "Tables are computed.", "CACM June, 1964", "Holm, I.\nSand, P.", "3.71 4.22")
    page = "<html><pre>\n{}\n\n</pre></html>".format("\n\n".join(parts))
    (tmp_path / "CACM-0007.html").write_text(page)
    [found] = read_documents(tmp_path / "CACM-0007.html", 1 << 20)
    assert isinstance(found, Document)
    paper = found.passage
    assert (paper.title, paper.text) == ("On Tides", "Tables are computed.\n\nCACM June, 1964\n\nHolm, I. Sand, P.")
    assert dict(paper.attributes) == {"form": "abstract", "author": "Holm; Sand", "year": "1964"}
