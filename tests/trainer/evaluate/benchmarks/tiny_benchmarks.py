"""A tiny benchmark of our own words in each published layout: kind -> file -> its text."""

import json
from pathlib import Path

from foil.trainer.benchmark_source import BenchmarkSource


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


CORPUS = lines(
    {"_id": "d1", "title": "Ferry", "text": "The ferry to Saltmarsh leaves at noon and costs four dollars."},
    {"_id": "d2", "title": "", "text": "A ferry timetable for children, with pictures of boats."},
    {"_id": "d3", "title": "Bread", "text": "Bake the bread for an hour."},
)
QRELS = "query-id\tcorpus-id\tscore\n"
VARIANTS = lines({
    "_id": "q1", "text": "ferry to Saltmarsh", "instruction_og": "", "instruction_changed": "Only prices in dollars.",
    "instruction_reversed": "No prices.",
})  # fmt: skip
VARIANT_QRELS = {
    "qrels_og/test.tsv": QRELS + "q1\td1\t1\nq1\td2\t1\n",
    "qrels_changed/test.tsv": QRELS + "q1\td1\t1.0\nq1\td2\t0.0\n",
}
TOPICS = "<top>\n<num> Number: 301\n<title> ferry price\n<narr> Narrative:\nOnly dollars count.\n</top>\n"
DOC = "<DOC>\n<DOCNO>{}</DOCNO>\n<TEXT>{}</TEXT>\n</DOC>\n"

LAYOUTS = {
    "beir": {
        "corpus.jsonl": CORPUS,
        "queries.jsonl": lines({"_id": "q1", "text": "ferry price"}, {"_id": "q2", "text": "nobody judged it"}),
        "qrels/test.tsv": QRELS + "q1\td1\t2\n",
    },
    "trec": {
        "topics.txt": TOPICS,
        "qrels.txt": "301 0 D1 1\n301 0 D2 0\n",
        "documents.txt": DOC.format("D1", "The ferry costs four dollars.") + DOC.format("D2", "A ferry at noon."),
    },
    "rank_llm": {
        "hits.json": json.dumps([{"query": "ferry price", "hits": [
            {"qid": 7, "docid": "d1", "content": "The ferry costs four dollars.", "score": 2.0},
            {"qid": 7, "docid": "d2", "content": "Bread is baked for an hour.", "score": 1.0},
        ]}]),
        "qrels.txt": "7 0 d1 1\n",
    },
    "followir": {
        "Core17/corpus.jsonl": CORPUS,
        "Core17/queries.jsonl": VARIANTS,
        **{f"Core17/{name}": text for name, text in VARIANT_QRELS.items()},
        "Core17/top_ranked.jsonl": lines({"qid": "q1", "pid": "d1"}, {"qid": "q1", "pid": "d2"}),
        "News21/corpus.jsonl": CORPUS,
        "News21/queries.jsonl": lines(
            {"_id": "q1-og", "text": "ferry to Saltmarsh"}, {"_id": "q1-changed", "text": "ferry to Saltmarsh"}
        ),
        "News21/instruction.jsonl": lines(
            {"query-id": "q1-og", "instruction": "All."}, {"query-id": "q1-changed", "instruction": "Only prices."}
        ),
        "News21/qrels/test.tsv": QRELS + "q1-og\td1\t1\nq1-og\td2\t1\nq1-changed\td1\t1\nq1-changed\td2\t0\n",
        "News21/top_ranked.jsonl": lines(
            {"query-id": "q1-og", "corpus-ids": ["d1", "d2"]}, {"query-id": "q1-changed", "corpus-ids": ["d2", "d1"]}
        ),
    },
    "mfollowir": {
        "corpus-fas/corpus.jsonl": CORPUS,
        "queries-fas/queries.jsonl": lines(
            {"_id": "q1-og", "text": "ferry to Saltmarsh"}, {"_id": "q1-changed", "text": "ferry to Saltmarsh"}
        ),
        "instruction-fas/instruction.jsonl": lines(
            {"query-id": "q1-og", "instruction": "All."}, {"query-id": "q1-changed", "instruction": "Only prices."}
        ),
        "default-fas/test.jsonl": lines(
            *({"query-id": f"q1-{form}", "corpus-id": name, "score": grade}
              for form, name, grade in (("og", "d1", 1), ("og", "d2", 1), ("changed", "d1", 1), ("changed", "d2", 0)))
        ),
        "top_ranked-fas/top_ranked.jsonl": lines(
            {"query-id": "q1-og", "corpus-ids": ["d1", "d2"]}, {"query-id": "q1-changed", "corpus-ids": ["d2", "d1"]}
        ),
        "qrel_diff-fas/qrel_diff.jsonl": lines({"query-id": "q1", "corpus-ids": ["d2"]}),
    },
    "instructir": {
        "corpus.jsonl": CORPUS,
        "queries.jsonl": lines(
            {"_id": "9_1", "text": "I pay in dollars. [SEP] ferry price"},
            {"_id": "9_2", "text": "I am a child. [SEP] ferry price"},
        ),
        "qrels/test.tsv": "qid\tpid\tscore\n9_1\td1\t1\n9_2\td2\t1\n",
    },
    "infosearch": {
        f"{dimension}/{name}": text
        for dimension in ("Audience-v1", "Clarity-v1")
        for name, text in {
            "corpus.jsonl": CORPUS, "queries.jsonl": VARIANTS, **VARIANT_QRELS,
            "qrels_reversed/test.tsv": QRELS + "q1\td1\t0\nq1\td2\t1\n",
        }.items()
    },
    "mair": {
        "MAIR-Queries/LitSearch/queries.jsonl": lines(
            {"qid": "q1", "instruction": "Find papers.", "query": "ferries", "labels": [{"id": "d1", "score": 2}]}
        ),
        "MAIR-Docs/LitSearch/docs.jsonl": lines({"id": "d1", "doc": "Ferries."}, {"id": "d2", "doc": "Bread."}),
        "MAIR-Queries/Quora/a_queries.jsonl": lines(
            {"qid": "q1", "instruction": "", "query": "bread", "labels": [{"id": "d2", "score": 1}]}
        ),
        "MAIR-Docs/Quora/a_docs.jsonl": lines({"id": "d1", "doc": "Ferries."}, {"id": "d2", "doc": "Bread."}),
    },
    "bright": {
        "documents/pony-00000-of-00002.jsonl": lines({"id": "d1", "content": "A ferry costs four dollars."}),
        "documents/pony-00001-of-00002.jsonl": lines(
            {"id": "d2", "content": "A ferry leaves at noon."}, {"id": "d3", "content": "Bake bread."}
        ),
        "examples/pony-00000-of-00001.jsonl": lines(
            {"id": "0", "query": "what does the ferry cost", "reasoning": "A price is asked for.", "gold_ids": ["d1"],
             "gold_ids_long": ["p1"], "excluded_ids": ["d2"], "gold_answer": "Four dollars."},
            {"id": "1", "query": "when does the ferry leave", "reasoning": "", "gold_ids": ["d2"],
             "gold_ids_long": ["p1"], "excluded_ids": ["N/A"], "gold_answer": ""},
        ),
        "long_documents/pony-00000-of-00001.jsonl": lines({"id": "p1", "content": "A ferry costs. It leaves at noon."}),
    },
    "made": {
        "corpus.jsonl": CORPUS,
        "queries.jsonl": lines(
            {"_id": "t-0_0", "text": "ferry price", "metadata": {
                "core": "t-0", "mode": "original", "dimension": "", "domain": "web"}},
            {"_id": "t-0_1", "text": "ferry price", "metadata": {
                "core": "t-0", "mode": "instructed", "dimension": "", "domain": "web"}},
        ),
        "instruction.jsonl": lines({"query-id": "t-0_1", "instruction": "Only for children."}),
        "qrels/test.tsv": QRELS + "t-0_0\td1\t1\nt-0_0\td2\t1\nt-0_1\td1\t0\nt-0_1\td2\t1\n",
        "benchmark.json": json.dumps({
            "digest": "97e86b9ddb6ff27d818d58f511f6e91c1f8ee701b3f1805e37b98e2fb8978598",
            "measures": ["p-MRR", "nDCG@10"],
        }),
    },
    "pir": {
        "pir_two_tasks.json": json.dumps({"ours": {"corpus": ["Ferries are cheap.", "Ferries are dear.", "Bread."]}}),
        "pairs.jsonl": lines({
            "task": "ours", "id": "ours-0", "query": "ferries", "instructed": "who praises ferries",
            "counter": "who blames ferries", "gold": [0], "other_gold": [1],
        }),
    },
}  # fmt: skip


def write_benchmark(kind: str, folder: Path) -> BenchmarkSource:
    """Writes the tiny benchmark of a kind into a folder."""
    for name, text in LAYOUTS[kind].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return BenchmarkSource(kind=kind, path=folder)
