"""A cross-encoder over the best documents of a first stage, or over given candidates: sentence-transformers' or ONNX.

A reranker that Foil trained gets the template that it learnt.

Scores are the raw logits: behind a sigmoid the best ones would be equal in single precision. Price: one forward pass
a query and document; nothing is cached.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder
from torch import Tensor

from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.evaluate.systems.embedder import model_folder, template_of
from foil.trainer.evaluate.systems.system import ONNX, Progress, System, SystemSettings, documents_to_rerank, quiet
from foil.trainer.export.exported_file import check_exported, onnx_file
from foil.trainer.export.onnx_encoder import OnnxScorer, load_exportable_scorer
from foil.trainer.model.checksums import folder_digest
from foil.trainer.model.fitted_texts import of_cross_encoder
from foil.trainer.model.loading import missing_weights
from foil.trainer.model.pair_scorer import TextPair


class Reranker:
    """Orders the first `rerank_depth` documents of the first stage; the others are not ranked."""

    def __init__(self, model: str, first: System, settings: SystemSettings, on_progress: Progress = quiet) -> None:
        self.name = f"rerank:{model}"
        self.first, self._settings, self._on_progress = first, settings, on_progress
        file = onnx_file(model.removeprefix(ONNX)) if model.startswith(ONNX) else None
        folder = file.parent.parent if file else Path(model)
        self._template = template_of(folder, settings, "query_instruction")
        if file:
            self._weights = check_exported(file)
            scorer = OnnxScorer(load_exportable_scorer(folder, self._template, settings.encode), file)
            self._predict, self._texts = scorer.score, scorer.texts
        else:
            cross_encoder = load_cross_encoder(model, settings.encode.max_tokens)
            self._weights = folder_digest(model_folder(model))
            self._predict = partial(_predict, cross_encoder, settings.batch)
            self._texts = of_cross_encoder(self._template, cross_encoder.tokenizer, settings.encode.max_tokens)

    def facts(self) -> Mapping[str, str | float]:
        """Its own weights, and the first stage."""
        return {"system": self.name, "weights": self._weights, "digest": self._weights, "first": self.first.name,
                "template": self._template.name, "max_tokens": self._settings.encode.max_tokens,
                "rerank_depth": self._settings.rerank_depth}  # fmt: skip

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """The documents of the first stage, or all candidates, by the model's scores."""
        candidates = documents_to_rerank(benchmark, self.first, min(k, self._settings.rerank_depth))
        run = {}
        for number, query in enumerate(benchmark.queries, start=1):
            documents, text = candidates[query.id], self._texts.format_pairs([(query.instruction, query.query)])[0]
            passages = self._texts.format_passages([benchmark.documents[document] for document in documents])
            run[query.id] = dict(zip(documents, self._scores(text, passages), strict=True))
            self._on_progress(f"{self.name}: queries", number, len(benchmark.queries))
        return run

    def _scores(self, text: str, passages: list[str]) -> list[float]:
        pairs = [(text, passage) for passage in passages]
        return [float(score) for score in self._predict(pairs)] if pairs else []


def _predict(model: CrossEncoder, batch: int, pairs: Sequence[TextPair]) -> Tensor:
    scores: Tensor = model.predict(
        list(pairs),
        batch_size=batch,
        show_progress_bar=False,
        activation_fn=torch.nn.Identity(),
        convert_to_tensor=True,
    )
    return scores


def load_cross_encoder(name: str, max_tokens: int) -> CrossEncoder:
    """The cross-encoder in a directory or of a hub name. Raises UsageError where there is none with one score."""
    try:
        model: CrossEncoder = CrossEncoder(str(Path(name)) if Path(name).is_dir() else name, max_length=max_tokens)
    except Exception as error:  # the libraries raise errors of any kind
        raise UsageError(
            f"{name} does not load as a cross-encoder ({error}); give a directory or a hub name"
        ) from error
    if model.num_labels != 1:
        raise UsageError(f"{name} gives {model.num_labels} scores a pair; a reranker gives one")
    if missing := missing_weights(model):
        raise UsageError(
            f"{name} is no reranker: it lacks {', '.join(missing[:3])}; give an embedder without `rerank:`"
        )
    return model
