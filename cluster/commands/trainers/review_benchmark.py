"""`foil benchmarks review`: a sheet of judgments that systems put in doubt, and what a reader said of them."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption
from foil.cluster.terminal import print_json
from foil.engine.errors import UsageError


def review(
    source: Annotated[str, typer.Argument(metavar="KIND:PATH", help="A benchmark of one collection.")],
    sheet: Annotated[
        Path | None, typer.Option(help="Where the sheet goes: FILE.txt, FILE.jsonl, FILE.key.json.")
    ] = None,
    overrides: SetOption = None,
    system: Annotated[list[str] | None, typer.Option(help="A system besides bm25 and base. Repeatable.")] = None,
    first: Annotated[str, typer.Option(help="What finds the documents that rerank:MODEL orders.")] = "bm25",
    vectors: Annotated[
        Path | None, typer.Option(help="A folder that keeps the systems' vectors. Default: evaluation/vectors.")
    ] = None,
    marked: Annotated[Path | None, typer.Option(help="A filled sheet (.txt or .jsonl), its key next to it.")] = None,
    into: Annotated[Path | None, typer.Option(help="With --marked: a folder for the benchmark so judged.")] = None,
    reader: Annotated[str, typer.Option(help="Who marked it.")] = "reader",
    as_json: JsonOption = False,
) -> None:
    """Write a blind sheet of doubtful judgments (--sheet), or the benchmark as a reader marked it (--marked, --into).

    In doubt are unjudged documents that several systems rank high, and relevant ones that half of them do not find.
    """
    from foil.cluster.benchmarks.review import apply_review, draw_review
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    if sheet and not marked and not into:
        files = draw_review(source, sheet, overrides or [], system or [], first, vectors)
        if as_json:
            print_json({"sheets": files})
    elif marked and into and not sheet:
        apply_review(source, marked, into, reader, as_json=as_json)
    else:
        raise UsageError("give --sheet FILE to draw a sheet, or --marked FILE with --into FOLDER to read one back")
