"""`foil relabel`: somebody's training set through a judge, and out again without its false negatives."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foil.cluster.commands.arguments import JsonOption, RetryOption, ReuseOption, SetOption
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.cluster.job import Job
    from foil.cluster.releases.relabelled import Relabelled

_SOME_FAILED = 3
_ONE_SPLIT = ("split.heldout_share=0", "split.dev_share=0")
Probability = float | None


class Negatives(StrEnum):
    """What becomes of a negative that the judge calls relevant."""

    DROP = "drop"
    TURN = "turn"
    KEEP = "keep"


class Positives(StrEnum):
    """What becomes of a positive that it calls not relevant."""

    MARK = "mark"
    DROP = "drop"


class SetFormat(StrEnum):
    """The layout of what is written."""

    SAME = "same"
    SENTENCE_TRANSFORMERS = "sentence-transformers"
    TEVATRON = "tevatron"
    FLAG_EMBEDDING = "flagembedding"


IntoArgument = Annotated[Path, typer.Argument(metavar="INTO", help="A folder for the run, the set and passages.jsonl.")]
JobOption = Annotated[
    Path | None, typer.Option("--job", metavar="JOB", help="Its `models` and its validator judge_demands decide.")
]
ModelOption = Annotated[str, typer.Option(metavar="MODEL@URL", help="The judge's model, in place of a job.")]
ColumnsOption = Annotated[
    str, typer.Option(help="Other columns: '{query: q, positives: [good], negatives: [bad], instruction: i}'.")
]
FormatOption = Annotated[SetFormat, typer.Option("--format", help="The layout of what is written.")]
NegativesOption = Annotated[Negatives, typer.Option(help="What becomes of a negative that is relevant.")]
PositivesOption = Annotated[Positives, typer.Option(help="What becomes of a doubtful positive.")]
ThresholdOption = Annotated[
    Probability, typer.Option(help="P(relevant) of a false negative. Default: the judge's `keep`.")
]
DoubtOption = Annotated[
    Probability, typer.Option(help="P(relevant) under which a positive is doubtful. Default: the judge's `drop`.")
]
AbsoluteOption = Annotated[
    bool, typer.Option("--absolute", help="The threshold alone decides, not also the query's own positives.")
]
TakeoverOption = Annotated[
    bool, typer.Option("--takeover", help="Take INTO from a run that holds it, once that one has stopped.")
]


@dataclass(frozen=True, slots=True)
class _Policy:
    """What is done with labels, and from when on."""

    false_negatives: Negatives
    positives: Positives
    threshold: Probability
    doubt: Probability
    absolute: bool


def relabel(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The set: JSONL, Parquet, CSV or TSV, or a folder.")],
    into: IntoArgument,
    job_file: JobOption = None,
    model: ModelOption = "",
    columns: ColumnsOption = "",
    form: FormatOption = SetFormat.SAME,
    false_negatives: NegativesOption = Negatives.DROP,
    positives: PositivesOption = Positives.MARK,
    threshold: ThresholdOption = None,
    doubt: DoubtOption = None,
    absolute: AbsoluteOption = False,
    overrides: SetOption = None,
    reuse: ReuseOption = None,
    takeover: TakeoverOption = False,
    retry_failed: RetryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the false negatives of a training set with a judge, drop or turn them, and write the set again.

    INTO/run is a run like any other; the same command goes on with it. INTO/set is the set, INTO/passages.jsonl says of
    every passage its P(relevant) and what was done.
    """
    from foil.cluster.commands.operators.run import run_and_show

    _check_places(file, into)
    policy = _Policy(false_negatives, positives, threshold, doubt, absolute)
    seeds = [f"seeds={_seeds(file, columns)}", "recipe={kind: stored}"]
    job = _decided(_job(job_file, model, [*seeds, *(overrides or [])], into / "run"), policy)
    failed: typer.Exit | None = None
    try:
        run_and_show(job, reuse or [], takeover=takeover, retry_failed=retry_failed, as_json=False)
    except typer.Exit as ended:
        if ended.exit_code != _SOME_FAILED:
            raise
        failed = ended
    _write(job, into, form, as_json=as_json)
    if failed:
        raise failed


def _check_places(file: Path, into: Path) -> None:
    """Refuses where the set would be written over, or where something stands that is not of this command."""
    from foil.cluster.releases.relabelled import PASSAGES, ROWS

    written = [into / name for name in (ROWS, PASSAGES, "run")]
    for path in written:
        if file.resolve().is_relative_to(path.resolve()):
            raise UsageError(f"{file} lies where `foil relabel` writes ({path}); give another INTO")
        if path.is_symlink() or (path.exists() and not (into / "run" / "run.json").is_file()):
            raise UsageError(f"{path} is not of `foil relabel`, which would write it anew; give another INTO")
    if into.resolve().is_relative_to(file.resolve()):
        raise UsageError(f"{into} lies in {file}, whose files are read; give an INTO outside of it")


def _seeds(file: Path, columns: str) -> str:
    from foil.cluster.yaml_page import read_yaml

    more: dict[str, Any] = {"columns": read_yaml(columns, "--columns")[0]} if columns else {}
    return json.dumps({"kind": "training_set", "path": str(file), **more})


def _job(job_file: Path | None, model: str, overrides: list[str], out: Path) -> Job:
    """The job over the set: the one that is named, or the default judge with a model."""
    from foil.cluster.examining.models import hosted_of, names_model
    from foil.cluster.job import job_of, load_job

    if bool(job_file) == bool(model):
        raise UsageError("name who judges: --job JOB, or --model MODEL@URL")
    if job_file:
        job = load_job(job_file, overrides, out)
        return replace(job, train=None, evaluate=None)
    if not names_model(model):
        raise UsageError(f"--model {model} is not of the form MODEL@URL, such as qwen@http://localhost:8000/v1")
    [hosted] = hosted_of(model, []).values()
    writer = {"kind": "hosted", **hosted.model_dump(mode="json", exclude_unset=True)}
    return job_of({"models": {"writer": writer}, "validators": [{"kind": "judge_demands"}]}, overrides, out)


def _decided(job: Job, policy: _Policy) -> Job:
    """The job, with its judge doing as the options say."""
    from foil.validators.judges.demands import JudgeDemandsSettings

    changed: dict[str, Any] = {
        "false_negatives": policy.false_negatives.value,
        "doubtful_positives": policy.positives.value,
        "as_positives": not policy.absolute,
        "contrast": False,
    }
    changed |= {"keep": policy.threshold} if policy.threshold is not None else {}
    changed |= {"drop": policy.doubt} if policy.doubt is not None else {}
    judges = [each for each in job.validators if isinstance(each, JudgeDemandsSettings)]
    if len(judges) != 1:
        raise UsageError(
            f"the job has {len(judges)} validators judge_demands; relabel needs one, which gives P(relevant) of each "
            "passage: add `- kind: judge_demands` to `validators`, with `template` for a judge's own prompt"
        )
    if {"keep", "drop"} & changed.keys() and not 0 < (changed.get("drop") or judges[0].drop) <= (
        changed.get("keep") or judges[0].keep
    ) < 1:
        raise UsageError("0 < --doubt <= --threshold < 1 must hold; give other ones")
    validators = (each.model_copy(update=changed) if each is judges[0] else each for each in job.validators)
    return replace(job, validators=tuple(validators))


def _write(job: Job, into: Path, form: SetFormat, *, as_json: bool) -> None:
    """Writes the set anew, and what became of each passage."""
    from foil.cluster.commands.releases.export import Format, ReleaseOptions, SplitName, show_release
    from foil.cluster.commands.releases.export import write as write_release
    from foil.cluster.releases.relabelled import ROWS, write_relabelled
    from foil.cluster.seeds.training_set import TrainingSetSettings
    from foil.engine.atomic_files import held

    assert isinstance(job.seeds, TrainingSetSettings)
    with held(into, "relabel"):
        counts = write_relabelled(job.seeds, job.out, into, with_rows=form is SetFormat.SAME)
        if form is not SetFormat.SAME:
            options = ReleaseOptions(
                job.out,
                Format(form.value),
                SplitName.TRAIN,
                into / ROWS,
                None,
                None,
                None,
                _ONE_SPLIT,
                None,
                allow=True,
            )
            show_release(write_release(options), into / ROWS, as_json=False)
    _show(counts, into, as_json=as_json)


def _show(counts: Relabelled, into: Path, *, as_json: bool) -> None:
    from foil.cluster.releases.relabelled import UNSEEN
    from foil.cluster.terminal import print_json, say, show

    lines = [(f"passages {fate}", f"{count:,}") for fate, count in sorted(counts.passages.items())]
    lines += [(f"rows {outcome}", f"{count:,}") for outcome, count in sorted(counts.rows.items()) if count]
    show(["what became of the set", "how many"], lines, str(into / "set"), numbers=True)
    say(f"{into / 'passages.jsonl'} says of every passage its P(relevant) and what was done")
    if unseen := counts.rows[f"left out: {UNSEEN}"]:
        say(f"WARNING: {unseen:,} rows are left out because the run has not their query: it skipped or never read them")
    if counts.unread:
        say(f"WARNING: {counts.unread:,} labels stand unread: the judge gave no answer that could be read")
    if as_json:
        print_json({"into": str(into), "passages": dict(counts.passages), "rows": dict(+counts.rows)})
