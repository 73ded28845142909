"""Rows as trainers of embedders read them: FlagEmbedding, GritLM and sentence-transformers.

FlagEmbedding and GritLM read {query, pos, neg}, each with the instruction apart in its own way. FlagEmbedding takes
`prompt` in place of its `query_instruction_for_retrieval`, if that option is set (set it to ""), and joins it by
`query_instruction_format`. GritLM takes every text as [instruction, text] and leaves the instruction out of the
embedding. An intent without a relevant or without another passage gives no row: both draw from the lists.

    triplets       anchor, positive, negative           one for each relevant with each other passage of an intent
    n-tuples-K     anchor, positive, negative_1 ... K   one for each relevant passage, with all K others
    pairs          query, passage, label                1 relevant, 0 not

sentence-transformers takes every column but the label for an input, texts as the model reads them, so there are no ids.
n-tuples are apart by their length: its trainer takes several data sets at once.
"""

from collections.abc import Iterator

import pyarrow as pa

from foil.datasets_out.release.formats.release_format import TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.released_topic import JudgedIntent, ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow


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
