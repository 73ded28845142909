"""Separate encoders for queries and documents in one model: sentence-transformers' Router with two routes.

    join_encoders(query, document)   one SentenceTransformer: encode_query and encode_document call each
    split_encoders(model)            the two encoders again, on the same weights, each with its own tokenizer

The joined model has no default route: a plain `encode` would silently use one encoder, so it is refused.
"""

from typing import Any

from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router

from foil.engine.errors import UsageError
from foil.trainer.model.late_interaction import TextModel

ROUTES = ("query", "document")


def join_encoders(query: TextModel, document: TextModel) -> SentenceTransformer:
    """The model of both, on their weights; UsageError where their vectors have different lengths, or are tokens'."""
    if isinstance(query, MultiVectorEncoder) or isinstance(document, MultiVectorEncoder):
        raise UsageError("a model with a vector for each token has one encoder; set model.encoders: shared")
    dimensions = [model.get_embedding_dimension() for model in (query, document)]
    if dimensions[0] != dimensions[1]:
        raise UsageError(
            f"the query encoder has vectors of {dimensions[0]} dimensions and the document encoder of {dimensions[1]}; "
            "choose two of equal length"
        )
    routes: dict[str, list[Any]] = {"query": [*query.children()], "document": [*document.children()]}
    router = Router(routes, default_route=None, allow_empty_key=False)
    return SentenceTransformer(modules=[router], device=str(query.device))


def split_encoders(model: TextModel) -> tuple[TextModel, TextModel]:
    """The query and the document encoder, on the model's own weights; twice the model itself if it has only one."""
    first, *rest = model.children()
    if not isinstance(first, Router):
        return model, model
    if set(first.sub_modules) != set(ROUTES):
        raise UsageError(f"the model has the routes {', '.join(first.sub_modules)}; only query and document are known")
    query, document = (
        SentenceTransformer(modules=[*first.sub_modules[route].children(), *rest], device=str(model.device))
        for route in ROUTES
    )
    return query, document
