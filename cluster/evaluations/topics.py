"""`foil evaluate JOB`: a trained embedder or reranker and its base on the job's held-out topics."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from foil.cluster.job import load_job
from foil.cluster.terminal import print_json, show
from foil.cluster.training import pin_topics, train_settings
from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.errors import UsageError
from foil.engine.storage.trees import download
from foil.trainer.data.instructions import pairs_with_instructions
from foil.trainer.evaluation.evaluate import MeasureDifference, Scores, compare, compare_corpora
from foil.trainer.evaluation.evaluate import evaluate as evaluate_topics
from foil.trainer.evaluation.list_measures import evaluate_lists, table_of_encoder, table_of_scorer
from foil.trainer.model.checksums import read_facts
from foil.trainer.model.encoder import load_encoder
from foil.trainer.model.packaged_minilm import minilm_folder
from foil.trainer.reranker.pair_scorer import load_pair_scorer
from foil.trainer.settings import EvaluateSettings, Instructions
from foil.trainer.text_templates import TextTemplate

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

_SHORT = ("both_views", "net", "instructed_ndcg", "plain_ndcg")
"""What is shown of each corpus; `corpora-evaluation.json` has all measures."""


def evaluate_job(
    job_file: Path,
    overrides: Sequence[str],
    out: Path | None,
    *,
    instructions: Instructions = "given",
    as_json: bool = False,
) -> None:
    """Compares them, prints a table and keeps it in OUT/evaluation.json, of other instructions evaluation-NAME.json.

    Where the topics are of several corpora, each is shown by itself too.
    """
    job = load_job(job_file, overrides, out)
    settings = train_settings(job_file, job)
    view = pin_topics(job, settings)
    download(job.out / "model")
    template = TextTemplate(**read_facts(job.out / "model")["template"])
    topics, measures = view.read_all("heldout"), job.evaluate or EvaluateSettings()
    models = (settings.base or minilm_folder(), job.out / "model")
    if settings.reranker and instructions != "given":
        raise UsageError("--instructions is for embedders; a reranker's topics are measured under their own")
    if settings.reranker:
        base, trained = _scores_of_reranker(*models, template, topics, measures)
    else:
        pairs = pairs_with_instructions(topics, instructions)
        base, trained = (
            evaluate_topics(load_encoder(model, template, measures.encode), topics, measures, pairs) for model in models
        )
    differences = compare(base, trained, measures.resamples)
    name = "evaluation.json" if instructions == "given" else f"evaluation-{instructions}.json"
    (job.out / name).write_text(json.dumps([asdict(row) for row in differences], indent=1))
    title = None if instructions == "given" else f"{instructions} instructions"
    show(["in points", "n", "base", "trained", "difference", "95 % interval"], map(_row, differences), title)
    by_corpus = compare_corpora(topics, base, trained, measures.resamples)
    if len(by_corpus) > 1:
        (job.out / f"corpora-{name}").write_text(json.dumps(_by_corpus(by_corpus), indent=1))
        rows = [(corpus, *_row(row)) for corpus, found in by_corpus.items() for row in found if row.measure in _SHORT]
        show(["corpus", "in points", "n", "base", "trained", "difference", "95 % interval"], rows)
    if as_json:
        print_json({row.measure: asdict(row) for row in differences})


def _scores_of_reranker(
    base: Path | str, trained: Path, template: TextTemplate, topics: Sequence[TopicGroup], measures: EvaluateSettings
) -> tuple[Scores, Scores]:
    """The measures of the reranker's base as an embedder, and of the reranker, over the same candidates."""
    if measures.rerank:
        raise UsageError("`evaluate.rerank` is for embedders; name the lists as a benchmark: --on FILE.yaml")
    tables = (
        table_of_encoder(load_encoder(base, template, measures.encode)),
        table_of_scorer(load_pair_scorer(trained, template, measures.encode)),
    )
    first, second = (evaluate_lists(table, template, topics, measures.cutoff) for table in tables)
    return first, second


def _by_corpus(found: dict[str, list[MeasureDifference]]) -> dict[str, list[dict[str, Any]]]:
    return {corpus: [asdict(row) for row in rows] for corpus, rows in found.items()}


def _row(row: MeasureDifference) -> tuple[str, ...]:
    measure, interval = _MEASURES.get(row.measure, row.measure), f"[{row.low:+.1f}, {row.high:+.1f}]"
    return (measure, str(row.queries), f"{row.base:.1f}", f"{row.trained:.1f}", f"{row.difference:+.1f}", interval)
