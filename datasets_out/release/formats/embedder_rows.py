"""Rows {query, pos, neg} as FlagEmbedding and GritLM read them; each keeps the instruction apart in its own way.

FlagEmbedding takes `prompt` in place of its `query_instruction_for_retrieval`, if that option is set (set it to ""),
and joins it by `query_instruction_format`. GritLM takes every text as [instruction, text] and leaves the instruction
out of the embedding. An intent without a relevant or without another passage gives no row: both draw from the lists.
"""

from collections.abc import Iterator

from foil.datasets_out.release.formats.release_format import Layout, ReleaseFormat
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


FLAG_EMBEDDING = ReleaseFormat(
    "flagembedding",
    _flag_rows,
    "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {folder}/{split}.jsonl "
    "--query_instruction_for_retrieval '' --query_instruction_format '{{}} {{}}' ...",
)
GRITLM = ReleaseFormat(
    "gritlm", _grit_rows, "torchrun -m training.run --mode embedding --train_data {folder}/{split}.jsonl ..."
)
