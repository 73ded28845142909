"""`foil seeds`: shows the seeds of a job, and fetches public corpora."""

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JobArgument, JsonOption, SetOption
from foil.cluster.extras import need
from foil.cluster.terminal import byte_bars, print_json, print_line, say, show
from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import ledger_lines


def preview(
    job_file: JobArgument,
    overrides: SetOption = None,
    count: Annotated[int, typer.Option(min=1, help="Seeds.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Show the first seeds of a job's corpus as the recipe will get them."""
    from foil.cluster.catalog import open_seeds
    from foil.cluster.job import load_job

    reader = open_seeds(load_job(job_file, overrides or []).seeds)
    seeds = list(islice(reader, count))
    if as_json:
        print_json({"seeds": [asdict(seed) for seed in seeds], "read": reader.ledger.plain()})
        return
    for seed in seeds:
        passages = [("+", passage) for passage in seed.positives] + [("-", passage) for passage in seed.negatives]
        rows = [(sign, passage.source_id, passage.text[:300]) for sign, passage in passages]
        show(["", "source", "passage"], rows, f"{seed.id}: {seed.query}")
    for line in ledger_lines(reader.ledger.plain()):
        print_line(line)


def fetch(
    name: Annotated[str, typer.Argument(help="The corpus. Without a name, the corpora are listed.")] = "",
    to: Annotated[Path | None, typer.Option(help="The folder to put it in. Default: seeds/NAME.")] = None,
    revision: Annotated[str, typer.Option(help="Of a data set of the hub. Default: as fetched, or newest.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Download a public corpus at one revision, with checksums. Says which files you must download yourself."""
    from foil.engine.seeds.files import download

    if to and not name:
        raise UsageError(f"--to {to} says where, but no corpus is named; `foil seeds fetch` lists them")
    if not name:
        _list_corpora(as_json=as_json)
        return
    corpus, folder = download.public_corpus(name), to or Path("seeds") / name
    if revision and not corpus.hub:
        raise UsageError(f"--revision {revision} is of what the hub lists, and {name} is pinned; leave it out")
    if corpus.hub:
        need("huggingface_hub", extra="train")
        from foil.cluster.seeds.hub_files import listed_corpus

        corpus = listed_corpus(corpus, folder, revision)
    say(f"licence of {name}: {corpus.licence}")
    with byte_bars(remote.name for remote in corpus.files) as show_bytes:
        paths = download.fetch(corpus, folder, show_bytes)
    if as_json:
        print_json({"files": [str(path) for path in paths]})
    for path in paths:
        print_line(str(path))
    if corpus.by_hand:
        say(corpus.by_hand)


def _list_corpora(*, as_json: bool) -> None:
    from foil.engine.seeds.files.download import CORPORA

    columns = ["corpus", "files", "licence", "by hand"]
    rows = [(each.name, each.hub or len(each.files), each.licence, each.by_hand) for each in CORPORA.values()]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show(columns, rows)
