"""Training rows for Tevatron, as its documentation and reader have them, and with Promptriever's fields.

    SPLIT.jsonl               query_id, query, positive_passages, negative_passages of {docid, title, text} (1, 1.5)
                              + only_query, only_instruction, has_instruction, new_negatives (Promptriever)
    v2/queries/SPLIT.jsonl    query_id, query_text, positive_document_ids, negative_document_ids (version 2)
    v2/corpus/SPLIT.jsonl     docid, text

Tevatron joins title and text by a blank itself in its first form; the corpus of the second has one text. Promptriever's
`new_negatives` are the passages that answer the query and break the instruction. An intent without a relevant or
without another passage gives no row, since its reader draws from both.
"""

from collections.abc import Iterable, Iterator

from foil.datasets_out.release.formats.release_format import Layout, ReleaseFormat
from foil.datasets_out.release.released_topic import JudgedIntent, ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow
from foil.engine.topic import Passage


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
