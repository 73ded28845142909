"""Late interaction: a text is a vector for each of its tokens, and two texts are compared token by token.

    transformer -> projection -> unit token vectors, [texts, T, D], with zeros where a text has fewer tokens
    similarity of a query and a passage = mean over the query's tokens of the largest cosine to a passage's token

The model is a MultiVectorEncoder of sentence-transformers, whose MeanMaxSim this is. It is a mean and no sum, since
block I compares queries of several lengths: a sum would prefer the longest. The new projection begins with orthogonal
directions, which keep most of the base's angles. Reference: Khattab and Zaharia, ColBERT, arXiv 2004.12832.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.util.file_io import load_file_path
from sentence_transformers.util.similarity import maxsim
from torch import Tensor, nn
from torch.nn.functional import normalize

from foil.engine.atomic_files import read_json
from foil.engine.errors import UsageError

TOKENS = "token_embeddings"
ELEMENTS = 16_000_000
"""Numbers that a comparison holds at a time: 64 MB."""
Floats = NDArray[np.float32]
TextModel: TypeAlias = SentenceTransformer | MultiVectorEncoder


def is_late(name: str) -> bool:
    """Whether a saved model, in a directory or of that hub name, has a vector for each token."""
    config = load_file_path(name, "config_sentence_transformers.json", local_files_only=Path(name).is_dir())
    return bool(config) and read_json(Path(str(config))).get("model_type") == MultiVectorEncoder.model_type


def with_token_vectors(model: TextModel, dimensions: int) -> MultiVectorEncoder:
    """The transformer of a model with a projection of its tokens, drawn alike every time; a model that has one stays.

    Raises UsageError where that one has other dimensions.
    """
    if isinstance(model, MultiVectorEncoder):
        if (own := model.get_embedding_dimension()) != dimensions:
            raise UsageError(f"late_interaction.dimensions is {dimensions}, and the base has {own}; set them alike")
        return model
    transformer = model[0]
    projection = nn.init.orthogonal_(
        torch.empty(dimensions, transformer.get_embedding_dimension()), generator=torch.Generator().manual_seed(0)
    )
    modules = [
        transformer,
        Dense(*reversed(projection.shape), bias=False, activation_function=nn.Identity(), init_weight=projection,
              module_input_name=TOKENS),
        MultiVectorMask(),
        Normalize(module_input_name=TOKENS),
    ]  # fmt: skip
    return MultiVectorEncoder(modules=modules, device="cpu", similarity_fn_name="meanmaxsim")


def check_plain(name: str, model: MultiVectorEncoder) -> MultiVectorEncoder:
    """The model; UsageError where it adds tokens to queries or leaves some of a passage out, which is not done here."""
    transformer = model[0]
    masks = [module for module in model if isinstance(module, MultiVectorMask)]
    left_out = any(mask.skiplist_words or mask.keep_only_token_ids for mask in masks)
    if not isinstance(transformer, Transformer) or transformer.query_expansion or left_out or not masks:
        raise UsageError(
            f"{name} expands its queries, leaves tokens out or has several encoders; take a MultiVectorEncoder of one "
            "transformer that compares every token"
        )
    return model


def token_vectors(features: dict[str, Tensor]) -> Tensor:
    """The unit vectors of all tokens in float32, zero for padding, [n, T, D]."""
    return normalize(features[TOKENS].float(), dim=-1) * features["attention_mask"].bool().unsqueeze(-1)


def stack(vectors: Sequence[Tensor]) -> Tensor:
    """Tables of vectors below one another; token vectors are filled up to the longest text."""
    if vectors[0].ndim == 2:
        return torch.cat(list(vectors))
    longest = max(each.shape[1] for each in vectors)
    return torch.cat([nn.functional.pad(each, (0, 0, 0, longest - each.shape[1])) for each in vectors])


def mean_max_sim(queries: Tensor, passages: Tensor) -> Tensor:
    """[Q, T, D] x [P, S, D] token vectors -> [Q, P], in float32, outside autocast."""
    with torch.autocast(queries.device.type, enabled=False):
        scores: Tensor = maxsim(queries, passages, chunk_elements=ELEMENTS, length_normalize=True)
    return scores


def similarities(queries: Floats, passages: Floats) -> Floats:
    """Every query with every passage, [Q, P]: cosines of unit vectors, or MeanMaxSim of token vectors."""
    if queries.ndim == 2:
        return np.asarray(queries @ passages.T)
    scores: Floats = mean_max_sim(*(torch.from_numpy(np.array(each)) for each in (queries, passages))).numpy()
    return scores


class TextEncoder(Protocol):
    """What gives a text one vector, or one for each token."""

    is_late: bool


def need_one_vector(encoder: TextEncoder, name: str | Path, use: str) -> None:
    """UsageError for a model with a vector for each token, where `use` takes one a text."""
    if encoder.is_late:
        raise UsageError(f"{name} has a vector for each token, and {use} takes one a text; take another embedder")
