"""`foil cancel`: stops a submitted run, which drains and can be resumed."""

from __future__ import annotations

from typing import Annotated

import typer

from foil.cluster.commands.arguments import AddressOption, JsonOption, SubmissionArgument
from foil.cluster.terminal import print_json, print_line


def cancel(
    submission: SubmissionArgument,
    address: AddressOption = "http://127.0.0.1:8265",
    wait: Annotated[bool, typer.Option(help="Wait until the run has drained and ended.")] = True,
    as_json: JsonOption = False,
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
    state, holder = "has ended already", ""
    if stopped := ray_jobs.stop(client, name):
        state = str(ray_jobs.await_end(client, name).status) if wait else "SIGTERM sent"
    if wait or not stopped:
        holder = holder_of(open_store(mirror_of(submission).resolve()))
    if as_json:
        print_json({"submission": name, "state": state, "held_by": holder})
        return
    print_line(f"{name}: {state}")
    if holder:
        print_line(f"{submission} is still held by another run: {holder}; stop that one where it runs")
