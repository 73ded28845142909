"""Runs a checked job to its end. Prints nothing: whoever calls it may pass a callback for the progress.

Job -> build_run -> run.json opened -> the runner of runtime.kind -> Summary
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cluster.build import build_run
from cluster.extras import need
from cluster.job import Job
from datasets_out.commits.log import CommitLog
from engine.flow.progress import Progress, Summary
from engine.keys import read_key
from engine.models.endpoints import HostedSettings
from engine.runtime import run_local
from engine.runtime.session import OnProgress
from engine.telemetry.json_logs import begin_logs
from engine.telemetry.prometheus import serve_metrics


def ignore_progress(_progress: Progress) -> None:
    """The callback of a run that nobody watches."""


def run_job(job: Job, reuse: Sequence[Path] = (), on_progress: OnProgress = ignore_progress) -> Summary:
    """Runs or resumes a job. `reuse`: `out` folders of runs whose replies are taken over."""
    _check_needs(job, reuse)
    spec = build_run(job, [out.resolve() for out in reuse])
    begin_logs(job.runtime.log_format, spec.worker.run)
    runner = run_local.run
    if job.runtime.kind == "ray":
        from engine.runtime import run_ray

        runner = run_ray.run
    with _metrics(job):
        CommitLog(job.out).open(spec.fingerprint, spec.identity)
        return runner(spec, on_progress)


def _metrics(job: Job) -> AbstractContextManager[None]:
    """Serves metrics where the job wants it; on Ray each node does."""
    runtime = job.runtime
    if not runtime.metrics_port or runtime.kind == "ray":
        return nullcontext()
    return serve_metrics(runtime.metrics_host, runtime.metrics_port)


def _check_needs(job: Job, reuse: Sequence[Path]) -> None:
    """Refuses a job before anything is started: a missing library, a missing run to reuse, an empty API key."""
    if job.runtime.kind == "ray":
        need("ray", extra="ray")
    for out in reuse:
        CommitLog(out).run()
    for model in job.models.values():
        if isinstance(model, HostedSettings):
            for endpoint in model.all_endpoints():
                read_key(endpoint.api_key)
