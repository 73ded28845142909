"""`foil seeds`: shows the seeds of a job, and fetches public corpora."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from cluster.commands.arguments import JobArgument, SetOption
from cluster.terminal import say, show


def preview(
    job_file: JobArgument, overrides: SetOption = None, count: Annotated[int, typer.Option(min=1, help="Seeds.")] = 3
) -> None:
    """Show the first seeds of a job's corpus as the recipe will get them."""
    from cluster.catalog import open_seeds
    from cluster.job import load_job

    for seed in islice(open_seeds(load_job(job_file, overrides or []).seeds), count):
        passages = [("+", passage) for passage in seed.positives] + [("-", passage) for passage in seed.negatives]
        rows = [(sign, passage.source_id, passage.text[:300]) for sign, passage in passages]
        show(["", "source", "passage"], rows, f"{seed.id}: {seed.query}")


def fetch(
    name: Annotated[str, typer.Argument(help="The corpus. Without a name, the corpora are listed.")] = "",
    to: Annotated[Path | None, typer.Option(help="The folder to put it in. Default: seeds/NAME.")] = None,
) -> None:
    """Download a public corpus at its pinned revision, with checksums. Says which files you must download yourself."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from engine.seeds.files import download

    if not name:
        rows = [
            (corpus.name, len(corpus.files), corpus.licence, corpus.by_hand) for corpus in download.CORPORA.values()
        ]
        show(["corpus", "files", "licence", "by hand"], rows)
        return
    corpus = download.public_corpus(name)
    say(f"licence of {name}: {corpus.licence}")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {remote.name: bars.add_task(remote.name, total=None) for remote in corpus.files}

        def show_bytes(file: str, completed: int, total: int | None) -> None:
            bars.update(tasks[file], completed=completed, total=total)

        paths = download.fetch(corpus, to or Path("seeds") / name, show_bytes)
    for path in paths:
        print(path)
    if corpus.by_hand:
        say(corpus.by_hand)
