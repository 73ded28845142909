"""The formats of `foil export` by name; to add one, write its rows next to this file and name it here."""

from foil.datasets_out.release.formats.embedder_rows import FLAG_EMBEDDING, GRITLM, SENTENCE_TRANSFORMERS
from foil.datasets_out.release.formats.hugging_face import HUGGING_FACE
from foil.datasets_out.release.formats.judged_corpora import BEIR, MTEB
from foil.datasets_out.release.formats.tevatron import TEVATRON
from foil.datasets_out.release.formats.views_of_topics import ATLAS, JSON_LINES

FORMATS = {
    each.name: each
    for each in (
        HUGGING_FACE, SENTENCE_TRANSFORMERS, TEVATRON, FLAG_EMBEDDING, GRITLM, BEIR, MTEB, JSON_LINES, ATLAS,
    )
}  # fmt: skip
