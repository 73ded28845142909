"""The arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.terminal import data_alone
from foil.engine.storage.opening import mirror_of


def _keep_for_data(context: typer.Context, as_json: bool) -> bool:
    """Gives stdout to the JSON alone, until the command ends."""
    if as_json:
        context.with_resource(data_alone())
    return as_json


JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="The job file (YAML).")]
OutArgument = Annotated[
    Path, typer.Argument(parser=mirror_of, metavar="OUT", help="The folder of a run, or s3://BUCKET/RUN, gs://, az://.")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override one key: a.b=value. Repeatable.")]
OutOption = Annotated[str | None, typer.Option("--out", help="Override the job's `out`: a folder, or s3://BUCKET/RUN.")]
FolderOption = Annotated[Path | None, typer.Option("--out", parser=mirror_of, help="Override the `out` folder.")]
ReuseOption = Annotated[
    list[Path] | None, typer.Option("--reuse", parser=mirror_of, help="The run whose replies are reused. Repeatable.")
]
SnapshotOption = Annotated[str | None, typer.Option(help="A snapshot of the run. Default: all that is committed now.")]
JsonOption = Annotated[
    bool, typer.Option("--json", callback=_keep_for_data, help="Print JSON and nothing else on stdout.")
]
ADDRESS = "RAY_API_SERVER_ADDRESS"
"""The variable in which Ray's own commands look for the head's dashboard, too."""
AddressOption = Annotated[str, typer.Option(envvar=ADDRESS, help="The Ray head's dashboard, http://HEAD:8265.")]
SubmissionArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME|OUT", help="A submission's name, or an `out`: the one that holds it, else its newest."
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Go on to the last seed, however few are accepted and whatever they take.")
]
RetryOption = Annotated[
    bool, typer.Option("--retry-failed", help="Ask failed rows again; as they were, they stay in a snapshot.")
]
