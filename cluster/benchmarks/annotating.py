"""`foil benchmarks annotate`: a model writes instructions for bare queries, a reader marks them, a benchmark has them.

benchmark -> model -> SHEET.jsonl, a query a row -> the reader sets `keep` -> FOLDER, the kept queries
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from foil.cluster.benchmarks.review import read_one_collection
from foil.cluster.evaluations.benchmarks import DEFAULT_OUT
from foil.cluster.job import settings_from
from foil.cluster.terminal import print_json, say, show
from foil.engine.atomic_files import publish_folder, put_text
from foil.engine.errors import UsageError
from foil.engine.seeds.files.text_files import read_text
from foil.trainer.evaluate.benchmarks.making.annotation import AnnotationSettings, drafts, with_instructions
from foil.trainer.evaluate.benchmarks.making.folder import write_benchmark
from foil.trainer.evaluate.systems.llm_replies import LlmReplies, hosted_settings


def draft_instructions(source: str, model: str, sheet: Path, overrides: Sequence[str], replies: Path | None) -> int:
    """Writes the sheet; gives its rows. Replies are kept, so that a stopped command pays only for what is left."""
    if sheet.exists():
        raise UsageError(f"{sheet} exists, and may hold marks; give another --sheet")
    settings, benchmark = settings_from(overrides, AnnotationSettings), read_one_collection(source)
    hosted = hosted_settings("", model, settings)
    asker = LlmReplies(hosted, replies or DEFAULT_OUT / "replies")
    rows = asker.run(lambda ask: drafts(benchmark, settings, ask, hosted.model))
    put_text(sheet, "".join(f"{json.dumps(draft.row(), ensure_ascii=False)}\n" for draft in rows))
    say(f"{len(rows)} instructions in {sheet} ({asker.sent} requests); set `keep` of each row to yes or no, then:")
    say(f"    foil benchmarks annotate {source} --marked {sheet} --into FOLDER")
    return len(rows)


def apply_instructions(source: str, marked: Path, into: Path, reader: str, *, as_json: bool) -> None:
    """Writes the benchmark with the instructions that the reader keeps."""
    if into.exists():
        raise UsageError(f"{into} is there already; name a new folder with --into")
    benchmark = read_one_collection(source)
    try:
        lines = read_text(marked, "the filled sheet").split("\n")
        rows = [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise UsageError(f"{marked} does not read as a sheet: {error}") from None
    annotated = with_instructions(benchmark, rows)
    counts = {"queries": len(annotated.queries), "dropped": len(rows) - len(annotated.queries)}
    facts = {"made_from": source, "of": {"digest": benchmark.digest, "revision": benchmark.revision},
             "instructions_kept_by": reader, "counts": counts}  # fmt: skip
    publish_folder(into, partial(write_benchmark, benchmark=annotated, facts=facts))
    if as_json:
        print_json(counts)
    else:
        show([*counts], [[*counts.values()]], f"annotated, kept by {reader}, in {into}")
