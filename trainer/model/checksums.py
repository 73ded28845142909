"""The sha256 of every file of a checkpoint or a model, so that damage is seen before anything is used.

    save_weights, save_state -> write_checksums -> checksums.json -> check_folder -> load
    publish                  -> digests_of, sealed -> foil.json   -> check_model  -> load

Price: one more read of the files, in a stream.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foil.engine.atomic_files import read_json, write_json
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.text_templates import TextTemplate

CHECKSUMS = "checksums.json"
FACTS = "foil.json"
CARD = "README.md"
EXPORTS = "onnx/"
_SEAL = "sha256"


def digest_of(path: Path) -> str:
    """The sha256 of a file, read in a stream."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests_of(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder and its subfolders, by path from the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digest_of(path) for path in files}


def folder_digest(folder: Path) -> str:
    """The sha256 over the names and contents of a model's files, but its card's and exports': these may change."""
    fixed = [[name, own] for name, own in digests_of(folder).items() if name != CARD and not name.startswith(EXPORTS)]
    return sha256_hex(canonical_json(fixed))


def trained_template(folder: Path) -> TextTemplate | None:
    """The template in the model's foil.json; a model that Foil did not train has none."""
    return TextTemplate(**check_model(folder)["template"]) if (folder / FACTS).is_file() else None


def ranks_pairs(facts: Mapping[str, Any]) -> bool:
    """Whether the model is a reranker, by its foil.json."""
    return bool(facts.get("settings", {}).get("reranker"))


def write_checksums(folder: Path) -> None:
    """Writes checksums.json over all files of a draft that has none yet."""
    write_json(folder / CHECKSUMS, digests_of(folder))


def check_folder(folder: Path) -> None:
    """Checks a folder by its checksums.json. Raises CorruptDataError if a file is gone, differs or is named nowhere."""
    stated = read_json(folder / CHECKSUMS)
    damage = _find_damage(folder, stated)
    unnamed = {path.name for path in folder.iterdir()} - {CHECKSUMS, *stated} if not damage else set()
    if damage or unnamed:
        raise CorruptDataError(damage or f"it has no checksum for {', '.join(sorted(unnamed))}")


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts for foil.json with their own sha256."""
    return {**facts, _SEAL: sha256_hex(canonical_json(facts))}


def check_model(folder: Path) -> dict[str, Any]:
    """The facts of a published model whose files are whole; the card and the drawings are not checked.

    Raises UsageError if there is no model, CorruptDataError if foil.json or a file of the model is damaged.
    """
    facts = read_facts(folder)
    if damage := _find_damage(folder, facts["files"]):
        raise CorruptDataError(f"the model {folder} is damaged: {damage}; {_remedy(folder)}")
    return facts


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts in a published model's foil.json.

    Raises UsageError if there is no model, CorruptDataError if they are damaged.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} holds no model; train one there with `foil train`")
    facts = read_json(folder / FACTS)
    if not isinstance(facts, dict) or not isinstance(facts.get("template"), dict) or "fingerprint" not in facts:
        raise CorruptDataError(f"{folder / FACTS} does not hold the facts of a model; {_remedy(folder)}")
    body = {name: value for name, value in facts.items() if name != _SEAL}
    if facts.get(_SEAL) != _seal_of(body):
        changed = "has changed since it was published" if _SEAL in facts else "holds no digest of itself"
        raise CorruptDataError(f"{folder / FACTS} {changed}; {_remedy(folder)}")
    return facts


def _seal_of(facts: Mapping[str, Any]) -> str:
    try:
        return sha256_hex(canonical_json(facts))
    except ValueError:  # NaN, which Foil never writes
        return ""


def _find_damage(folder: Path, stated: Any) -> str:
    """Words on the first file that is not as stated; empty where all are."""
    if not isinstance(stated, dict):
        return "its checksums do not read"
    for name, digest in stated.items():
        try:
            actual = digest_of(folder / name)
        except (OSError, ValueError) as error:
            return f"{name} does not read ({error})"
        if actual != digest:
            return f"{name} has changed since it was written"
    return ""


def _remedy(folder: Path) -> str:
    return f"remove {folder} and train again, or restore it from a copy"
