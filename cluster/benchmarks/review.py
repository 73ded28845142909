"""What careful readers make of a benchmark: `foil benchmarks review` and `foil benchmarks annotate`.

review      a pool of systems ranks it -> documents in doubt -> SHEET.txt, SHEET.jsonl for the reader; SHEET.key.json
            marked sheet + key + benchmark -> FOLDER, the benchmark with these judgments
annotate    a model writes instructions for its bare queries -> SHEET.jsonl, a query a row
            the reader sets `keep` -> FOLDER, the kept queries
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from foil.cluster.benchmarks.making import rank_all
from foil.cluster.evaluations.benchmarks import DEFAULT_OUT, open_pool, read_source
from foil.cluster.job import settings_from
from foil.cluster.terminal import print_json, say, show
from foil.engine.atomic_files import publish_folder, put_json, put_json_lines, put_text
from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of
from foil.engine.seeds.files.text_files import read_text
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import parts_of, read_benchmark
from foil.trainer.evaluate.benchmarks.files import read_document
from foil.trainer.evaluate.benchmarks.making.annotation import AnnotationSettings, drafts, with_instructions
from foil.trainer.evaluate.benchmarks.making.made import write_benchmark
from foil.trainer.evaluate.benchmarks.making.review import ReviewSettings, changes, doubtful, with_judgments
from foil.trainer.evaluate.systems.llm_replies import LlmReplies, hosted_settings
from foil.validators.audits.marks import ItemMarks, read_marks
from foil.validators.audits.sheet import LETTERS, AuditedPassage, AuditItem, Stratum, key_of, sheet_rows, sheet_text


def draw_review(
    source: str, sheet: Path, overrides: Sequence[str], systems: Sequence[str], first: str, vectors: Path | None
) -> list[str]:
    """Writes the sheet in both forms and its key. Raises UsageError where nothing is in doubt, or a file is there."""
    text, rows, key = _files(sheet)
    for path in (text, rows, key):
        if path.exists():
            raise UsageError(f"{path} exists, and may hold marks; give another --sheet")
    settings, benchmark = settings_from(overrides, ReviewSettings), read_one_collection(source)
    pool = open_pool(systems, settings, vectors or DEFAULT_OUT / "vectors", first)
    depth = max(settings.high_rank, settings.low_rank)
    in_doubt = doubtful(benchmark, list(rank_all(benchmark, pool, depth).values()), settings)
    if not in_doubt:
        raise UsageError(f"{len(pool)} systems put no judgment of {benchmark.name} in doubt; raise high_rank, or lower "
                         "least_systems, low_rank or missed_share with --set")  # fmt: skip
    items = list(review_items(benchmark, in_doubt))
    put_json(key, {"digest": benchmark.digest, "items": key_of(items)})
    put_text(text, sheet_text(items))
    put_json_lines(rows, sheet_rows(items))
    say(f"{len(items)} queries in {text} and {rows}; mark them in one of the two, then:")
    say(f"    foil benchmarks review {source} --marked FILE --into FOLDER")
    return [str(text), str(rows)]


def review_items(benchmark: Benchmark, in_doubt: Mapping[str, Sequence[str]]) -> Iterator[AuditItem]:
    """An item a query, its documents in an order that tells neither ranks nor judgments."""
    queries = {query.id: query for query in benchmark.queries}
    for number, (name, documents) in enumerate(in_doubt.items(), start=1):
        query, grades = queries[name], benchmark.qrels.get(name, {})
        ordered = sorted(documents, key=lambda document: fraction_of("review", queries[name].id, document))
        passages = tuple(
            AuditedPassage(letter, document, int(grades.get(document, 0) > 0), False, *benchmark.documents[document])
            for letter, document in zip(LETTERS, ordered, strict=False)
        )
        stratum = Stratum("benchmark", benchmark.name, "", query.dimension)
        yield AuditItem(number, query.core, "", name, stratum, query.query, query.instruction, passages)


def apply_review(source: str, marked: Path, into: Path, reader: str, *, as_json: bool) -> None:
    """Writes the benchmark with the marks as judgments; documents marked unusable keep what they had.

    Raises UsageError where the sheet is of another benchmark.
    """
    if into.exists():
        raise UsageError(f"{into} is there already; name a new folder with --into")
    benchmark, (*_, key_file) = read_one_collection(source), _files(marked)
    key = read_document(key_file)
    if not isinstance(key, dict) or key.get("digest") != benchmark.digest or "items" not in key:
        raise UsageError(f"{key_file} is no key of a sheet of {source} as it is now, digest {benchmark.digest[:16]}; "
                         "draw a sheet of this benchmark, or name the one that was reviewed")  # fmt: skip
    marks = read_marks(marked, key["items"])
    reviewed = with_judgments(benchmark, _judgments(marks, key["items"]))
    row: dict[str, Any] = {"queries": len(marks), **changes(benchmark, reviewed)}
    facts = {"made_from": source, "of": {"digest": benchmark.digest, "revision": benchmark.revision},
             "reviewed_by": reader, "counts": row}  # fmt: skip
    publish_folder(into, partial(write_benchmark, benchmark=reviewed, facts=facts))
    if as_json:
        print_json(row)
    else:
        show([*row], [[*row.values()]], f"reviewed by {reader}, in {into}")


def _judgments(marks: Sequence[ItemMarks], key: Mapping[str, Any]) -> dict[str, dict[str, bool]]:
    return {
        key[str(item.number)]["intent_id"]: {name: m.relevant for name, m in item.passages.items() if m.usable}
        for item in marks
    }


def read_one_collection(source: str) -> Benchmark:
    """The benchmark of that name; UsageError where it has several collections."""
    benchmark_source = read_source(source)
    parts = parts_of(benchmark_source)
    if len(parts) != 1:
        raise UsageError(f"{source} has {len(parts)} collections; name one: {source}#{parts[0]}")
    return read_benchmark(benchmark_source, parts[0])


def _files(sheet: Path) -> tuple[Path, Path, Path]:
    """The two forms of a sheet and its key."""
    name = sheet.name.removesuffix(".txt").removesuffix(".jsonl")
    text, rows, key = (sheet.with_name(f"{name}{ending}") for ending in (".txt", ".jsonl", ".key.json"))
    return text, rows, key


def draft_instructions(source: str, model: str, sheet: Path, overrides: Sequence[str], replies: Path | None) -> int:
    """Writes the sheet; gives its rows. Replies are kept, so that a stopped command pays only for what is left."""
    if sheet.exists():
        raise UsageError(f"{sheet} exists, and may hold marks; give another --sheet")
    settings, benchmark = settings_from(overrides, AnnotationSettings), read_one_collection(source)
    hosted = hosted_settings("", model, settings)
    asker = LlmReplies(hosted, replies or DEFAULT_OUT / "replies")
    rows = asker.run(lambda ask: drafts(benchmark, settings, ask, hosted.model))
    put_json_lines(sheet, (draft.row() for draft in rows))
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
