"""A published model as ONNX files, in the layout that sentence-transformers reads, each checked before it is kept.

    MODEL -> torch.onnx.export -> onnx/model.onnx (float32) -> dynamic quantisation -> onnx/model_qint8.onnx
          -> vectors of our own texts, in torch and in onnxruntime -> onnx/export.json, README.md

The number of texts and their length are free. An embedder's graph ends with the states of the tokens, since pooling is
a module of its own; a reranker's with the score of each pair. What is compared of a reranker is one vector: its scores
of all pairs of our texts less their mean, at length 1, so that a cosine is the correlation of scores. int8: weights by
channel (without that MiniLM's cosines fall to 0.955), activations by batch. Price: a few seconds for each file, and
the disk that they take.
"""

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from foil.engine.atomic_files import write_json
from foil.engine.errors import UsageError
from foil.trainer.export.exported_file import (
    FACTS_OF_EXPORT,
    FLOAT32,
    FOLDER,
    INT8,
    ExportedFile,
    facts_of,
    put_section,
)
from foil.trainer.export.onnx_encoder import (
    Floats,
    OnnxEncoder,
    OnnxScorer,
    has_pair_head,
    load_exportable,
    load_exportable_scorer,
)
from foil.trainer.model.attention import SDPA, SDPA_FLOAT32, attention_of
from foil.trainer.model.checkpoint import publish
from foil.trainer.model.checksums import FACTS, digest_of, trained_template
from foil.trainer.model.encoder import Encoder
from foil.trainer.model.loading import backbone_of
from foil.trainer.model.pair_scorer import PairScorer, transformer_of
from foil.trainer.settings import EncodeSettings
from foil.trainer.text_templates import OWN, template_named

MOST_DIFFERENCE = 1e-4
"""What a number of a float32 vector may be off."""
CHECKED_TOKENS = 512


def export_onnx(folder: Path, *, int8: bool = True, least_cosine: float = 0.98) -> list[ExportedFile]:
    """Writes `folder/onnx` anew and names it in the model's card.

    Raises UsageError for a model that cannot be exported or whose files say something else than it does: float32 by
    more than MOST_DIFFERENCE, int8 by a mean cosine below `least_cosine`. Nothing is kept then.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no model's directory; give one, such as out/demo/model")
    model = _load(folder)
    expected = _vectors(model)
    files: list[ExportedFile] = []

    def write(draft: Path) -> None:
        _export(model, draft / FLOAT32)
        files.append(_check_float32(_compare(model, draft / FLOAT32, expected)))
        if int8:
            _quantise(draft / FLOAT32, draft / INT8)
            files.append(_check_int8(_compare(model, draft / INT8, expected), least_cosine))
        write_json(draft / FACTS_OF_EXPORT, facts_of(files))

    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    publish(folder / FOLDER, write)
    if (folder / FACTS).is_file():
        put_section(folder, files)
    return files


def _load(folder: Path) -> Encoder | PairScorer:
    """The embedder or reranker in a folder, with the template that it learnt."""
    settings, template = EncodeSettings(max_tokens=CHECKED_TOKENS), trained_template(folder)
    if has_pair_head(folder):
        return load_exportable_scorer(folder, template or template_named("query_instruction"), settings)
    return load_exportable(folder, template or template_named(OWN), settings)


class _Graph(nn.Module):
    """One output of a transformer, from inputs by position."""

    def __init__(self, transformer: nn.Module, inputs: list[str], output: str) -> None:
        super().__init__()
        self._transformer, self._inputs, self._output = transformer, inputs, output

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self._transformer(**dict(zip(self._inputs, inputs, strict=True)))[self._output]
        return output


def _export(model: Encoder | PairScorer, path: Path) -> None:
    is_reranker = isinstance(model, PairScorer)
    transformer = transformer_of(model.model) if isinstance(model, PairScorer) else backbone_of(model.model)
    output = "logits" if is_reranker else "last_hidden_state"
    if attention_of(transformer) == SDPA_FLOAT32:
        transformer.set_attn_implementation(SDPA)
    example = ["a text", "a text of more words"]
    features = model.model.tokenizer(example, example if is_reranker else None, padding=True, return_tensors="pt")
    names = list(features)
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    try:
        with _without_notes(), torch.no_grad():
            torch.onnx.export(
                _Graph(transformer, names, output).eval(), tuple(features[name] for name in names), str(path),
                dynamo=True, input_names=names, output_names=[output], dynamic_shapes={"inputs": (free,) * len(names)},
                external_data=False, verbose=False,
            )  # fmt: skip
    except ModuleNotFoundError as error:
        raise UsageError(f"an export needs {error.name}; pip install 'foil-ir[onnx]'") from error
    except Exception as error:  # the exporter raises errors of many kinds
        raise UsageError(
            f"{type(transformer).__name__} does not export to ONNX ({error!r}); take another base"
        ) from error


def _quantise(source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _without_notes():
        quantize_dynamic(str(source), str(target), per_channel=True, weight_type=QuantType.QInt8)


@contextmanager
def _without_notes() -> Iterator[None]:
    """The exporter warns of what does not concern a user, through `logging` and `warnings`."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _vectors(model: Encoder | OnnxEncoder | PairScorer | OnnxScorer) -> Floats:
    """[texts, D] of an embedder, [1, pairs] of a reranker."""
    if isinstance(model, PairScorer | OnnxScorer):
        queries = model.texts.format_pairs(check_pairs())
        passages = model.texts.format_passages([("", text) for text in check_texts()])
        scores = model.score([*product(queries, passages)])
        return np.asarray(functional.normalize((scores - scores.mean())[None], dim=1))
    with torch.inference_mode():
        return np.asarray(model.encode(check_texts(), check_pairs()))


def _compare(model: Encoder | PairScorer, file: Path, expected: Floats) -> ExportedFile:
    vectors = _vectors(OnnxScorer(model, file) if isinstance(model, PairScorer) else OnnxEncoder(model, file))
    cosines = (vectors * expected).sum(1)
    return ExportedFile(
        file.name, file.stat().st_size, digest_of(file), float(np.abs(vectors - expected).max()),
        float(cosines.mean()), float(cosines.min()),
    )  # fmt: skip


def _check_float32(exported: ExportedFile) -> ExportedFile:
    if not exported.max_difference <= MOST_DIFFERENCE:
        raise UsageError(
            f"in onnxruntime a number of the vectors is off by {exported.max_difference:.2g}, of at most "
            f"{MOST_DIFFERENCE:g}, so nothing was exported; take another version of torch or onnxruntime"
        )
    return exported


def _check_int8(exported: ExportedFile, least_cosine: float) -> ExportedFile:
    if not exported.mean_cosine >= least_cosine:
        raise UsageError(
            f"the int8 vectors have a mean cosine of {exported.mean_cosine:.4f} to the model's, below "
            f"{least_cosine:g}, so nothing was exported; serve float32 (--no-int8), or allow less (--least-cosine)"
        )
    return exported


SENTENCES = tuple(Path(__file__).with_name("check_sentences.txt").read_text(encoding="utf-8").splitlines())
"""On which an exported model is compared with the one that it was made from: texts of our own, short and long."""


def check_texts() -> list[str]:
    """The sentences, growing texts that are joined from them, an empty one, and one beyond every cut."""
    grown = [" ".join(SENTENCES[: count + 1]) for count in range(1, len(SENTENCES))]
    return ["", *SENTENCES, *grown, " ".join(SENTENCES * 6)]


def check_pairs() -> list[tuple[str, str]]:
    """(instruction, query), with and without an instruction."""
    return [("", SENTENCES[1]), (SENTENCES[3], SENTENCES[6]), (SENTENCES[8], SENTENCES[5]), (SENTENCES[3], "")]
