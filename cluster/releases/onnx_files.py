"""A published model as ONNX files that are checked against it, for `foil export` and `foil train --export onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from foil.cluster.extras import need
from foil.cluster.terminal import say, show

if TYPE_CHECKING:
    from foil.trainer.export.exported_file import ExportedFile

LEAST_COSINE = 0.98


def need_onnx() -> None:
    """Raises UsageError where a library of an export is missing."""
    need("sentence_transformers", extra="train")
    for module in ("onnx", "onnxruntime", "onnxscript"):
        need(module, extra="onnx")


def show_export(model: Path, *, int8: bool = True, least_cosine: float = LEAST_COSINE) -> list[ExportedFile]:
    """Exports a model, and shows what was compared."""
    from foil.trainer.export.onnx_encoder import has_pair_head
    from foil.trainer.export.onnx_export import export_onnx

    files = export_onnx(model, int8=int8, least_cosine=least_cosine)
    rows = [
        (each.name, f"{each.bytes / 1e6:.1f}", f"{each.max_difference:.1e}", f"{each.mean_cosine:.4f}",
         f"{each.least_cosine:.4f}") for each in files
    ]  # fmt: skip
    show(["file", "MB", "largest difference", "mean cosine", "least cosine"], rows)
    system = f"rerank:onnx:{model}" if has_pair_head(model) else f"onnx:{model}"
    say(f"foil evaluate {system} --on BENCHMARK measures it against other systems")
    return files
