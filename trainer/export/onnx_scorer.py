"""A reranker whose cross-encoder runs in onnxruntime: its tokens, their limit and template are those of the model."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from foil.engine.errors import UsageError
from foil.trainer.export.onnx_encoder import feed_of, open_session
from foil.trainer.model.packing import is_causal, micro_batches
from foil.trainer.model.pair_scorer import PairScorer, TextPair, load_pair_scorer, transformer_of
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings
from foil.trainer.text_templates import TextTemplate


class OnnxScorer:
    """Scores pairs with the cross-encoder in an .onnx file, and all else of `scorer`."""

    def __init__(self, scorer: PairScorer, file: Path) -> None:
        self._scorer, self.texts = scorer, scorer.texts
        self._session = open_session(file)
        self._inputs = [each.name for each in self._session.get_inputs()]

    def score(self, pairs: Sequence[TextPair]) -> Tensor:
        """The scores of pairs, in their order, [n]."""
        rows, scores = self._scorer.tokenise(pairs), torch.zeros(len(pairs))
        for chunk in micro_batches([len(row["input_ids"]) for row in rows], self._scorer.budget):
            features = self._scorer.pad([rows[row] for row in chunk])
            scores[chunk] = torch.from_numpy(self._session.run(None, feed_of(features, self._inputs))[0]).reshape(-1)
        return scores


def load_exportable_scorer(folder: str | Path, template: TextTemplate, settings: EncodeSettings) -> PairScorer:
    """The reranker in a folder, on the CPU in float32, with a head that a graph can hold; UsageError for a decoder."""
    exact = settings.model_copy(update={"precision": "float32"})
    scorer = load_pair_scorer(folder, template, exact, ModelSettings(device="cpu"))
    transformer = transformer_of(scorer.model)
    if is_causal(transformer.base_model):
        raise UsageError(f"{folder} is a decoder; only encoders are exported, such as BERT, MiniLM or ModernBERT")
    for module in transformer.modules():
        if isinstance(module, nn.Linear):
            module.__class__ = nn.Linear  # in float32 the head's own class makes no difference
    return scorer


def has_pair_head(folder: Path) -> bool:
    """Whether the weights in a folder are a cross-encoder's, by config.json."""
    config = folder / "config.json"
    return config.is_file() and "ForSequenceClassification" in config.read_text(encoding="utf-8", errors="replace")
