"""What is known of a file that was exported, in export.json and in the model's card."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foil.engine.atomic_files import put_text, read_json
from foil.engine.errors import CorruptDataError
from foil.trainer.model.checksums import CARD, digest_of

FOLDER, FLOAT32, INT8 = "onnx", "model.onnx", "model_qint8.onnx"
FACTS_OF_EXPORT = "export.json"
SECTION = re.compile(r"\n## ONNX\n.*?(?=\n## |\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file, and how its vectors of our own texts lie to those of the model.

    `max_difference` is of the numbers of unit vectors; cosines are of vectors. A reranker's scores are one vector.
    """

    name: str
    bytes: int
    sha256: str
    max_difference: float
    mean_cosine: float
    least_cosine: float


def put_section(model: Path, files: Sequence[ExportedFile]) -> None:
    """Puts a section on these files into the card of a model, in place of an earlier one."""
    rows = "\n".join(
        f"| `onnx/{each.name}` | {each.bytes / 1e6:.1f} MB | {each.max_difference:.1e} | {each.mean_cosine:.4f} | "
        f"{each.least_cosine:.4f} |"
        for each in files
    )
    section = (
        "\n## ONNX\n\nCompared in onnxruntime with this model, on texts of every length up to the cut:\n\n"
        "| file | size | largest difference of a number | mean cosine | least cosine |\n|---|---|---|---|---|\n"
        f"{rows}\n"
    )
    card = SECTION.sub("", (model / CARD).read_text(encoding="utf-8")).rstrip("\n")
    put_text(model / CARD, f"{card}\n{section}")


def facts_of(files: Sequence[ExportedFile]) -> dict[str, object]:
    """The content of export.json."""
    return {"files": [asdict(each) for each in files]}


def onnx_file(name: str) -> Path:
    """The file of `MODEL`, its float32 one, or of `MODEL/onnx/FILE.onnx`."""
    path = Path(name)
    return path if path.suffix == ".onnx" else path / FOLDER / FLOAT32


def check_exported(file: Path) -> str:
    """The sha256 of an .onnx file; CorruptDataError where its export.json names another."""
    digest, facts = digest_of(file), file.parent / FACTS_OF_EXPORT
    if facts.is_file():
        stated = {each["name"]: each["sha256"] for each in read_json(facts)["files"]}
        if stated.get(file.name, digest) != digest:
            raise CorruptDataError(f"{file} has changed since it was written; run `foil export` again")
    return digest
