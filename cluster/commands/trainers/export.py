"""`foil export`: a published model as ONNX files that are checked against it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands.arguments import JsonOption
from cluster.terminal import print_json, say, show

if TYPE_CHECKING:
    from trainer.export.exported_file import ExportedFile

LEAST_COSINE = 0.98


def export(
    model: Annotated[Path, typer.Argument(help="The directory of an embedder, such as OUT/model.")],
    int8: Annotated[bool, typer.Option("--int8/--no-int8", help="Write a file of 8-bit weights too.")] = True,
    least_cosine: Annotated[
        float, typer.Option(min=-1, max=1, help="What the mean cosine of int8 vectors may not be below.")
    ] = LEAST_COSINE,
    as_json: JsonOption = False,
) -> None:
    """Write an embedder as ONNX files: MODEL/onnx/model.onnx (float32) and model_qint8.onnx.

    Their vectors are compared with the model's; the figures go to MODEL/onnx/export.json and into the model's card.
    """
    need_onnx()
    files = show_export(model, int8=int8, least_cosine=least_cosine)
    if as_json:
        print_json([asdict(each) for each in files])


def need_onnx() -> None:
    """Raises UsageError where a library of an export is missing."""
    from cluster.extras import need

    need("sentence_transformers", extra="train")
    for module in ("onnx", "onnxruntime", "onnxscript"):
        need(module, extra="onnx")


def show_export(model: Path, *, int8: bool = True, least_cosine: float = LEAST_COSINE) -> list[ExportedFile]:
    """Exports a model, and shows what was compared."""
    from trainer.export.onnx_export import export_onnx

    files = export_onnx(model, int8=int8, least_cosine=least_cosine)
    rows = [
        (each.name, f"{each.bytes / 1e6:.1f}", f"{each.max_difference:.1e}", f"{each.mean_cosine:.4f}",
         f"{each.least_cosine:.4f}") for each in files
    ]  # fmt: skip
    show(["file", "MB", "largest difference", "mean cosine", "least cosine"], rows)
    say(f"foil evaluate onnx:{model} --on BENCHMARK measures it beside other systems")
    return files
