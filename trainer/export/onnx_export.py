"""A published model as ONNX files, in the layout that sentence-transformers reads, each checked before it is kept.

    MODEL -> torch.onnx.export -> onnx/model.onnx (float32) -> dynamic quantisation -> onnx/model_qint8.onnx
          -> vectors of our own texts, in torch and in onnxruntime -> onnx/export.json, README.md

The number of texts and their length are free. The graph ends with the states of the tokens, since pooling is
a module of its own. int8: weights by channel (without that MiniLM's cosines fall to 0.955),
activations by batch. Price: a few seconds for each file, and the disk that they take.
"""

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.atomic_files import write_json
from engine.errors import UsageError
from trainer.export.check_texts import check_pairs, check_texts
from trainer.export.exported_file import FACTS_OF_EXPORT, ExportedFile, facts_of, put_section
from trainer.export.onnx_encoder import Floats, OnnxEncoder, load_exportable
from trainer.model.attention import SDPA, SDPA_FLOAT32, attention_of
from trainer.model.checkpoint import publish
from trainer.model.checksums import FACTS, digest_of, trained_template
from trainer.model.encoder import Encoder
from trainer.model.loading import backbone_of
from trainer.settings import EncodeSettings
from trainer.text_templates import OWN, template_named

FOLDER, FLOAT32, INT8 = "onnx", "model.onnx", "model_qint8.onnx"
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
    template = trained_template(folder) or template_named(OWN)
    encoder = load_exportable(folder, template, EncodeSettings(max_tokens=CHECKED_TOKENS))
    expected = _vectors(encoder)
    files: list[ExportedFile] = []

    def write(draft: Path) -> None:
        _export(encoder, draft / FLOAT32)
        files.append(_check_float32(_compare(encoder, draft / FLOAT32, expected)))
        if int8:
            _quantise(draft / FLOAT32, draft / INT8)
            files.append(_check_int8(_compare(encoder, draft / INT8, expected), least_cosine))
        write_json(draft / FACTS_OF_EXPORT, facts_of(files))

    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    publish(folder / FOLDER, write)
    if (folder / FACTS).is_file():
        put_section(folder, files)
    return files


class _States(nn.Module):
    """The states of a backbone's last layer as the only output, from inputs by position."""

    def __init__(self, backbone: nn.Module, names: list[str]) -> None:
        super().__init__()
        self._backbone, self._names = backbone, names

    def forward(self, *inputs: Tensor) -> Tensor:
        states: Tensor = self._backbone(**dict(zip(self._names, inputs, strict=True))).last_hidden_state
        return states


def _export(encoder: Encoder, path: Path) -> None:
    backbone = backbone_of(encoder.model)
    if attention_of(backbone) == SDPA_FLOAT32:
        backbone.set_attn_implementation(SDPA)
    features = encoder.model.tokenizer(["a text", "a text of more words"], padding=True, return_tensors="pt")
    names = list(features)
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    try:
        with _without_notes(), torch.no_grad():
            torch.onnx.export(
                _States(backbone, names).eval(), tuple(features[name] for name in names), str(path), dynamo=True,
                input_names=names, output_names=["last_hidden_state"], dynamic_shapes={"inputs": (free,) * len(names)},
                external_data=False, verbose=False,
            )  # fmt: skip
    except ModuleNotFoundError as error:
        raise UsageError(f"an export needs {error.name}; pip install 'foil-ir[onnx]'") from error
    except Exception as error:  # the exporter raises errors of many kinds
        raise UsageError(f"{type(backbone).__name__} does not export to ONNX ({error!r}); take another base") from error


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


def _vectors(encoder: Encoder | OnnxEncoder) -> Floats:
    with torch.inference_mode():
        return np.asarray(encoder.encode(check_texts(), check_pairs()))


def _compare(encoder: Encoder, file: Path, expected: Floats) -> ExportedFile:
    vectors = _vectors(OnnxEncoder(encoder, file))
    cosines = (vectors * expected).sum(1)
    return ExportedFile(
        file.name, file.stat().st_size, digest_of(file), float(np.abs(vectors - expected).max()),
        float(cosines.mean()), float(cosines.min()),
    )  # fmt: skip


def _check_float32(found: ExportedFile) -> ExportedFile:
    if not found.max_difference <= MOST_DIFFERENCE:
        raise UsageError(
            f"in onnxruntime a number of the vectors is off by {found.max_difference:.2g}, of at most "
            f"{MOST_DIFFERENCE:g}, so nothing was exported; take another version of torch or onnxruntime"
        )
    return found


def _check_int8(found: ExportedFile, least_cosine: float) -> ExportedFile:
    if not found.mean_cosine >= least_cosine:
        raise UsageError(
            f"the int8 vectors have a mean cosine of {found.mean_cosine:.4f} to the model's, below {least_cosine:g}, "
            "so nothing was exported; serve float32 (--no-int8), or allow less (--least-cosine)"
        )
    return found
