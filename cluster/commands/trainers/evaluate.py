"""`foil evaluate`: a trained embedder and its base on held-out topics, or systems on published benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import FolderOption, JsonOption, SetOption
from foil.cluster.extras import need
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.cluster.evaluations.benchmarks import EvaluationOrder
    from foil.trainer.settings import Instructions

Subjects = Annotated[
    list[str] | None, typer.Argument(metavar="JOB | SYSTEM...", help="A job file; with --on, the systems.")
]
OnOption = Annotated[
    list[str] | None,
    typer.Option("--on", help="A published benchmark: KIND:PATH, KIND:PATH#PART or a YAML file. Repeatable."),
]
MeasuresOption = Annotated[
    list[str] | None, typer.Option("--measures", help="Instead of the benchmark's own. Repeatable.")
]
InstructionsOption = Annotated[
    str, typer.Option(help="In place of the queries' instructions: none, repeat, generic or swap.")
]
PromptsOption = Annotated[
    Path | None, typer.Option(help="A file of prompts, one a line; each is put behind every query.")
]


def evaluate(
    subjects: Subjects = None,
    overrides: SetOption = None,
    out: FolderOption = None,
    as_json: JsonOption = False,
    on: OnOption = None,
    measures: MeasuresOption = None,
    first: Annotated[str, typer.Option(help="What finds the documents that rerank:MODEL orders.")] = "bm25",
    base: Annotated[str, typer.Option(help="With --on: the system that differences are to.")] = "base",
    runs: Annotated[bool, typer.Option("--runs", help="Write TREC runs to OUT/runs.")] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the results into the cards of published models.")] = False,
    instructions: InstructionsOption = "given",
    prompts: PromptsOption = None,
    prompt_queries: Annotated[int, typer.Option(min=1, help="Queries of a collection that choose a prompt.")] = 10,
) -> None:
    """Compare base and trained model on held-out topics and on plain retrieval; kept in OUT/evaluation.json.

    With --on, compare systems on published benchmarks with BM25 and the base model: a model's directory, a hub name,
    openai:MODEL@URL, rerank:MODEL. `foil benchmarks list` names the benchmarks. Results go to OUT/results.jsonl, those
    of --prompts to OUT/prompts.jsonl.
    """
    from foil.trainer.train.data.instructions import instructions_named

    need("sentence_transformers", extra="train")
    names, how = subjects or [], instructions_named(instructions)
    if (prompts or how != "given") and card:
        raise UsageError("--card is for results under the benchmark's own instructions; leave it or the others out")
    if on:
        from foil.cluster.evaluations.benchmarks import DEFAULT_OUT, EvaluationOrder

        order = EvaluationOrder(names, on, overrides or [], measures or [], first, out or DEFAULT_OUT, base)
        _compare(order, how, prompts, prompt_queries, runs=runs, card=card, as_json=as_json)
    elif len(names) == 1 and not (measures or runs or card or prompts):
        from foil.cluster.evaluations.topics import evaluate_job

        evaluate_job(Path(names[0]), overrides or [], out, instructions=how, as_json=as_json)
    else:
        raise UsageError("give one job file; or systems and the benchmark that they are for, with --on KIND:PATH")


def _compare(
    order: EvaluationOrder, how: Instructions, prompts: Path | None, dev_count: int, *, runs: bool, card: bool,
    as_json: bool,
) -> None:  # fmt: skip
    if prompts is None:
        from foil.cluster.evaluations.benchmarks import evaluate_benchmarks

        evaluate_benchmarks(order, instructions=how, keep_runs=runs, into_cards=card, as_json=as_json)
        return
    if how != "given" or runs:
        raise UsageError("--prompts goes without --instructions and --runs; leave them out")
    from foil.cluster.evaluations.prompts import search_prompts

    search_prompts(order, prompts, dev_count, as_json=as_json)
