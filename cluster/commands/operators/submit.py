"""`foil submit`: the same job through Ray Jobs. The run's state is in its `out`, so a second submission resumes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from ray.job_submission import JobStatus, JobSubmissionClient

from cluster.job import load_job
from engine.errors import UsageError
from engine.ids import content_id

_POLL_S = 1.0
_EXCLUDED = (
    ".git", ".venv*", "benchmarks", "tests", "datasets_out/data", "out", "**/__pycache__", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis",
)  # fmt: skip


def submit_job(path: Path, address: str, overrides: Sequence[str], *, python: str = "python", wait: bool) -> None:
    """Uploads this checkout and the job file, starts `foil run` on the cluster, and follows it.

    `python` is the one on the head that has Foil's requirements. The job's `out` must be a folder that every node sees.
    Secrets never travel: no environment variable is sent.
    """
    job = load_job(path, overrides)
    if job.runtime.kind != "ray":
        raise UsageError(f"{path}: runtime.kind is {job.runtime.kind!r}; to submit it set kind: ray and workers: N")
    home = Path.cwd()
    inside = path.resolve()
    if not inside.is_relative_to(home):
        raise UsageError(f"job file {path} lies outside of {home}, which is uploaded; move it there or change folder")
    client = _client(address)
    command = [
        python, "-m", "cluster", "run", str(inside.relative_to(home)),
        *(part for override in overrides for part in ("--set", override)),
        "--out", str(job.out.resolve()),
    ]  # fmt: skip
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = f"foil-{content_id('job', str(job.out.resolve()))[:8]}-{stamp}"
    client.submit_job(
        entrypoint=shlex.join(command),
        submission_id=name,
        runtime_env={"working_dir": str(home), "excludes": list(_EXCLUDED)},
    )
    print(f"submitted {name} to {address}")
    if wait:
        _follow(client, name)


def _client(address: str) -> JobSubmissionClient:
    try:
        return JobSubmissionClient(address)
    except (ConnectionError, RuntimeError) as error:
        raise UsageError(
            f"no Ray head answers at {address}: {error}; start one with `ray start --head`, "
            "set RAY_AUTH_MODE=token if it wants a token, or give --address"
        ) from error


def _follow(client: JobSubmissionClient, name: str) -> None:
    """Prints the log as it grows; exits with 1 if the job did not succeed (Ray hides the job's own code)."""
    printed = 0
    while True:
        status = client.get_job_status(name)
        log = client.get_job_logs(name)
        print(log[printed:], end="", flush=True)
        printed = len(log)
        if status.is_terminal():
            break
        time.sleep(_POLL_S)
    print(f"{name}: {status}")
    if status != JobStatus.SUCCEEDED:
        raise typer.Exit(1)
