"""`foil cancel`: stops a submitted run, which drains and can be resumed."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.commands.arguments import AddressOption, SubmissionArgument
from cluster.terminal import print_line


def cancel(
    submission: SubmissionArgument,
    address: AddressOption = "http://127.0.0.1:8265",
    wait: Annotated[bool, typer.Option(help="Wait until the run has drained and ended.")] = True,
) -> None:
    """Stop a submitted run: seeds in flight drain, complete partitions are committed, and submitting resumes."""
    from cluster.extras import need

    need("ray", extra="ray")
    from cluster.commands.operators import ray_jobs

    client = ray_jobs.connect(address)
    name = ray_jobs.find_job(client, submission)
    if not ray_jobs.stop(client, name):
        print_line(f"{name} has ended already")
        return
    print_line(f"{name}: SIGTERM sent")
    if wait:
        print_line(f"{name}: {ray_jobs.await_end(client, name).status}")
