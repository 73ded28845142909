"""Rows for sentence-transformers' losses, by their columns alone; texts as the model reads them.

    triplets       anchor, positive, negative           one for each relevant with each other passage of an intent
    n-tuples-K     anchor, positive, negative_1 ... K   one for each relevant passage, with all K others
    pairs          query, passage, label                1 relevant, 0 not

The library takes every column but the label for an input, so there are no ids. n-tuples are apart by their length: its
trainer takes several data sets at once.
"""

from collections.abc import Iterator

import pyarrow as pa

from foil.datasets_out.release.formats.release_format import TEXT, Layout, ReleaseFormat, columns
from foil.datasets_out.release.released_topic import ReleasedTopic, judged_intents
from foil.datasets_out.release.row_files import OutputRow


def _rows(released: ReleasedTopic, layout: Layout) -> Iterator[OutputRow]:
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


SENTENCE_TRANSFORMERS = ReleaseFormat(
    "sentence-transformers",
    _rows,
    'from datasets import load_dataset\n\ntriplets = load_dataset("{folder}", "triplets", split="{split}")\n'
    "SentenceTransformerTrainer(model=model, train_dataset=triplets, loss=MultipleNegativesRankingLoss(model)).train()",
    {
        "triplets": columns(anchor=TEXT, positive=TEXT, negative=TEXT),
        "pairs": columns(query=TEXT, passage=TEXT, label=pa.int64()),
    },
    "sentence-similarity",
)
