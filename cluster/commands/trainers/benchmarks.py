"""`foil benchmarks`: the published benchmarks that `foil evaluate --on` reads, and benchmarks of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption, SnapshotOption
from foil.cluster.extras import need
from foil.cluster.terminal import byte_bars, print_json, print_line, say, show
from foil.engine.errors import UsageError


def list_benchmarks(as_json: JsonOption = False) -> None:
    """List the benchmarks by the layout of their files."""
    from foil.trainer.evaluate.benchmarks.catalog import KINDS

    rows = [(name, kind.about, kind.measures, kind.licence) for name, kind in KINDS.items()]
    columns = ["benchmark", "what it is", "measures", "licence"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show(columns, rows)


def show_benchmark(
    name: Annotated[str, typer.Argument(help="One that `foil benchmarks list` names.")], as_json: JsonOption = False
) -> None:
    """Show where a benchmark's files come from, their licence and what to bring."""
    from foil.trainer.evaluate.benchmarks.catalog import kind_named

    kind = kind_named(name)
    rows = [
        ("what it is", kind.about), ("where it comes from", kind.origin), ("licence", kind.licence),
        ("bring", kind.bring), ("measures", kind.measures), ("average over", kind.average),
        ("use", f"foil evaluate MODEL --on {name}:{kind.place}"),
    ]  # fmt: skip
    if as_json:
        print_json(dict(rows))
    else:
        show(["", name], rows)


def fetch_benchmark(
    name: Annotated[str, typer.Argument(help="followir, infosearch or mair.")],
    to: Annotated[Path | None, typer.Option(help="The folder to put it in. Default: benchmarks/NAME.")] = None,
    only: Annotated[str, typer.Option(help="Files whose path matches, such as '*/LitSearch/*'.")] = "*",
    revision: Annotated[str, typer.Option(help="Of the hub's data sets. Default: as fetched, or newest.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Download a published benchmark from the hub, at one revision, with checksums; goes on where it broke off.

    A task of mteb needs none of this: `mteb:TASK` fetches its pinned revision when it is first read.
    """
    from foil.engine.seeds.files import download

    need("huggingface_hub", extra="train")
    from foil.cluster.benchmarks.fetching import benchmark_files

    folder = to or Path("benchmarks") / name
    files = benchmark_files(name, folder, only, revision)
    say(f"licence of {name}: {files.licence}")
    with byte_bars(remote.name for remote in files.files) as show_bytes:
        paths = download.fetch(files, folder, show_bytes)
    if as_json:
        print_json({"files": [str(path) for path in paths]})
    for path in paths:
        print_line(str(path))
    say(f"revisions and checksums are in {folder / download.LOCK}; foil evaluate MODEL --on {name}:{folder}")


def make(
    source: Annotated[
        str, typer.Argument(metavar="RUN | KIND:PATH", help="A run's folder, a benchmark, or ifeval:FOLDER.")
    ],
    into: Annotated[Path, typer.Option("--into", help="A folder for the new benchmark.")],
    overrides: SetOption = None,
    job: Annotated[Path | None, typer.Option(help="The run's job file: its `train.split` is kept.")] = None,
    snapshot: SnapshotOption = None,
    against: Annotated[
        list[str] | None, typer.Option(help="A run that models train on: RUN or RUN#SNAPSHOT. Repeatable.")
    ] = None,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="End where a query is trained on; else it is left out.")
    ] = False,
    system: Annotated[
        list[str] | None, typer.Option(help="A system besides bm25 and base whose rank a sample keeps. Repeatable.")
    ] = None,
    first: Annotated[str, typer.Option(help="What finds the documents that rerank:MODEL orders.")] = "bm25",
    vectors: Annotated[
        Path | None, typer.Option(help="A folder that keeps the systems' vectors. Default: evaluation/vectors.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a benchmark in BEIR's layout, with instructions, that `foil evaluate --on made:FOLDER` and mteb read.

    Of a run it takes the held-out topics. Queries that stand in what the run, or one named by --against, trains on are
    left out, and counted. `--set queries=100 --set documents=10000` samples both, if systems keep their ranking.
    """
    from foil.cluster.benchmarks.making import MakingOrder, make_benchmark
    from foil.cluster.evaluations.benchmarks import DEFAULT_OUT

    need("sentence_transformers", extra="train")
    order = MakingOrder(
        source, into, overrides or [], job, snapshot, against or [], refuse, system or [], first,
        vectors or DEFAULT_OUT / "vectors",
    )  # fmt: skip
    make_benchmark(order, as_json=as_json)


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

    need("sentence_transformers", extra="train")
    if sheet and not marked and not into:
        files = draw_review(source, sheet, overrides or [], system or [], first, vectors)
        if as_json:
            print_json({"sheets": files})
    elif marked and into and not sheet:
        apply_review(source, marked, into, reader, as_json=as_json)
    else:
        raise UsageError("give --sheet FILE to draw a sheet, or --marked FILE with --into FOLDER to read one back")


def annotate(
    source: Annotated[str, typer.Argument(metavar="KIND:PATH", help="A benchmark of one collection.")],
    model: Annotated[str, typer.Option(help="Who writes the instructions: MODEL@URL.")] = "",
    sheet: Annotated[Path | None, typer.Option(help="Where the sheet goes, a .jsonl file.")] = None,
    overrides: SetOption = None,
    replies: Annotated[Path | None, typer.Option(help="What keeps replies. Default: evaluation/replies.")] = None,
    marked: Annotated[Path | None, typer.Option(help="The sheet with `keep` set in every row.")] = None,
    into: Annotated[Path | None, typer.Option(help="With --marked: a folder for the new benchmark.")] = None,
    reader: Annotated[str, typer.Option(help="Who marked it.")] = "reader",
    as_json: JsonOption = False,
) -> None:
    """Have a model write instructions for bare queries (--model), or keep those that a reader marked (--marked).

    `--set about="..."` tells the model what the collection is. Nothing is published without a reader's yes.
    """
    from foil.cluster.benchmarks.review import apply_instructions, draft_instructions

    need("sentence_transformers", extra="train")
    if model and sheet and not marked and not into:
        drafts = draft_instructions(source, model, sheet, overrides or [], replies)
        if as_json:
            print_json({"sheets": [str(sheet)], "instructions": drafts})
    elif marked and into and not (model or sheet):
        apply_instructions(source, marked, into, reader, as_json=as_json)
    else:
        raise UsageError("give --model MODEL@URL with --sheet FILE, or --marked FILE with --into FOLDER")


def respond(
    source: Annotated[str, typer.Argument(metavar="ifeval:FOLDER", help="The folder of IFEval's input_data.jsonl.")],
    model: Annotated[str, typer.Option(help="Who responds: MODEL@URL.")],
    overrides: SetOption = None,
    replies: Annotated[Path | None, typer.Option(help="What keeps replies. Default: evaluation/replies.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Have a model respond to IFEval's prompts until each has enough responses that follow, and that do not.

    Writes FOLDER/responses_MODEL.jsonl, which `foil benchmarks make ifeval:FOLDER` takes. No reply is paid twice.
    """
    from foil.cluster.benchmarks.responding import draw_responses

    need("sentence_transformers", extra="train")
    draw_responses(source, model, overrides or [], replies, as_json=as_json)
