"""`foil calibrate JOB --on LABELS`: how good the job's judges are by people's labels.

    LABELS.jsonl | KIND:PATH -> labelled pairs -> the job's judges and models -> a row of figures a judge

Replies are kept in a folder, so that a command that was stopped or repeated pays only for what is left.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import Field

from foil.cluster.build import build_models
from foil.cluster.job import Job
from foil.engine.errors import UsageError
from foil.engine.flow.ask import SeedAsk
from foil.engine.flow.budget import Budget
from foil.engine.flow.journal import Journal
from foil.engine.flow.reply_service import ReplyService
from foil.engine.ids import fraction_of
from foil.engine.protocols import Model, for_role
from foil.engine.settings import Settings
from foil.engine.storage.opening import open_store
from foil.engine.topic import Call, Topic
from foil.prompts.parse import parse_reply
from foil.validators.judges.calibration import Calibration, Rated, calibrate, rate_topic
from foil.validators.judges.labelled import LabelledPair, read_pairs, topics_of
from foil.validators.judges.panel import JudgeSettings


class CalibrateSettings(Settings):
    """Which pairs of a benchmark are asked, and which error thresholds are for."""

    least_grade: int = Field(1, ge=1, le=100, description="the grade from which on a document is relevant")
    per_query: int = Field(1, ge=1, le=1_000, description="documents of either kind for each query")
    most: int = Field(200, ge=2, le=10**6, description="pairs in all")
    error: float = Field(0.1, gt=0, lt=1, description="the share of wrong labels that thresholds are for")


def measure_judges(
    job: Job, labels: Sequence[str], settings: CalibrateSettings, replies: Path
) -> list[tuple[str, Calibration]]:
    """The figures of each judge of the job on each source of labels. Raises UsageError where there is none."""
    judges = [each for each in job.validators if isinstance(each, JudgeSettings)]
    if not judges:
        raise UsageError("the job names no judge; add one under `validators`, e.g. `- {kind: judge_demands}`")
    sources = [(source, topics_of(_pairs(source, settings))) for source in labels]
    return asyncio.run(_measure(job, judges, sources, settings, replies))


async def _measure(
    job: Job,
    judges: Sequence[JudgeSettings],
    sources: Sequence[tuple[str, list[tuple[Topic, str]]]],
    settings: CalibrateSettings,
    replies: Path,
) -> list[tuple[str, Calibration]]:
    models = build_models(job)
    service = ReplyService(Journal(open_store(replies)).open(0), Budget(job.limits.budget), "calibrate")
    calibrations = []
    try:
        for source, topics in sources:
            for judge in judges:
                rated, calls = await _rate(judge, topics, models, service, job)
                kind = str(judge.model_dump()["kind"])
                calibrations.append((source, calibrate(kind, _names(judge, models), rated, settings.error, calls)))
    finally:
        for model in {id(model): model for model in models.values()}.values():
            await model.close()
    return calibrations


async def _rate(
    judge: JudgeSettings, topics: Sequence[tuple[Topic, str]], models: dict[str, Model], service: ReplyService, job: Job
) -> tuple[list[Rated], list[Call]]:
    """All that the judge says, and its calls; as many searches at once as the job has seeds."""
    slots = asyncio.Semaphore(job.runtime.window)

    async def one(topic: Topic, core: str) -> tuple[list[Rated], Sequence[Call]]:
        ask = SeedAsk(service, models, parse_reply, corrections=job.replies.corrections, seed_id=topic.id)
        async with slots:
            return await rate_topic(judge, topic, core, ask), ask.calls

    ratings = await asyncio.gather(*(one(topic, core) for topic, core in topics))
    return [each for rated, _ in ratings for each in rated], [call for _, calls in ratings for call in calls]


def _names(judge: JudgeSettings, models: dict[str, Model]) -> str:
    judge_models = (for_role(models, role) for role in judge.judges)
    return "+".join(dict.fromkeys(model.name for model in judge_models if model))


def _pairs(source: str, settings: CalibrateSettings) -> list[LabelledPair]:
    """The pairs of a label file, or of a benchmark KIND:PATH, KIND:PATH#PART, or its YAML page."""
    if Path(source).suffix in (".jsonl", ".tsv", ".csv"):
        return read_pairs(Path(source))
    from foil.cluster.evaluations.benchmarks import read_source
    from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of

    pairs = list(chain.from_iterable(_of_benchmark(each, settings) for each in benchmarks_of(read_source(source))))
    searches: dict[str, list[LabelledPair]] = {}
    for pair in pairs:
        searches.setdefault(pair.core, []).append(pair)
    chosen: list[LabelledPair] = []
    for core in sorted(searches, key=lambda core: fraction_of("calibrate", core)):
        if len(chosen) + len(searches[core]) <= settings.most:
            chosen += searches[core]
    if not chosen:
        raise UsageError(
            f"{source} judges no query's documents both ways (relevant from grade {settings.least_grade} on), or "
            f"{settings.most} pairs are too few for one query; --set least_grade or most"
        )
    return chosen


def _of_benchmark(benchmark: Any, settings: CalibrateSettings) -> Iterator[LabelledPair]:
    """Pairs of each query that has documents of both kinds. Not relevant are documents judged so; where a benchmark
    judges relevant ones alone, those that are relevant to the query's other instructions."""
    of_core: dict[str, set[str]] = {}
    for query in benchmark.queries:
        of_core.setdefault(query.core or query.id, set()).update(benchmark.qrels.get(query.id, {}))
    for query in benchmark.queries:
        grades = benchmark.qrels.get(query.id, {})
        listed = (benchmark.candidates or {}).get(query.id)
        documents = [name for name in of_core[query.core or query.id] if name in benchmark.documents]
        candidates = [name for name in documents if listed is None or name in listed]
        good = [name for name in candidates if grades.get(name, 0) >= settings.least_grade]
        bad = [name for name in candidates if grades.get(name, 0) <= 0]
        if good and bad:
            for names in (good, bad):
                ordered = sorted(names, key=lambda name: fraction_of("calibrate", query.id, name))
                for name in ordered[: settings.per_query]:
                    title, text = benchmark.documents[name]
                    yield LabelledPair(
                        query.query, text, names is good, query.instruction, title, core=query.core or query.id
                    )


def rows_of(calibrations: Sequence[tuple[str, Calibration]]) -> list[dict[str, Any]]:
    """The figures as rows of a table or JSON."""
    return [{"labels": source, **asdict(each)} for source, each in calibrations]
