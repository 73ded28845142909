"""Runs a checked job to its end. Prints nothing: whoever calls it may pass a callback for the progress.

Job -> build_run -> run.json opened -> the runner of runtime.kind -> Summary
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from foil.cluster.build import build_run
from foil.cluster.deploy.open_files import check_limit
from foil.cluster.deploy.ray_environment import drain_within_stop_wait, no_copies_of_this_folder, set_driver_defaults
from foil.cluster.extras import need
from foil.cluster.job import Job
from foil.cluster.job_page import put_job
from foil.cluster.seeds.mixed import MixedSettings
from foil.cluster.seeds.stored_topics import StoredTopicsSettings
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.compaction.folding import fold
from foil.datasets_out.compaction.reopening import reopen_failed
from foil.datasets_out.curation.origins import put_sources
from foil.engine.errors import NotReadyError, UsageError
from foil.engine.flow.progress import Progress, Summary
from foil.engine.keys import read_key
from foil.engine.models.endpoints import HostedSettings
from foil.engine.runtime import run_local
from foil.engine.runtime.session import OnProgress, RunSpec
from foil.engine.settings import Settings
from foil.engine.storage.laws import check_store
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.opening import open_store
from foil.engine.storage.store import Store
from foil.engine.telemetry.json_logs import begin_logs
from foil.engine.telemetry.otlp_spans import traced
from foil.engine.telemetry.prometheus import serve_metrics

LOG = logging.getLogger(__name__)


def ignore_progress(_progress: Progress) -> None:
    """The callback of a run that nobody watches."""


def ignore_count(_seeds: int) -> None:
    """The callback of a corpus whose reading nobody watches."""


def run_job(
    job: Job,
    reuse: Sequence[Path] = (),
    on_progress: OnProgress = ignore_progress,
    on_seeds: Callable[[int], None] = ignore_count,
    *,
    takeover: bool = False,
    retry_failed: bool = False,
) -> Summary:
    """Runs or resumes a job. `reuse`: `out` folders of runs whose replies are taken over.

    `on_seeds` is called with the number of seeds read, for each or now and then. `takeover`: takes the folder from a
    run that holds it. `retry_failed`: asks rows that failed again.
    """
    _check_needs(job)
    job = _placed(job)
    _check_place(open_store(job.out))
    spec = build_run(_drained_in_time(job), reuse)
    log = CommitLog(job.out)
    spec = replace(
        spec,
        on_seeds=on_seeds,
        takeover=takeover,
        stands=log.documents.stands_for(spec.fingerprint, spec.identity) and not retry_failed,
        prepare=partial(_open, log, spec, job, retry_failed=retry_failed),
        fold=partial(fold, log),
    )
    begin_logs(job.runtime.log_format, spec.worker.run)
    runner = run_local.run
    if job.runtime.kind == "ray":
        set_driver_defaults()  # Ray reads them as it is imported
        no_copies_of_this_folder(job.runtime.ray_address)
        from foil.engine.runtime import run_ray

        runner = run_ray.run
    with serve_where_wanted(job, spec.worker.run), traced(spec.worker.run):
        return runner(spec, on_progress)


def _check_place(store: Store) -> None:
    """Tries a bucket before a run is first opened there, and before anything is paid. Raises NotReadyError."""
    try:
        if not isinstance(store, LocalStore) and store.get("run.json") is None:
            check_store(store)
    except OSError as error:
        raise NotReadyError(f"{store.url} is no place for a run: {error}") from error


def _open(log: CommitLog, spec: RunSpec, job: Job, *, retry_failed: bool) -> None:
    """Makes the folder this run's, and says of which run its topics are. Whoever does so must hold it."""
    log.documents.discard_unused(spec.fingerprint)
    log.open(spec.fingerprint, spec.identity)
    put_job(log, job)
    if isinstance(job.seeds, StoredTopicsSettings):
        put_sources(log, [job.seeds.load()])
    if retry_failed:
        reopen_failed(job.out)


def serve_where_wanted(job: Job, run: str) -> AbstractContextManager[None]:
    """Serves metrics where the job wants it; on Ray each node does."""
    runtime = job.runtime
    if runtime.metrics_port and runtime.kind == "ray":
        LOG.warning(
            "runtime.metrics_port (%d) is not used: on Ray each node serves the metrics, at its own port "
            "(docs/metrics.md)", runtime.metrics_port,
        )  # fmt: skip
    if not runtime.metrics_port or runtime.kind == "ray":
        return nullcontext()
    return serve_metrics(runtime.metrics_host, runtime.metrics_port, run)


def _placed(job: Job) -> Job:
    """The job, with an `out` that workers on Ray find whatever folder they start in."""
    if job.runtime.kind != "ray" or not isinstance(open_store(job.out), LocalStore):
        return job
    return replace(job, place=str(job.out.absolute()))


def _drained_in_time(job: Job) -> Job:
    """The job, with a drain that ends before Ray kills a submitted run."""
    drain_s = drain_within_stop_wait(job.runtime.drain_s)
    return replace(job, runtime=job.runtime.model_copy(update={"drain_s": drain_s}))


def _check_needs(job: Job) -> None:
    """Refuses a job before anything is started: a missing library or file, an empty API key."""
    if job.runtime.kind == "ray":
        need("ray", extra="ray")
    for path in _paths_read(job.seeds):
        if not path.exists():
            raise UsageError(f"{path} is not there, and `seeds` names it; mend the path (nothing was started)")
    hosted = [model for model in job.models.values() if isinstance(model, HostedSettings)]
    check_limit(hosted, job.runtime)
    for model in hosted:
        for endpoint in model.all_endpoints():
            read_key(endpoint.api_key)


def _paths_read(settings: Settings) -> Iterator[Path]:
    """Every file and folder that the settings of the seeds name."""
    for part in settings.of if isinstance(settings, MixedSettings) else ():
        yield from _paths_read(part)
    for _, value in settings:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Path):
                yield item
