"""`foil revalidate`: the rows of a run, rejected ones too, through the validators of a job, as a run of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, ReuseOption, SetOption, SnapshotOption
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.cluster.job import Job


def revalidate(
    out: OutArgument,
    into: Annotated[str, typer.Argument(metavar="INTO", help="A folder for the new run, or s3://BUCKET/RUN.")],
    job_file: Annotated[Path, typer.Option("--job", metavar="JOB", help="The job whose validators and models decide.")],
    overrides: SetOption = None,
    reuse: ReuseOption = None,
    snapshot: SnapshotOption = None,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Take INTO from a run that holds it, once that one has stopped.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put the rows of a run, rejected ones too, through the validators of a job; only new judgments are paid."""
    from foil.cluster.commands.operators.run import run_and_show
    from foil.cluster.job import load_job

    job = _over_stored(load_job(job_file, overrides or [], into), out, snapshot)
    run_and_show(job, [*(reuse or []), *_with_sources(out)], takeover=takeover, as_json=as_json)


def _with_sources(out: Path) -> list[Path]:
    """The run and those behind it, as far as they are still there: whose journals may have the replies of judges."""
    from foil.cluster.planning.tries import has_run
    from foil.datasets_out.curation.origins import read_sources

    runs = [out]
    for run in runs:
        runs += [source for each in read_sources(run) if has_run(source := Path(each.out)) and source not in runs]
    return runs


def _over_stored(job: Job, out: Path, snapshot: str | None) -> Job:
    """The job over all rows of a run: its seeds and recipe are those rows, its limits of seeds do not count."""
    from foil.cluster.seeds.stored_topics import StoredTopicsSettings
    from foil.prompts.recipes.stored import StoredSettings

    if job.out.resolve() == out.resolve():
        raise UsageError(
            f"{out} is the run itself; a run is never changed in place, so give the new one another folder"
        )
    breakers = job.limits.breakers.model_copy(update={"share": 1.0})  # rows that failed before are no failures now
    limits = job.limits.model_copy(update={"seeds": None, "accept": None, "breakers": breakers})
    return replace(
        job,
        seeds=StoredTopicsSettings(out=out, snapshot=snapshot),
        recipe=StoredSettings(),
        limits=limits,
        train=None,
        evaluate=None,
    )
