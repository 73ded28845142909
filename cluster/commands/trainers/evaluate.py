"""`foil evaluate`: a trained embedder and its base on held-out topics, or systems on published benchmarks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands.arguments import JsonOption, OutOption, SetOption
from cluster.terminal import print_json, show
from engine.errors import UsageError

if TYPE_CHECKING:
    from datasets_out.training.training_view import TopicGroup
    from trainer.evaluation.evaluate import MeasureDifference, Scores
    from trainer.settings import EvaluateSettings
    from trainer.text_templates import TextTemplate

_MEASURES = {
    "both_views": "both-views pair accuracy",
    "should_fall": "p-MRR of passages that should fall",
    "should_stay": "p-MRR of passages that should stay",
    "net": "net p-MRR (fall - stay)",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "nDCG@10 without instructions, held-out pool",
    "plain_rr": "MRR without instructions, held-out pool",
    "rerank_ndcg": "nDCG@10 without instructions, lists re-ranked",
}


def evaluate(
    subjects: Annotated[
        list[str] | None, typer.Argument(metavar="JOB | SYSTEM...", help="A job file; with --on, the systems.")
    ] = None,
    overrides: SetOption = None,
    out: OutOption = None,
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
) -> None:
    """Compare base and trained model on held-out topics, and on retrieval without instructions.

    The numbers are kept in OUT/evaluation.json.

    With --on, compare systems on published benchmarks beside BM25 and the base model: a model's directory, a hub name,
    openai:MODEL@URL, rerank:MODEL. `foil benchmarks list` names the benchmarks. Results go to OUT/results.jsonl.
    """
    from cluster.extras import need

    need("sentence_transformers", extra="train")
    given = subjects or []
    if on:
        from cluster.evaluation import DEFAULT_OUT, evaluate_benchmarks

        evaluate_benchmarks(
            given, on, overrides=overrides or [], measures=measures or [], first=first, out=out or DEFAULT_OUT,
            keep_runs=runs, into_cards=card, as_json=as_json,
        )  # fmt: skip
    elif len(given) == 1 and not measures and not runs and not card:
        _evaluate_job(Path(given[0]), overrides, out, as_json=as_json)
    else:
        raise UsageError("give one job file; or systems and the benchmark that they are for, with --on KIND:PATH")


def _evaluate_job(job_file: Path, overrides: list[str] | None, out: Path | None, *, as_json: bool) -> None:
    from cluster.job import load_job
    from cluster.training import pin_topics, train_settings
    from trainer.model.checksums import read_facts
    from trainer.text_templates import TextTemplate

    job = load_job(job_file, overrides or [], out)
    settings = train_settings(job_file, job)
    view = pin_topics(job, settings)
    template = TextTemplate(**read_facts(job.out / "model")["template"])
    topics = view.read_all("heldout")
    from trainer.evaluation import evaluate as evaluation
    from trainer.model.packaged_minilm import minilm_folder
    from trainer.settings import EvaluateSettings

    measures, base_model = job.evaluate or EvaluateSettings(), settings.base or minilm_folder()
    compared = _scores_of_reranker if settings.reranker else _scores_of_embedder
    base, trained = compared(base_model, job.out / "model", template, topics, measures)
    differences = evaluation.compare(base, trained, measures.resamples)
    (job.out / "evaluation.json").write_text(json.dumps([asdict(row) for row in differences], indent=1))
    show(["in points", "n", "base", "trained", "difference", "95 % interval"], map(_row, differences))
    if as_json:
        print_json({row.measure: asdict(row) for row in differences})


def _scores_of_embedder(
    base: Path | str, trained: Path, template: TextTemplate, topics: list[TopicGroup], measures: EvaluateSettings
) -> tuple[Scores, Scores]:
    """The measures of both over the pool of all topics."""
    from trainer.evaluation.evaluate import evaluate as measure
    from trainer.model.encoder import load_encoder

    first, second = (measure(load_encoder(model, template, measures.encode), topics, measures)
                     for model in (base, trained))  # fmt: skip
    return first, second


def _scores_of_reranker(
    base: Path | str, trained: Path, template: TextTemplate, topics: list[TopicGroup], measures: EvaluateSettings
) -> tuple[Scores, Scores]:
    """The measures of the reranker, and of its base as an embedder, over the same candidates."""
    from trainer.model.encoder import load_encoder
    from trainer.reranker.list_measures import evaluate_lists, table_of_encoder, table_of_scorer
    from trainer.reranker.pair_scorer import load_pair_scorer

    if measures.rerank:
        raise UsageError("`evaluate.rerank` is for embedders; name the lists as a benchmark: --on FILE.yaml")
    tables = (
        table_of_encoder(load_encoder(base, template, measures.encode)),
        table_of_scorer(load_pair_scorer(trained, template, measures.encode)),
    )
    first, second = (evaluate_lists(table, template, topics, measures.cutoff) for table in tables)
    return first, second


def _row(row: MeasureDifference) -> tuple[str, ...]:
    measure, interval = _MEASURES.get(row.measure, row.measure), f"[{row.low:+.1f}, {row.high:+.1f}]"
    return (measure, str(row.queries), f"{row.base:.1f}", f"{row.trained:.1f}", f"{row.difference:+.1f}", interval)
