"""`foil evaluate`: a trained embedder and its base on held-out topics, or systems on published benchmarks."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import FolderOption, JsonOption, SetOption
from foil.engine.errors import UsageError


def evaluate(
    subjects: Annotated[
        list[str] | None, typer.Argument(metavar="JOB | SYSTEM...", help="A job file; with --on, the systems.")
    ] = None,
    overrides: SetOption = None,
    out: FolderOption = None,
    as_json: JsonOption = False,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="A published benchmark: KIND:PATH, KIND:PATH#PART or a YAML file. Repeatable."),
    ] = None,
    measures: Annotated[
        list[str] | None, typer.Option("--measures", help="Instead of the benchmark's own. Repeatable.")
    ] = None,
    first: Annotated[str, typer.Option(help="What finds the documents that rerank:MODEL orders.")] = "bm25",
    runs: Annotated[bool, typer.Option("--runs", help="Write TREC runs to OUT/runs.")] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the results into the cards of published models.")] = False,
    instructions: Annotated[
        str, typer.Option(help="In place of the queries' instructions: none, repeat, generic or swap.")
    ] = "given",
    prompts: Annotated[
        Path | None, typer.Option(help="A file of prompts, one a line; each is put behind every query.")
    ] = None,
    prompt_queries: Annotated[int, typer.Option(min=1, help="Queries of a collection that choose a prompt.")] = 10,
) -> None:
    """Compare base and trained model on held-out topics, and on retrieval without instructions.

    The numbers are kept in OUT/evaluation.json.

    With --on, compare systems on published benchmarks with BM25 and the base model: a model's directory, a hub name,
    openai:MODEL@URL, rerank:MODEL. `foil benchmarks list` names the benchmarks. Results go to OUT/results.jsonl, those
    of --prompts to OUT/prompts.jsonl.
    """
    from foil.cluster.extras import need

    need("sentence_transformers", extra="train")
    from foil.trainer.data.instructions import instructions_named

    names, how = subjects or [], instructions_named(instructions)
    if (prompts or how != "given") and card:
        raise UsageError("--card is for results under the benchmark's own instructions; leave it or the others out")
    if on and prompts:
        from foil.cluster.evaluations.benchmarks import DEFAULT_OUT
        from foil.cluster.evaluations.prompts import search_prompts

        if how != "given" or runs:
            raise UsageError("--prompts goes without --instructions and --runs; leave them out")
        search_prompts(
            names, on, prompts, prompt_queries, overrides=overrides or [], measures=measures or [], first=first,
            out=out or DEFAULT_OUT, as_json=as_json,
        )  # fmt: skip
    elif on:
        from foil.cluster.evaluations.benchmarks import DEFAULT_OUT, evaluate_benchmarks

        evaluate_benchmarks(
            names, on, overrides=overrides or [], measures=measures or [], first=first, out=out or DEFAULT_OUT,
            instructions=how, keep_runs=runs, into_cards=card, as_json=as_json,
        )  # fmt: skip
    elif len(names) == 1 and not (measures or runs or card or prompts):
        from foil.cluster.evaluations.topics import evaluate_job

        evaluate_job(Path(names[0]), overrides or [], out, instructions=how, as_json=as_json)
    else:
        raise UsageError("give one job file; or systems and the benchmark that they are for, with --on KIND:PATH")
