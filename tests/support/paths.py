"""Where things lie: this repository, the golden files of the tests, and private real corpora."""

from __future__ import annotations

from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
GOLDEN = REPO / "tests" / "golden"

CORPORA = {
    "msmarco": "{kind: msmarco, path: DATA/msmarco/rows_dl.jsonl}",
    "leetcode": "{kind: leetcode, path: DATA/leetcode}",
    "gsm8k": "{kind: metamath, corpus: gsm8k, path: DATA/gsm8k/train.jsonl}",
    "cacm": "{kind: robust04, corpus: cacm, topics: DATA/trec_sgml/cacm/topics.cacm.txt, "
    "qrels: DATA/trec_sgml/cacm/qrels.cacm.txt, documents: DATA/trec_sgml/cacm/cacm.tar.gz}",
    "cranfield": "{kind: robust04, corpus: cranfield, topic_ids: position, "
    "topics: DATA/trec_sgml/cranfield/cran.qry.xml, qrels: DATA/trec_sgml/cranfield/cranqrel.trec.txt, "
    "documents: DATA/trec_sgml/cranfield/cran.all.1400.xml}",
}
"""Name -> its `seeds` section; DATA is the fixture `shared_data`."""
