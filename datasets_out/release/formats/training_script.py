"""`train_embedder.py` of a release: a first training on its triplets with sentence-transformers, without Foil.

It is not called train.py: `datasets` refuses a folder in which a script bears the folder's own name.
"""

from foil.datasets_out.release.formats.release_format import TextForm

SCRIPT = "train_embedder.py"
_TEXT = '''"""Trains an embedder on the triplets of this folder: python train_embedder.py BASE_MODEL

BASE_MODEL is a folder or a name that SentenceTransformer loads. The model goes to the folder `trained`. Needs
sentence-transformers, datasets and accelerate. Batch, epochs and learning rate are a beginning, not a recommendation.
"""

import sys
from pathlib import Path

from datasets import load_dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.training_args import BatchSamplers

# How the model reads a query with its instruction, one without, a passage with its title, and one without.
PAIR, QUERY = {pair!r}, {query!r}
PASSAGE, TEXT = {passage!r}, {text!r}


def cut_query(row, model):
    """The query without its end where it is too long with its instruction: a trainer would cut the end of both."""
    offsets = model.tokenizer(row["query"], add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    frame = PAIR.format(instruction=row["instruction"], query="")
    room = max(1, (model.max_seq_length or 512) - len(model.tokenizer(frame)["input_ids"]) - 1)
    return row["query"] if len(offsets) <= room else row["query"][: offsets[room - 1][1]]


def as_read(row, model):
    """The row as the model reads it."""
    form = PAIR if row["instruction"] else QUERY
    texts = {{"anchor": form.format(instruction=row["instruction"], query=cut_query(row, model))}}
    for name in ("positive", "negative"):
        form = PASSAGE if row[name + "_title"] else TEXT
        texts[name] = form.format(title=row[name + "_title"], text=row[name])
    return texts


def main():
    model = SentenceTransformer(sys.argv[1])
    rows = load_dataset(str(Path(__file__).resolve().parent), split="train")
    if "anchor" not in rows.column_names:
        rows = rows.map(as_read, fn_kwargs={{"model": model}}, remove_columns=rows.column_names)
    arguments = SentenceTransformerTrainingArguments(
        output_dir="trained",
        num_train_epochs=1,
        per_device_train_batch_size=32,
        learning_rate=2e-5,
        # A passage that one instruction wants is a negative under another: they must not meet in a batch.
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
    )
    loss = MultipleNegativesRankingLoss(model)
    SentenceTransformerTrainer(model=model, args=arguments, train_dataset=rows, loss=loss).train()
    model.save_pretrained("trained")


if __name__ == "__main__":
    main()
'''


def training_script(form: TextForm) -> str:
    """The script, with the texts joined by this template."""
    return _TEXT.format(
        pair=form.format_pair("{instruction}", "{query}"),
        query=form.format_pair("", "{query}"),
        passage=form.format_passage("{title}", "{text}"),
        text=form.format_passage("", "{text}"),
    )
