"""`foil evaluate JOB`: a trained embedder or reranker and its base on the job's held-out topics."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from foil.cluster.job import load_training_job
from foil.cluster.terminal import print_json, show
from foil.cluster.training import pin_topics, train_settings
from foil.engine.errors import UsageError
from foil.engine.storage.trees import download
from foil.trainer.evaluate.comparison.results import Result, results
from foil.trainer.evaluate.comparison.topics import score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem, ScorerSystem
from foil.trainer.model.checksums import read_facts
from foil.trainer.model.encoder import load_encoder
from foil.trainer.model.packaged_minilm import minilm_folder
from foil.trainer.model.pair_scorer import load_pair_scorer
from foil.trainer.settings import EncodeSettings, EvaluateSettings, Instructions, TrainSettings
from foil.trainer.text_templates import TextTemplate
from foil.trainer.train.data.instructions import pairs_with_instructions

_MEASURES = {
    "both_views": "both-views pair accuracy",
    "should_fall": "p-MRR of passages that should fall",
    "should_stay": "p-MRR of passages that should stay",
    "net": "net p-MRR (fall - stay)",
    "instructed_ndcg": "nDCG@10 with instructions",
    "plain_ndcg": "nDCG@10 without instructions, held-out pool",
    "plain_rr": "MRR without instructions, held-out pool",
}

_COLUMNS = ["in points", "n", "base", "trained", "difference", "95 % interval"]

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
    job = load_training_job(job_file, overrides, out)
    settings = train_settings(job_file, job)
    view = pin_topics(job, settings)
    download(job.out / "model")
    template = TextTemplate(**read_facts(job.out / "model")["template"])
    topics, measures = view.read_all("heldout"), job.evaluate or EvaluateSettings()
    if settings.reranker and instructions != "given":
        raise UsageError("--instructions is for embedders; a reranker's topics are measured under their own")
    pairs = pairs_with_instructions(topics, instructions)
    scored = partial(score_topics, groups=topics, measures=measures.measures, pairs=pairs,
                     candidates=settings.reranker is not None)  # fmt: skip
    base, trained = map(scored, _models(job.out / "model", settings, template, measures.encode))
    both = [replace(base, values={**base.values, **trained.values})]
    outcomes = list(results("topics", both, "base", "queries", measures.resamples))
    rows = _rows([result for result in outcomes if not result.group])
    name = "evaluation.json" if instructions == "given" else f"evaluation-{instructions}.json"
    (job.out / name).write_text(json.dumps(rows, indent=1))
    of_corpora = [result for result in outcomes if result.group.startswith("domain: ")]
    by_corpus = {group.partition(": ")[2]: _rows(list(own)) for group, own in groupby(of_corpora, lambda r: r.group)}
    if by_corpus:
        (job.out / f"corpora-{name}").write_text(json.dumps(by_corpus, indent=1))
    if as_json:
        print_json({row["measure"]: row for row in rows})
        return
    show(_COLUMNS, map(_line, rows), None if instructions == "given" else f"{instructions} instructions")
    if by_corpus:
        lines = [(corpus, *_line(row)) for corpus, own in by_corpus.items() for row in own if row["measure"] in _SHORT]
        show(["corpus", *_COLUMNS], lines)


def _models(
    trained: Path, settings: TrainSettings, template: TextTemplate, encode: EncodeSettings
) -> Iterator[EncoderSystem | ScorerSystem]:
    """The base, then the trained model; each is loaded when the one before is done with."""
    yield EncoderSystem("base", load_encoder(settings.base or minilm_folder(), template, encode))
    if settings.reranker:
        yield ScorerSystem("trained", load_pair_scorer(trained, template, encode))
    else:
        yield EncoderSystem("trained", load_encoder(trained, template, encode))


def _rows(outcomes: Sequence[Result]) -> list[dict[str, Any]]:
    """A row a measure, base and trained model in it."""
    base = {result.measure: result.value for result in outcomes if result.system == "base"}
    return [
        {"measure": result.measure, "queries": result.count, "base": base[result.measure], "trained": result.value,
         "difference": result.difference, "low": result.low, "high": result.high}
        for result in outcomes
        if result.system == "trained"
    ]  # fmt: skip


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = (f"{row['base']:.1f}", f"{row['trained']:.1f}", f"{row['difference']:+.1f}")
    measure, interval = _MEASURES.get(row["measure"], row["measure"]), f"[{row['low']:+.1f}, {row['high']:+.1f}]"
    return (measure, str(row["queries"]), *numbers, interval)
