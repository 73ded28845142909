"""`foil cancel`: stops a submitted run, which drains and can be resumed."""

from __future__ import annotations

from typing import Annotated

import typer

from foil.cluster.commands.arguments import AddressOption, SubmissionArgument
from foil.cluster.terminal import print_line


def cancel(
    submission: SubmissionArgument,
    address: AddressOption = "http://127.0.0.1:8265",
    wait: Annotated[bool, typer.Option(help="Wait until the run has drained and ended.")] = True,
) -> None:
    """Stop a submitted run: seeds in flight drain, complete partitions are committed, and submitting resumes.

    Of several submissions for one OUT, the one that holds it is stopped.
    """
    from foil.cluster.extras import need

    need("ray", extra="ray")
    from foil.cluster.commands.operators import ray_jobs
    from foil.engine.storage.lease import holder_of
    from foil.engine.storage.opening import mirror_of, open_store

    client = ray_jobs.connect(address)
    name = ray_jobs.find_job(client, submission)
    if not ray_jobs.stop(client, name):
        print_line(f"{name} has ended already")
    else:
        print_line(f"{name}: SIGTERM sent")
        if not wait:
            return
        print_line(f"{name}: {ray_jobs.await_end(client, name).status}")
    if holder := holder_of(open_store(mirror_of(submission).resolve())):
        print_line(f"{submission} is still held by another run: {holder}; stop that one where it runs")
