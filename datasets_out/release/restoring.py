"""Brings the withheld texts of a release back, where its corpus is at hand.

    release + seeds of the corpus -> every row at its place, its texts checked by sha256 -> a folder with all texts

Promise: where every text is found, every row has the texts and labels that it would have had with
`--allow-nonredistributable`, at its place; formats of texts alone have its bytes. Attributes and evidence that may
quote a corpus do not come back. What is not found stays withheld, and is counted. `foil push` refuses the folder.
"""

import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.datasets_out.release.checksums import check_release, read_checksums, write_checksums
from foil.datasets_out.release.croissant import CROISSANT, croissant
from foil.datasets_out.release.formats.catalog import FORMATS
from foil.datasets_out.release.formats.judged_corpora import TASK_MODULE
from foil.datasets_out.release.formats.training_script import SCRIPT
from foil.datasets_out.release.release import MANIFEST, TEXTS
from foil.datasets_out.release.row_files import WITHHELD, OutputRow, RowFiles, WrittenFile, merged, read_rows_of
from foil.datasets_out.release.withheld_texts import fill, found_texts
from foil.engine.atomic_files import publish_folder, put_text, read_json, write_json
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.topic import Seed

_COPIED = (TASK_MODULE, SCRIPT)


@dataclass(frozen=True, slots=True)
class RestoredRelease:
    """Texts that came back and texts that did not, and the files as they are now."""

    found: int
    missing: int
    files: tuple[WrittenFile, ...]
    digest: str


def read_manifest(folder: Path) -> dict[str, Any]:
    """`release.json` of an unchanged release. Raises UsageError where there is none, CorruptDataError for a change."""
    if problems := check_release(folder):
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise CorruptDataError(f"{folder} is not as it was released: {', '.join(problems[:5])}{more}; get it again")
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    names = {file["name"] for file in manifest["files"]}
    if manifest["format"] not in FORMATS or not names <= read_checksums(folder).keys():
        raise UsageError(f"{folder / MANIFEST} is none that this Foil wrote; use the version that wrote the release")
    return manifest


def restore(folder: Path, seeds: Iterable[Seed], into: Path | None = None) -> RestoredRelease:
    """Writes the restored folder to `into`, or in the place of the release. UsageError where nothing is withheld."""
    manifest = read_manifest(folder)
    if not manifest["withheld_texts"]:
        raise UsageError(f"{folder} has all its texts; there is nothing to restore")
    if into is not None and into.exists():
        raise UsageError(f"{into} exists; give another folder")
    entries = list(read_rows_of(folder / TEXTS))
    texts = found_texts(entries, seeds)
    target = into or folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    written: list[tuple[tuple[WrittenFile, ...], str]] = []
    publish_folder(target, lambda draft: written.append(_write(folder, draft, manifest, entries, texts)))
    if into is None:
        _take_the_place(folder, target)
    return RestoredRelease(len(texts), len(entries) - len(texts), *written[0])


def _write(
    folder: Path, draft: Path, manifest: dict[str, Any], entries: list[Mapping[str, Any]], texts: Mapping[str, str]
) -> tuple[tuple[WrittenFile, ...], str]:
    with RowFiles(draft, FORMATS[manifest["format"]].schemas) as row_files:
        for name in (file["name"] for file in manifest["files"] if file["name"] != TEXTS):
            logical = re.sub(r"-\d{5}\.parquet$", ".parquet", name)
            for row in merged(read_rows_of(folder / name), _aside(folder, name, texts)):
                row_files.add(OutputRow(logical, row))
        for entry in entries:
            if entry["key"] not in texts:
                row_files.add(OutputRow(TEXTS, entry))
    files = tuple(row_files.written())
    _describe(folder, draft, manifest, files, (len(entries), len(texts)))
    return files, write_checksums(draft)


def _aside(folder: Path, name: str, texts: Mapping[str, str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    path = folder / WITHHELD / f"{name}.jsonl"
    if path.exists():
        yield from ((row["row"], fill(row["values"], texts)) for row in read_rows_of(path))


def _describe(
    folder: Path, draft: Path, manifest: dict[str, Any], files: tuple[WrittenFile, ...], counts: tuple[int, int]
) -> None:
    texts, restored = counts
    note = (
        f"\n## Restored\n\n{restored:,} of {texts:,} withheld texts were brought back from the corpus. This folder "
        "holds texts that may not be passed on.\n"
    )
    put_text(draft / "README.md", (folder / "README.md").read_text(encoding="utf-8") + note)
    for name in _COPIED:
        if (folder / name).exists():
            shutil.copyfile(folder / name, draft / name)
    old = read_json(folder / CROISSANT)
    facts = {name: values for name, values in old.items() if name == "license" or name.startswith("rai:")}
    document = croissant(draft, files, facts, name=old["name"], description=old["description"])
    write_json(draft / CROISSANT, document)
    remaining = {"left": texts - restored} if texts > restored else {}
    listed = [{"name": file.name, "rows": file.rows, "withheld": file.withheld} for file in files]
    write_json(draft / MANIFEST, {**manifest, "files": listed, "withheld_texts": remaining, "restored": restored})


def _take_the_place(folder: Path, restored: Path) -> None:
    """The restored folder under the name of the release; the release is removed last."""
    before = folder.with_name(f".{folder.name}.before-{uuid.uuid4().hex}")
    folder.rename(before)
    restored.rename(folder)
    shutil.rmtree(before)
