"""The formats of `foil export` by name; to add one, write its rows next to this file and name it here."""

from foil.datasets_out.release.formats.judged_corpora import BEIR, MTEB
from foil.datasets_out.release.formats.run_tables import ATLAS, HUGGING_FACE, JSON_LINES
from foil.datasets_out.release.formats.training_rows import FLAG_EMBEDDING, GRITLM, SENTENCE_TRANSFORMERS, TEVATRON

FORMATS = {
    each.name: each
    for each in (
        HUGGING_FACE, SENTENCE_TRANSFORMERS, TEVATRON, FLAG_EMBEDDING, GRITLM, BEIR, MTEB, JSON_LINES, ATLAS,
    )
}  # fmt: skip
