"""`foil evaluate`: compares the trained embedder with its base on held-out topics."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from cluster.commands.arguments import JobArgument, JsonOption, OutOption, SetOption
from cluster.terminal import print_json, show

if TYPE_CHECKING:
    from trainer.evaluation.evaluate import MeasureDifference

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
    job_file: JobArgument, overrides: SetOption = None, out: OutOption = None, as_json: JsonOption = False
) -> None:
    """Compare base and trained embedder on held-out topics, and on retrieval without instructions.

    The numbers are kept in OUT/evaluation.json.
    """
    from cluster.extras import need

    need("sentence_transformers", extra="train")
    from cluster.job import load_job
    from cluster.training import pin_topics, train_settings
    from trainer.model.checksums import read_facts

    job = load_job(job_file, overrides or [], out)
    settings = train_settings(job_file, job)
    view = pin_topics(job, settings)
    read_facts(job.out / "model")
    topics = view.read_all("heldout")
    from trainer.evaluation import evaluate as evaluation
    from trainer.model.encoder import load_encoder
    from trainer.model.packaged_minilm import minilm_folder
    from trainer.settings import EvaluateSettings
    from trainer.text_templates import template_named

    measures, template = job.evaluate or EvaluateSettings(), template_named(settings.template)
    trained, base = (
        evaluation.evaluate(load_encoder(model, template, measures.encode), topics, measures)
        for model in (job.out / "model", settings.base or minilm_folder())
    )
    differences = evaluation.compare(base, trained, measures.resamples)
    (job.out / "evaluation.json").write_text(json.dumps([asdict(row) for row in differences], indent=1))
    show(["in points", "n", "base", "trained", "difference", "95 % interval"], map(_row, differences))
    if as_json:
        print_json({row.measure: asdict(row) for row in differences})


def _row(row: MeasureDifference) -> tuple[str, ...]:
    measure, interval = _MEASURES.get(row.measure, row.measure), f"[{row.low:+.1f}, {row.high:+.1f}]"
    return (measure, str(row.queries), f"{row.base:.1f}", f"{row.trained:.1f}", f"{row.difference:+.1f}", interval)
