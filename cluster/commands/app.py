"""The doors: `foil` and its commands. The one place that prints.

Each command reads its arguments, calls one function of another room, and shows what came back: tables for a terminal,
one JSON object with `--json`. Heavy libraries load only in the command that needs them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cluster.terminal import say, show
from engine.errors import CorruptDataError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Synthesise, verify and commit training data for instruction-following retrieval, and train on it. "
    "Exit codes: 0 done, 1 error, 2 wrong usage, 3 some seeds failed, 4 budget spent, 5 judge unreliable, "
    "6 damaged data, 7 query stopped, 8 commit failed, 9 model failed, 130/143 interrupted.",
)
seeds_app = typer.Typer(no_args_is_help=True, help="Look at corpora, and fetch the public ones.")
app.add_typer(seeds_app, name="seeds")

JobArgument = Annotated[Path, typer.Argument(help="The job file (YAML).")]
OutArgument = Annotated[Path, typer.Argument(help="The folder of a run.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override one key: a.b=value. Repeatable.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Override the job's `out` folder.")]
ReuseOption = Annotated[
    list[Path] | None, typer.Option("--reuse", help="The folder of a run whose replies are taken over. Repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]


@app.command()
def run(
    job: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job, or resume it where it stopped; a finished job is a no-op."""
    from cluster.commands.operators.run import run_job

    run_job(job, overrides or [], out, reuse or [], as_json=as_json)


@app.command()
def plan(
    job: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    look_at: Annotated[int, typer.Option("--seeds", help="Seeds whose prompts are rendered.")] = 50,
    sample: Annotated[int, typer.Option(help="Seeds that are really asked, and paid; the run reuses them.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """What a job will ask and cost before it does: calls, tokens, US dollars and hours a stage, with a range."""
    from cluster.commands.operators.plan import plan_job

    plan_job(job, overrides or [], out, reuse or [], look_at=look_at, sample=sample, as_json=as_json)


@app.command()
def submit(
    job: JobArgument,
    address: Annotated[str, typer.Option(help="The Ray head's dashboard.")] = "http://127.0.0.1:8265",
    overrides: SetOption = None,
    python: Annotated[str, typer.Option(help="The head's Python that has Foil's requirements.")] = "python",
    wait: Annotated[bool, typer.Option(help="Wait for the end and print the job's log.")] = True,
) -> None:
    """Send a job to a running Ray head through Ray Jobs; the same job again resumes."""
    from cluster.commands.operators.submit import submit_job

    submit_job(job, address, overrides or [], python=python, wait=wait)


@app.command()
def status(out: OutArgument, as_json: JsonOption = False) -> None:
    """How far a run is: planned, accepted, rejected, failed, calls, tokens, cost. Reads commit entries only."""
    from cluster.commands.operators.run import show_status

    show_status(out, as_json=as_json)


@app.command()
def sql(
    out: OutArgument,
    query: Annotated[str, typer.Argument(help="One SELECT over the views of the run.")] = "",
    snapshot: Annotated[str | None, typer.Option(help="Ask a snapshot instead of all that is committed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV; formulas are made inert.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write the rows to this Parquet file.")] = None,
    views: Annotated[bool, typer.Option(help="Print the views as SQL for your own duckdb.")] = False,
    timeout_s: Annotated[float, typer.Option(help="Seconds that the query may take.")] = 60.0,
    memory_mb: Annotated[int, typer.Option(help="MiB that the query may take.")] = 4096,
) -> None:
    """Ask a run in SQL: topics, intents, passages, judgments, verdicts, rejects, calls, triplets, runs."""
    from datasets_out.sql import output_formats as answers
    from datasets_out.sql.query import run_sql
    from datasets_out.sql.views import views_script

    if views:
        print(views_script(out, snapshot))
        return
    table = run_sql(out, query, timeout_s=timeout_s, memory_bytes=memory_mb << 20, snapshot=snapshot)
    if parquet:
        answers.write_parquet(table, parquet)
        say(f"{table.num_rows:,} rows are in {parquet}")
    elif as_json:
        print(answers.to_json(table))
    elif as_csv:
        print(answers.to_csv(table), end="")
    else:
        show(table.column_names, zip(*(column.to_pylist() for column in table.columns), strict=True))


@app.command()
def why(
    out: OutArgument,
    record: Annotated[str, typer.Argument(help="The id of a topic, intent, passage, call or seed, or its beginning.")],
    as_json: JsonOption = False,
) -> None:
    """Where a record comes from: its seed, prompts, model, calls, judgments, verdicts and file."""
    from datasets_out.sql.why import lineage, render

    tree = lineage(out, record)
    print(json.dumps(tree.to_json(), ensure_ascii=False, default=str) if as_json else render(tree))


@app.command()
def agreement(
    out: OutArgument,
    labels: Annotated[
        Path | None, typer.Option(help="People's labels (.jsonl or .csv): topic_id, intent_id, passage_id, relevance.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far judges, labels and people agree: Cohen's kappa with its interval."""
    from cluster.commands.curators.agreement import show_agreement

    show_agreement(out, labels, as_json=as_json)


@app.command()
def verify(out: OutArgument, as_json: JsonOption = False) -> None:
    """Check every byte that was committed; any changed bit is found. Exit code 6 if there is damage."""
    from datasets_out.commits.verify import verify as find_damage

    found = find_damage(out)
    harm = [one for one in found if not one.harmless]
    if as_json:
        print(json.dumps({"damaged": len(harm), "found": [asdict(one) for one in found]}))
    for one in found:
        say(f"{'harmless' if one.harmless else 'DAMAGED'}  {one.kind}  {one.path}: {one.detail}")
    if harm:
        raise CorruptDataError(f"{out} has {len(harm)} damaged files; restore them, or run the job into a new folder")
    say(f"{out} holds what was committed, to the bit")


@app.command()
def snapshot(out: OutArgument, name: Annotated[str, typer.Argument(help="A new name.")]) -> None:
    """Pin what is committed now under a name, with one digest."""
    from datasets_out.commits.snapshot import take_snapshot

    taken = take_snapshot(out, name)
    print(json.dumps({"name": name, "digest": taken.digest, "topics": taken.rows("topics")}))


@app.command()
def mix(
    out: OutArgument,
    into: Annotated[Path, typer.Argument(help="A folder for the four mixes.")],
    snapshot: Annotated[str | None, typer.Option(help="A snapshot of the run; without, what is committed now.")] = None,
) -> None:
    """Write Dual-View's mixes of a run with both views, each as a run: ins_orig, ins_dv, all_orig, all_dv."""
    from datasets_out.commits.snapshot import load_snapshot
    from datasets_out.training.mixes import write_mixes

    written = write_mixes(load_snapshot(out, snapshot, verify=True), into)
    rows = [
        (name, str(one.out), one.rows("topics"), one.rows("intents"), one.digest[:16]) for name, one in written.items()
    ]
    show(["mix", "run", "topics", "rows", "digest"], rows)


@app.command()
def mine(
    out: OutArgument,
    into: Annotated[Path, typer.Argument(help="A folder for the new run.")],
    overrides: SetOption = None,
    job: Annotated[
        Path | None, typer.Option(help="The run's job file: its `train.split` is kept, its seeds can be mined.")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="A snapshot of the run; without, what is committed now.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run with mined hard negatives: `--set miner=bm25`, or `miner=model` with `model=DIRECTORY`."""
    from cluster.mining import mine_run

    mine_run(out, into, overrides or [], job, snapshot, as_json=as_json)


@app.command()
def train(job: JobArgument, overrides: SetOption = None, out: OutOption = None, as_json: JsonOption = False) -> None:
    """Train the job's embedder on its committed topics; resumes by itself. The model goes to OUT/model."""
    from cluster.commands.trainers.train import train_job

    train_job(job, overrides or [], out, as_json=as_json)


@app.command()
def evaluate(job: JobArgument, overrides: SetOption = None, out: OutOption = None, as_json: JsonOption = False) -> None:
    """Compare base and trained embedder on held-out topics, and on retrieval without instructions."""
    from cluster.commands.trainers.train import evaluate_job

    evaluate_job(job, overrides or [], out, as_json=as_json)


@seeds_app.command("preview")
def preview(
    job: JobArgument, overrides: SetOption = None, count: Annotated[int, typer.Option(help="Seeds.")] = 3
) -> None:
    """Show the first seeds of a job's corpus as the recipe will get them."""
    from cluster.catalog import open_seeds
    from cluster.job import load_job

    for seed in islice(open_seeds(load_job(job, overrides or []).seeds), count):
        texts = [("+", p) for p in seed.positives] + [("-", p) for p in seed.negatives]
        rows = [(mark, p.source_id, p.text[:300]) for mark, p in texts]
        show(["", "source", "passage"], rows, f"{seed.id}: {seed.query}")


@seeds_app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="The corpus; without one, they are listed.")] = "",
    to: Annotated[Path | None, typer.Option(help="The folder to put it in; seeds/NAME if absent.")] = None,
) -> None:
    """Bring a public corpus at its pinned revision, with checksums; says what has to be brought by hand."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from engine.seeds.files.download import CORPORA, public_corpus
    from engine.seeds.files.download import fetch as bring

    if not name:
        rows = [(one.name, len(one.files), one.licence, one.by_hand) for one in CORPORA.values()]
        show(["corpus", "files", "licence", "by hand"], rows)
        return
    corpus = public_corpus(name)
    say(f"licence of {name}: {corpus.licence}")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {remote.name: bars.add_task(remote.name, total=None) for remote in corpus.files}
        paths = bring(
            corpus, to or Path("seeds") / name, lambda f, done, all_: bars.update(tasks[f], completed=done, total=all_)
        )
    for path in paths:
        print(path)
    if corpus.by_hand:
        say(corpus.by_hand)


@app.command()
def doctor() -> None:
    """What this machine can do: the rooms of Foil, the libraries, the disk."""
    from importlib.metadata import PackageNotFoundError, version

    names = ["foil-ir", "ray", "duckdb", "pyarrow", "torch", "transformers", "sentence-transformers", "openai", "vllm"]
    rows = []
    for name in names:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "absent"))
    show(["library", "version"], rows)
