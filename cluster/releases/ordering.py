"""What `foil export` asks for: split, template, corpus and what careful readers found, of a run and perhaps its job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from foil.cluster.catalog import open_seeds
from foil.cluster.job import load_training_job, read_seeds, settings_beside_job
from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot, read_accepted, take_snapshot
from foil.datasets_out.release.card import CardRow
from foil.datasets_out.sql.audits import read_audits
from foil.datasets_out.training.sources import SourceSettings, TopicSource, pin_source
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.errors import UsageError
from foil.engine.settings import Settings
from foil.engine.topic import Seed
from foil.prompts.languages import identify
from foil.trainer.text_templates import TextTemplate, template_named

if TYPE_CHECKING:
    from foil.validators.audits.score import AuditScore, Share

_SAMPLE = 400
_LEAST_SHARE = 0.05


class ExportSettings(Settings):
    """What decides the rows of a release besides the run."""

    split: SplitSettings = SplitSettings()
    protect: tuple[SourceSettings, ...] = Field(
        (), description="runs whose held-out and dev texts stay out of training too"
    )
    template: str = Field("query_instruction", description="how instruction and query become one text")


def export_settings(overrides: Sequence[str], job_file: Path | None) -> ExportSettings:
    """The settings under `--set`; what nobody sets is the `train` section's of the job, if there is one."""
    job = load_training_job(job_file) if job_file else None
    return settings_beside_job(overrides, ExportSettings, job, "split", "protect", "template")


def open_view(out: Path, snapshot: str | None, settings: ExportSettings) -> TrainingView:
    """The run as a trainer sees it; without a name, what is committed now gets one, so that it can be made again."""
    source = load_snapshot(out, snapshot)
    if snapshot is None:
        source = take_snapshot(out, f"export-{source.digest[:12]}")
    protected = [pin_source(each) for each in settings.protect]
    return TrainingView([TopicSource(source)], settings.split, protected)


def template_of(settings: ExportSettings) -> TextTemplate:
    """The template by its name; UsageError where the name is that of prompts which only a model knows."""
    if settings.template == "own":
        raise UsageError(
            "the template `own` is that of a model's prompts; --set template=query_instruction gives another"
        )
    return template_named(settings.template)


def seeds_of(path: Path) -> Iterable[Seed]:
    """The seeds of a job file, or of a YAML page that is the `seeds` section alone."""
    return open_seeds(read_seeds(path))


def languages_of(snapshot: Snapshot) -> tuple[str, ...]:
    """The languages of the first accepted topics' queries and passages, the commonest first."""
    texts = (
        " ".join((topic.query, *(passage.text for passage in topic.passages[:1])))
        for topic in islice(read_accepted(snapshot), _SAMPLE)
    )
    tally = Counter(language for language, probability in map(identify, texts) if probability > 0.9)
    return tuple(name for name, count in tally.most_common() if count >= _LEAST_SHARE * tally.total() and name != "zxx")


def audit_rows_of(out: Path) -> tuple[CardRow, ...]:
    """What careful readers found, over all and by recipe, as lines of a card."""
    from foil.validators.audits.score import AuditRow, score

    rows = read_audits(out).rename_columns({"is_natural": "natural"}).to_pylist()
    names = {field.name for field in fields(AuditRow)}
    by_audit: dict[tuple[str, str], list[AuditRow]] = {}
    for row in rows:
        audit_row = AuditRow(**{name: value for name, value in row.items() if name in names})
        by_audit.setdefault((audit_row.audit, audit_row.reader), []).append(audit_row)
    return tuple(
        line
        for (audit, reader), own in sorted(by_audit.items())
        for score_row in score(own)
        if score_row.group in ("all", "recipe")
        for line in _lines(f"{audit}, {reader}: {score_row.group} {score_row.value}".strip(), score_row)
    )


def judge_rows_of(out: Path, snapshot: str) -> tuple[CardRow, ...]:
    """How the judges did: their canaries, and kappa with people who marked the same pairs, as lines of a card."""
    from foil.cluster.desk.measures import canaries_of, people_agree
    from foil.datasets_out.desk.topics import asker

    ask = asker(out, snapshot)
    canaries = [CardRow(each.judge, each.measure, _share(each.share)) for each in canaries_of(ask)]
    agreed = [
        CardRow(
            f"{each.first} / {each.second}",
            f"Cohen's kappa over {each.pairs:,} pairs",
            "undefined: nobody varies"
            if each.kappa is None or each.low is None
            else f"{each.kappa:.2f} (95 %: {each.low:.2f} to {each.high:.2f})",
        )
        for each in people_agree(ask)
    ]
    return (*canaries, *agreed)


def _lines(group: str, score_row: AuditScore) -> Iterable[CardRow]:
    for name in ("label_error", "unusable", "unnatural", "given_away", "answers_lost"):
        share = getattr(score_row, name)
        if share.of:
            yield CardRow(group, name.replace("_", " "), _share(share))


def _share(share: Share) -> str:
    return f"{share.count} of {share.of} (95 %: {share.low:.1%} to {share.high:.1%})"
