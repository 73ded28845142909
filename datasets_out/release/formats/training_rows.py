"""Rows as trainers of embedders read them: FlagEmbedding, GritLM, sentence-transformers and Tevatron.

FlagEmbedding and GritLM read {query, pos, neg}, each with the instruction apart in its own way. FlagEmbedding takes
`prompt` in place of its `query_instruction_for_retrieval`, if that option is set (set it to ""), and joins it by
`query_instruction_format`. GritLM takes every text as [instruction, text] and leaves the instruction out of the
embedding. An intent without a relevant or without another passage gives no row: both draw from the lists.

    triplets       anchor, positive, negative           one for each relevant with each other passage of an intent
    n-tuples-K     anchor, positive, negative_1 ... K   one for each relevant passage, with all K others
    pairs          query, passage, label                1 relevant, 0 not

Where a judge gave P(relevant), FlagEmbedding's rows stand again in `scored/`, with its `pos_scores` and `neg_scores`,
and sentence-transformers' in `scored-triplets` and `scored-n-tuples-K`, with the list `scores` of the positive and each
negative, which MarginMSELoss and DistillKLDivLoss take for a label. They are log odds; passages without are left out.

sentence-transformers takes every column but the label for an input, texts as the model reads them, so there are no ids.
n-tuples are apart by their length: its trainer takes several data sets at once.

Tevatron, as its documentation and reader have it, and with Promptriever's fields:

    SPLIT.jsonl               query_id, query, positive_passages, negative_passages of {docid, title, text} (1, 1.5)
                              + only_query, only_instruction, has_instruction, new_negatives (Promptriever)
    scored/SPLIT.jsonl        the same where a judge gave P(relevant), with the `score` of each passage (train_distil)
    v2/queries/SPLIT.jsonl    query_id, query_text, positive_document_ids, negative_document_ids (version 2)
    v2/corpus/SPLIT.jsonl     docid, text

It joins title and text by a blank itself in its first form; the corpus of the second has one text. Promptriever's
`new_negatives` are the passages that answer the query and break the instruction.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from foil.datasets_out.release.formats.release_format import TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.formats.training_script import SCRIPT
from foil.datasets_out.release.released_topic import JudgedIntent, ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow
from foil.engine.topic import Passage


def _both_sided(released: ReleasedTopic) -> Iterator[JudgedIntent]:
    return (judged for judged in judged_intents(released) if judged.positives and judged.negatives)


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
        for scored in judged.scored():
            texts = {"pos": [*map(layout.passage, scored.positives)], "neg": [*map(layout.passage, scored.negatives)]}
            scores = {"pos_scores": scored.scores(scored.positives), "neg_scores": scored.scores(scored.negatives)}
            yield OutputRow(f"scored/{released.split}.jsonl", {**values, **texts, **scores})


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
    for judged in judged_intents(released):
        anchor = layout.query(judged.intent)
        yield from _tuples(judged, layout, file)
        yield from (row for scored in judged.scored() for row in _tuples(scored, layout, file, "scored-"))
        for label, passages in ((1, judged.positives), (0, judged.negatives)):
            for passage in map(layout.passage, passages):
                yield OutputRow(f"pairs/{file}", {"query": anchor, "passage": passage, "label": label})


def _tuples(judged: JudgedIntent, layout: Layout, file: str, prefix: str = "") -> Iterator[OutputRow]:
    """Triplets and n-tuples, with a prefix with the scores of their passages."""

    def scores(*passages: Passage) -> dict[str, list[float]]:
        return {"scores": judged.scores(passages)} if prefix else {}

    negatives = judged.negatives
    numbered = {f"negative_{number}": layout.passage(each) for number, each in enumerate(negatives, 1)}
    for positive in judged.positives:
        head = {"anchor": layout.query(judged.intent), "positive": layout.passage(positive)}
        for negative in negatives:
            values = {**head, "negative": layout.passage(negative), **scores(positive, negative)}
            yield OutputRow(f"{prefix}triplets/{file}", values)
        if negatives:
            values = {**head, **numbered, **scores(positive, *negatives)}
            yield OutputRow(f"{prefix}n-tuples-{len(negatives)}/{file}", values)


FLAG_EMBEDDING = ReleaseFormat(
    "flagembedding",
    _flag_rows,
    "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {folder}/{split}.jsonl "
    "--query_instruction_for_retrieval '' --query_instruction_format '{{}} {{}}' ...",
    scores="`scored/` has the rows with log odds as `pos_scores` and `neg_scores`: `--knowledge_distillation True`.",
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
        "scored-triplets": columns(anchor=TEXT, positive=TEXT, negative=TEXT, scores=pa.list_(pa.float64())),
        "pairs": columns(query=TEXT, passage=TEXT, label=pa.int64()),
    },
    "sentence-similarity",
    "The tables `scored-triplets` and `scored-n-tuples-K` have the list `scores` of the log odds of the positive and "
    f"each negative, for MarginMSELoss and DistillKLDivLoss; `{SCRIPT} BASE_MODEL --scores` trains on the first.",
)


def _rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
    for judged in _both_sided(released):
        yield OutputRow(f"{released.split}.jsonl", _first_form(judged, layout))
        for scored in judged.scored():
            yield OutputRow(f"scored/{released.split}.jsonl", _scored_form(scored, layout))
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


def _scored_form(judged: JudgedIntent, layout: Layout) -> dict[str, object]:
    def with_scores(passages: Sequence[Passage]) -> list[dict[str, object]]:
        scores = judged.scores(passages)
        return [{**each, "score": score} for each, score in zip(_passages(passages), scores, strict=True)]

    lists = {"positive_passages": judged.positives, "negative_passages": judged.negatives}
    return {**_first_form(judged, layout), **{name: with_scores(passages) for name, passages in lists.items()}}


def _passages(passages: Iterable[Passage]) -> list[dict[str, str]]:
    return [{"docid": passage.id, "title": passage.title, "text": passage.text} for passage in passages]


TEVATRON = ReleaseFormat(
    "tevatron",
    _rows,
    "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {folder}/{split}.jsonl  # 1, 1.5\n"
    "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {folder}/v2/queries/{split}.jsonl "
    "--corpus_name json --corpus_path {folder}/v2/corpus/{split}.jsonl ...  # 2",
    scores="`scored/` has the rows of its first form with the log odds of each passage as `score`, for "
    "`tevatron.retriever.driver.train_distil`.",
)
