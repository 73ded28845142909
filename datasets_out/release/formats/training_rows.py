"""Rows as trainers of embedders read them: FlagEmbedding, GritLM, sentence-transformers and Tevatron.

FlagEmbedding and GritLM read {query, pos, neg}, each with the instruction apart in its own way. FlagEmbedding takes
`prompt` in place of its `query_instruction_for_retrieval`, if that option is set (set it to ""), and joins it by
`query_instruction_format`. GritLM takes every text as [instruction, text] and leaves the instruction out of the
embedding. An intent without a relevant or without another passage gives no row: both draw from the lists.

    triplets       anchor, positive, negative           one for each relevant with each other passage of an intent
    n-tuples-K     anchor, positive, negative_1 ... K   one for each relevant passage, with all K others
    pairs          query, passage, label                1 relevant, 0 not

sentence-transformers takes every column but the label for an input, texts as the model reads them, so there are no ids.
n-tuples are apart by their length: its trainer takes several data sets at once.

Tevatron, as its documentation and reader have it, and with Promptriever's fields:

    SPLIT.jsonl               query_id, query, positive_passages, negative_passages of {docid, title, text} (1, 1.5)
                              + only_query, only_instruction, has_instruction, new_negatives (Promptriever)
    v2/queries/SPLIT.jsonl    query_id, query_text, positive_document_ids, negative_document_ids (version 2)
    v2/corpus/SPLIT.jsonl     docid, text

It joins title and text by a blank itself in its first form; the corpus of the second has one text. Promptriever's
`new_negatives` are the passages that answer the query and break the instruction.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from foil.datasets_out.release.formats.release_format import TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.released_topic import JudgedIntent, ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow
from foil.engine.topic import Passage


def _both_sided(released: ReleasedTopic) -> Iterator[JudgedIntent]:
    return (judged for judged in judged_intents(released.topic) if judged.positives and judged.negatives)


def _flag_rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    for judged in _both_sided(released):
        values = {
            "query": judged.intent.query,
            "pos": [*map(layout.passage, judged.positives)],
            "neg": [*map(layout.passage, judged.negatives)],
            "prompt": judged.intent.instruction,
            "type": "normal",
        }
        yield OutputRow(f"{released.split}.jsonl", values)


def _grit_rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    for judged in _both_sided(released):
        values = {
            "query": [judged.intent.instruction, judged.intent.query],
            "pos": [["", layout.passage(passage)] for passage in judged.positives],
            "neg": [["", layout.passage(passage)] for passage in judged.negatives],
        }
        yield OutputRow(f"{released.split}.jsonl", values)


def _column_rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    file = f"{released.split}.parquet"
    for judged in judged_intents(released.topic):
        anchor = layout.query(judged.intent)
        positives, negatives = ([*map(layout.passage, texts)] for texts in (judged.positives, judged.negatives))
        for positive in positives:
            for negative in negatives:
                values = {"anchor": anchor, "positive": positive, "negative": negative}
                yield OutputRow(f"triplets/{file}", values)
            if negatives:
                numbered = {f"negative_{number}": text for number, text in enumerate(negatives, 1)}
                values = {"anchor": anchor, "positive": positive, **numbered}
                yield OutputRow(f"n-tuples-{len(negatives)}/{file}", values)
        for label, passages in ((1, positives), (0, negatives)):
            for passage in passages:
                yield OutputRow(f"pairs/{file}", {"query": anchor, "passage": passage, "label": label})


FLAG_EMBEDDING = ReleaseFormat(
    "flagembedding",
    _flag_rows,
    "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {folder}/{split}.jsonl "
    "--query_instruction_for_retrieval '' --query_instruction_format '{{}} {{}}' ...",
)
GRITLM = ReleaseFormat(
    "gritlm", _grit_rows, "torchrun -m training.run --mode embedding --train_data {folder}/{split}.jsonl ..."
)
SENTENCE_TRANSFORMERS = ReleaseFormat(
    "sentence-transformers",
    _column_rows,
    'from datasets import load_dataset\n\ntriplets = load_dataset("{folder}", split="{split}")\n'
    "SentenceTransformerTrainer(model=model, train_dataset=triplets, loss=MultipleNegativesRankingLoss(model)).train()",
    {
        "triplets": columns(anchor=TEXT, positive=TEXT, negative=TEXT),
        "pairs": columns(query=TEXT, passage=TEXT, label=pa.int64()),
    },
    "sentence-similarity",
)


def _rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    for judged in judged_intents(released.topic):
        if not (judged.positives and judged.negatives):
            continue
        yield OutputRow(f"{released.split}.jsonl", _first_form(judged, layout))
        values = {
            "query_id": judged.intent.id,
            "query_text": layout.query(judged.intent),
            "positive_document_ids": [passage.id for passage in judged.positives],
            "negative_document_ids": [passage.id for passage in judged.negatives],
        }
        yield OutputRow(f"v2/queries/{released.split}.jsonl", values)
        for passage in (*judged.positives, *judged.negatives):
            document = {"docid": passage.id, "text": layout.passage(passage)}
            yield OutputRow(f"v2/corpus/{released.split}.jsonl", document, passage.id)


def _first_form(judged: JudgedIntent, layout: Layout) -> dict[str, object]:
    intent = judged.intent
    foils = [passage for passage in judged.negatives if passage.role == "instruction_negative"]
    return {
        "query_id": intent.id,
        "query": layout.query(intent),
        "positive_passages": _passages(judged.positives),
        "negative_passages": _passages(judged.negatives),
        "only_query": intent.query,
        "only_instruction": intent.instruction,
        "has_instruction": bool(intent.instruction),
        "new_negatives": _passages(foils if intent.instruction else ()),
    }


def _passages(passages: Iterable[Passage]) -> list[dict[str, str]]:
    return [{"docid": passage.id, "title": passage.title, "text": passage.text} for passage in passages]


TEVATRON = ReleaseFormat(
    "tevatron",
    _rows,
    "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {folder}/{split}.jsonl  # 1, 1.5\n"
    "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {folder}/v2/queries/{split}.jsonl "
    "--corpus_name json --corpus_path {folder}/v2/corpus/{split}.jsonl ...  # 2",
)
