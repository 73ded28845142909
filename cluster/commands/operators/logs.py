"""`foil logs`: what a submitted run printed."""

from __future__ import annotations

from typing import Annotated

import typer

from foil.cluster.commands.arguments import AddressOption, SubmissionArgument


def logs(
    submission: SubmissionArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends, with its exit code.")] = False,
    address: AddressOption = "http://127.0.0.1:8265",
) -> None:
    """What a submitted run printed so far, or with -f until it ends."""
    from foil.cluster.extras import need

    need("ray", extra="ray")
    from foil.cluster.commands.operators import ray_jobs

    client = ray_jobs.connect(address)
    name = ray_jobs.find_job(client, submission)
    if follow:
        ray_jobs.end_like(name, ray_jobs.follow(client, name))
    else:
        ray_jobs.print_log(client, name)
