"""`foil merge`, `foil mix` and `foil revalidate`: runs out of runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, ReuseOption, SetOption, SnapshotOption
from foil.cluster.terminal import print_json, show
from foil.engine.errors import UsageError
from foil.engine.storage.opening import mirror_of

if TYPE_CHECKING:
    from foil.cluster.job import Job


def merge(
    outs: Annotated[list[Path], typer.Argument(parser=mirror_of, metavar="OUT...", help="The runs to merge.")],
    into: Annotated[Path, typer.Argument(parser=mirror_of, metavar="INTO", help="A folder for the new run.")],
    near_duplicates: Annotated[
        float | None,
        typer.Option(
            min=0.5, max=1, metavar="SHARE", help="Leave out topics as alike as this to one of an earlier run."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write all topics of several runs as one run, with the snapshot `merged`; the runs stay as they are.

    A seed has one topic of a recipe: of several runs' the first that was accepted. To train on all that other settings
    made of it, name the runs in `train.data`.

    With --near-duplicates, the query and its relevant passages are compared by their three-word sequences (Jaccard
    similarity; candidates by MinHash). Topics of one run are not compared with each other.
    """
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.curation.merge import merge as merge_runs
    from foil.validators.overlap.duplicates import TopicRepeats

    sources = [load_snapshot(out, None, verify=True) for out in outs]
    merged = merge_runs(sources, into, TopicRepeats(near_duplicates) if near_duplicates else None)
    if as_json:
        print_json(
            {"out": str(into), "digest": merged.snapshot.digest, "topics": merged.snapshot.rows("topics"),
             "repeated": merged.repeated, "differing": merged.differing, "left_out": dict(merged.left_out)}
        )  # fmt: skip
        return
    rows = [(str(source.out), f"{source.rows('topics'):,}", source.digest[:16]) for source in sources]
    rows += [
        ("left out, since another run has them", f"{merged.repeated:,}", ""),
        ("left out: another run has another topic of the same seed and recipe", f"{merged.differing:,}", ""),
    ]
    rows += [(f"left out: {reason} of an earlier run", f"{n:,}", "") for reason, n in sorted(merged.left_out.items())]
    rows += [(str(into), f"{merged.snapshot.rows('topics'):,}", merged.snapshot.digest[:16])]
    show(["run", "topics", "digest"], rows, numbers=True)


def mix(
    out: OutArgument,
    into: Annotated[Path, typer.Argument(help="A folder for the four mixes.")],
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write Dual-View's mixes of a run with both views, each as a run: ins_orig, ins_dv, all_orig, all_dv."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.training.row_mixes import write_mixes

    mixes = write_mixes(load_snapshot(out, snapshot, verify=True), into)
    if as_json:
        print_json(
            {name: {"out": str(run.out), "topics": run.rows("topics"), "digest": run.digest}
             for name, run in mixes.items()}
        )  # fmt: skip
        return
    rows = [(name, run.out, run.rows("topics"), run.rows("intents"), run.digest[:16]) for name, run in mixes.items()]
    show(["mix", "run", "topics", "rows", "digest"], rows)


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
    """Put the rows of a run, rejected ones too, through the validators of a job; only new judgments are paid.

    All rows, whatever the job limits; --set limits.seeds=N takes the first N, and more or none the next time goes on.
    """
    from foil.cluster.commands.operators.run import run_and_show
    from foil.cluster.job import load_job

    keys = [override.partition("=")[0] for override in overrides or []]
    job = _over_stored(load_job(job_file, overrides or [], into), out, snapshot, keys)
    run_and_show(job, [*(reuse or []), *_with_sources(out)], takeover=takeover, as_json=as_json)


def _with_sources(out: Path) -> list[Path]:
    """The run and those behind it, as far as they are still there: whose journals may have the replies of judges."""
    from foil.cluster.tries import has_run
    from foil.datasets_out.curation.origins import read_sources

    runs = [out]
    for run in runs:
        runs += [source for each in read_sources(run) if has_run(source := Path(each.out)) and source not in runs]
    return runs


def _over_stored(job: Job, out: Path, snapshot: str | None, keys: list[str]) -> Job:
    """The job over the rows of a run: its seeds and recipe are those rows, and of its limits of seeds only those count
    that are among the `keys` of --set."""
    from foil.cluster.seeds.stored_topics import StoredTopicsSettings
    from foil.prompts.recipes.stored import StoredSettings

    if job.out.resolve() == out.resolve():
        raise UsageError(
            f"{out} is the run itself; a run is never changed in place, so give the new one another folder"
        )
    breakers = job.limits.breakers.model_copy(update={"share": 1.0})  # rows that failed before are no failures now
    unlimited = {key: None for key in ("seeds", "accept") if not {"limits", f"limits.{key}"} & {*keys}}
    limits = job.limits.model_copy(update={**unlimited, "breakers": breakers})
    return replace(
        job,
        seeds=StoredTopicsSettings(out=out, snapshot=snapshot),
        recipe=StoredSettings(),
        limits=limits,
        train=None,
        evaluate=None,
    )
