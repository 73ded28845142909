"""Ray Jobs as `foil submit`, `cancel`, `logs` and `doctor` use it: connect, find a run's job, follow its log."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer
from ray.exceptions import RayError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

from foil.cluster import deploy
from foil.cluster.commands.arguments import ADDRESS
from foil.cluster.terminal import print_line
from foil.engine.errors import ClusterUnreachableError, UsageError
from foil.engine.ids import content_id
from foil.engine.storage.lease import submission_of
from foil.engine.storage.opening import mirror_of, open_store

_POLL_S = 1.0
_REQUEST_S = 60.0
_SILENCE_S = 30.0
"""Seconds without an answer after which the head is taken for dead."""
_STOPPED = 143
_PROBE_MARK = "foil-node-probe "
_LOG_BYTES_A_POLL = 1_000_000

_REFUSALS = (OSError, RuntimeError, RayError)
"""What Ray's client raises: no connection, an answer that is an error, a token that is refused."""

Answer = TypeVar("Answer")


class RayJobs(JobSubmissionClient):
    """Ray's own client, whose requests end: a network that swallows packets would hold them for ever."""

    def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
        return super()._do_request(method, endpoint, **{"timeout": _REQUEST_S, **options})


def connect(address: str) -> RayJobs:
    """A client of the head at this address, which wins over Ray's own variables. Raises ClusterUnreachableError."""
    os.environ[ADDRESS] = address
    try:
        return RayJobs(address)
    except _REFUSALS as error:
        raise ClusterUnreachableError(
            f"no Ray head answers at {address}: {error}; give --address or {ADDRESS} as http://HEAD:8265; "
            "where the head wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the token's file"
        ) from None


def name_prefix(out: Path) -> str:
    """How the names of all submissions for one `out` begin."""
    return f"foil-{content_id('job', str(out.resolve()))[:8]}-"


def find_job(client: RayJobs, name_or_out: str) -> str:
    """The name of a submission: the one given, or for an `out` the one that holds it, else the newest of those that
    run, else the newest. Raises UsageError if there is none.
    """
    jobs = {job.submission_id: job for job in _ask(client.list_jobs) if job.submission_id}
    if name_or_out in jobs:
        return name_or_out
    out = mirror_of(name_or_out).resolve()
    ours = [name for name in jobs if name.startswith(name_prefix(out))]
    if not ours:
        raise UsageError(
            f"this Ray knows no job {name_or_out!r}, and none whose `out` is {out}; "
            f"it knows {', '.join(sorted(jobs)) or 'no job at all'}"
        )
    holder = submission_of(open_store(out))
    return max(ours, key=lambda name: (name == holder, *_age(jobs[name]), name))


def _age(job: JobDetails) -> tuple[bool, int]:
    """Orders jobs: those that run come last, and of two the younger one."""
    return not job.status.is_terminal(), job.start_time or 0


def print_log(client: RayJobs, name: str) -> None:
    """The whole log of a job up to now."""
    print_line(_ask(lambda: client.get_job_logs(name)), end="")


def follow(client: RayJobs, name: str) -> JobDetails:
    """Prints a job's log until the job has ended. Raises ClusterUnreachableError if the head is silent for 30 s."""
    printed = 0
    while True:
        job, log = _patiently(lambda: (client.get_job_info(name), client.get_job_logs(name)), client, name)
        print_line(log[printed:], end="")
        printed = len(log)
        if job.status.is_terminal():
            return job
        time.sleep(_POLL_S * (1 + len(log) / _LOG_BYTES_A_POLL))


def stop(client: RayJobs, name: str) -> bool:
    """Asks a job to end; whether it still ran."""
    return bool(_ask(lambda: client.stop_job(name)))


def await_end(client: RayJobs, name: str) -> JobDetails:
    """Waits until the job has ended."""
    while not (job := _patiently(lambda: client.get_job_info(name), client, name)).status.is_terminal():
        time.sleep(_POLL_S)
    return job


def end_like(name: str, job: JobDetails) -> None:
    """Says how the job ended, and ends this command with the job's own exit code; 143 if it was cancelled."""
    print_line(f"{name}: {job.status}")
    if job.status == JobStatus.SUCCEEDED:
        return
    if job.status == JobStatus.STOPPED:
        raise typer.Exit(_STOPPED)
    code = job.driver_exit_code
    if code is None:
        raise ClusterUnreachableError(
            f"job {name} failed before it could end by itself: {job.message}; submit it again"
        )
    raise typer.Exit(code if code > 0 else 128 - code)


def probe_nodes(client: RayJobs, python: str, folder: Path, variables: Sequence[str]) -> list[dict[str, Any]]:
    """What each living node sees (cluster/deploy/node_probe.py), looked at by a Ray job that sends that file alone."""
    name = f"foil-doctor-{secrets.token_hex(4)}"
    command = shlex.join([python, "node_probe.py", str(folder), *variables])
    with tempfile.TemporaryDirectory(prefix="foil-doctor-") as upload:
        shutil.copy(Path(deploy.__file__).with_name("node_probe.py"), upload)
        _ask(lambda: client.submit_job(entrypoint=command, submission_id=name, runtime_env={"working_dir": upload}))
        job = await_end(client, name)
    log = _ask(lambda: client.get_job_logs(name))
    _, mark, answer = log.rpartition("\n" + _PROBE_MARK)
    if not mark:
        raise ClusterUnreachableError(f"the nodes could not be looked at ({job.status}): {log[-2000:]}")
    nodes: list[dict[str, Any]] = json.loads(answer.partition("\n")[0])
    return nodes


def _ask(request: Callable[[], Answer]) -> Answer:
    try:
        return request()
    except _REFUSALS as error:
        raise ClusterUnreachableError(
            f"the Ray head refused or did not answer: {error}; see `foil doctor --address`"
        ) from None


def _patiently(request: Callable[[], Answer], client: RayJobs, name: str) -> Answer:
    """The answer, asked for again while the head is silent: a head that is restarted comes back."""
    deadline = time.monotonic() + _SILENCE_S
    while True:
        try:
            return request()
        except _REFUSALS as error:
            if time.monotonic() > deadline:
                raise ClusterUnreachableError(
                    f"the Ray head at {client.get_address()} has not answered for {_SILENCE_S:.0f} s: {error}; what "
                    f"job {name} committed is in its `out` (`foil watch OUT`); submit it again once a head is up"
                ) from None
            time.sleep(_POLL_S)
