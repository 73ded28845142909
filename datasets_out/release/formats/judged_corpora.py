"""Corpus, queries and judgments: BEIR's folder, and the tables of mteb with judgments that change with the instruction.

    beir    corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv     instruction and query are one text, as the model reads them
    mteb    corpus, queries, qrels, instruction, qrel_diff   FollowIR's: queries X-og and X-changed, p-MRR

mteb's X is a pair of intents of one topic with one query, under the second of which a relevant passage is relevant no
more; `qrel_diff` names those passages. A passage that is judged not relevant has the score 0. Where several splits are
released, each has a folder of its own: whoever draws negatives from a corpus must not meet held-out texts.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from string import Template

import pyarrow as pa

from foil.datasets_out.release.formats.release_format import BENCHMARK_SPLITS, TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.released_topic import JudgedIntent, ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow

TASK_MODULE = "mteb_task.py"


def _beir_rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    folder, split = layout.folder(released.split), BENCHMARK_SPLITS[released.split]
    for judged in judged_intents(released):
        if not judged.positives:
            continue  # no reader keeps a query without a relevant document
        intent = judged.intent
        metadata = {"instruction": intent.instruction, "role": intent.role, "topic": released.topic.id}
        values = {"_id": intent.id, "text": layout.query(intent), "metadata": metadata}
        yield OutputRow(f"{folder}queries.jsonl", values)
        for passage in (*judged.positives, *judged.negatives):
            document = {"_id": passage.id, "title": passage.title, "text": passage.text}
            yield OutputRow(f"{folder}corpus.jsonl", document, passage.id)
            score = int(passage in judged.positives)
            yield OutputRow(f"{folder}qrels/{split}.tsv", _judgment(intent.id, passage.id, score))


def _mteb_rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    folder, split = layout.folder(released.split), BENCHMARK_SPLITS[released.split]
    pairs = combinations([judged for judged in judged_intents(released) if judged.positives], 2)
    for number, (first, second) in enumerate(pairs):
        later = {passage.id for passage in second.negatives}
        fallen = [passage.id for passage in first.positives if passage.id in later]
        if first.intent.query != second.intent.query or not fallen:
            continue
        core = f"{released.topic.id}_{number}"
        for suffix, judged in (("og", first), ("changed", second)):
            yield from _mteb_query(f"{core}-{suffix}", judged, folder, split)
        yield OutputRow(f"{folder}qrel_diff/qrel_diff.parquet", {"query-id": core, "corpus-ids": fallen})


def _mteb_query(name: str, judged: JudgedIntent, folder: str, split: str) -> Iterator[OutputRow]:
    yield OutputRow(f"{folder}queries/{split}.parquet", {"_id": name, "text": judged.intent.query})
    instruction = {"query-id": name, "instruction": judged.intent.instruction}
    yield OutputRow(f"{folder}instruction/{split}.parquet", instruction)
    for passage in (*judged.positives, *judged.negatives):
        document = {"_id": passage.id, "title": passage.title, "text": passage.text}
        yield OutputRow(f"{folder}corpus/{split}.parquet", document, passage.id)
        score = int(passage in judged.positives)
        yield OutputRow(f"{folder}qrels/{split}.parquet", _judgment(name, passage.id, score))


def _judgment(query: str, document: str, score: int) -> dict[str, str | int]:
    return {"query-id": query, "corpus-id": document, "score": score}


MTEB_TASK = Template(Path(__file__).with_name("mteb_task.txt").read_text(encoding="utf-8"))
BEIR = ReleaseFormat(
    "beir",
    _beir_rows,
    "from beir.datasets.data_loader import GenericDataLoader\n\n"
    'corpus, queries, qrels = GenericDataLoader("{folder}").load(split="{benchmark_split}")',
    {"qrels": columns(**{"query-id": TEXT, "corpus-id": TEXT, "score": pa.int64()})},
)
MTEB = ReleaseFormat(
    "mteb",
    _mteb_rows,
    f"import mteb\nfrom {TASK_MODULE.removesuffix('.py')} import InstructedRetrieval  # with {{folder}} on the path\n\n"
    "mteb.evaluate(model, tasks=[InstructedRetrieval()])",
    {
        "corpus": columns(_id=TEXT, title=TEXT, text=TEXT),
        "queries": columns(_id=TEXT, text=TEXT),
        "instruction": columns(**{"query-id": TEXT, "instruction": TEXT}),
        "qrels": columns(**{"query-id": TEXT, "corpus-id": TEXT, "score": pa.int64()}),
        "qrel_diff": columns(**{"query-id": TEXT, "corpus-ids": pa.list_(TEXT)}),
    },
)
