"""`foil submit`: the same job through Ray Jobs. The run's state is in its `out`, so a second submission resumes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands.arguments import JobArgument, SetOption
from cluster.terminal import print_line
from engine.errors import UsageError

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

_POLL_S = 1.0
_EXCLUDED = (
    ".git", ".venv*", "benchmarks", "tests", "datasets_out/data", "out", "**/__pycache__", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis",
)  # fmt: skip


def submit(
    job_file: JobArgument,
    address: Annotated[str, typer.Option(help="The Ray head's dashboard.")] = "http://127.0.0.1:8265",
    overrides: SetOption = None,
    python: Annotated[str, typer.Option(help="The head's Python that has Foil's requirements.")] = "python",
    wait: Annotated[bool, typer.Option(help="Wait for the end and print the job's log.")] = True,
) -> None:
    """Send a job to a running Ray head through Ray Jobs; the same job again resumes.

    Uploads this checkout and the job file, and starts `foil run` on the cluster. The job's `out` must be a folder that
    every node sees. No environment variable is sent, so secrets stay here.
    """
    from cluster.extras import need
    from cluster.job import load_job

    need("ray", extra="ray")
    job = load_job(job_file, overrides or [])
    if job.runtime.kind != "ray":
        raise UsageError(f"{job_file}: runtime.kind is {job.runtime.kind!r}; to submit it set kind: ray and workers: N")
    client = _client(address)
    name = _send(client, _command(python, job_file, overrides or [], job.out.resolve()), job.out.resolve())
    print_line(f"submitted {name} to {address}")
    if wait:
        _follow(client, name)


def _command(python: str, job_file: Path, overrides: Sequence[str], out: Path) -> list[str]:
    home, inside = Path.cwd(), job_file.resolve()
    if not inside.is_relative_to(home):
        raise UsageError(
            f"job file {job_file} lies outside of {home}, which is uploaded; move it there or change folder"
        )
    settings = [part for override in overrides for part in ("--set", override)]
    return [python, "-m", "cluster", "run", str(inside.relative_to(home)), *settings, "--out", str(out)]


def _send(client: JobSubmissionClient, command: Sequence[str], out: Path) -> str:
    """Uploads the current folder and starts the command there; returns the submission's name."""
    from engine.ids import content_id

    name = f"foil-{content_id('job', str(out))[:8]}-{time.strftime('%Y%m%d-%H%M%S')}"
    environment = {"working_dir": str(Path.cwd()), "excludes": list(_EXCLUDED)}
    client.submit_job(entrypoint=shlex.join(command), submission_id=name, runtime_env=environment)
    return name


def _client(address: str) -> JobSubmissionClient:
    from ray.job_submission import JobSubmissionClient

    try:
        return JobSubmissionClient(address)
    except (ConnectionError, RuntimeError) as error:
        raise UsageError(
            f"no Ray head answers at {address}: {error}; start one with `ray start --head`, "
            "set RAY_AUTH_MODE=token if it wants a token, or give --address"
        ) from error


def _follow(client: JobSubmissionClient, name: str) -> None:
    """Prints the log as it grows; exits with 1 if the job did not succeed (Ray hides the job's own code)."""
    from ray.job_submission import JobStatus

    printed = 0
    while True:
        status = client.get_job_status(name)
        log = client.get_job_logs(name)
        print_line(log[printed:], end="")
        printed = len(log)
        if status.is_terminal():
            break
        time.sleep(_POLL_S)
    print_line(f"{name}: {status}")
    if status != JobStatus.SUCCEEDED:
        raise typer.Exit(1)
