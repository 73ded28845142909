"""`foil submit`: the same job through Ray Jobs. The run's state is in its `out`, so a second submission resumes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands.arguments import JobArgument, SetOption
from cluster.terminal import print_line
from engine.errors import UsageError

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

_POLL_S = 1.0
_EXCLUDED = (".git", ".venv*", "venv", "__pycache__", ".*_cache", ".hypothesis", "node_modules", "*.egg-info")
_EXCLUDED_HERE = ("benchmarks", "tests", "datasets_out/data", "out")
"""Folders of the checkout that no run needs."""
_SECRETS = (
    ".env*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa*",
    "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".netrc",
    "_netrc", ".pgpass", ".pypirc", ".npmrc", ".git-credentials", ".htpasswd", "*credentials*", "*secret*",
    "*token.txt", "service-account*.json", "kubeconfig*",
)  # fmt: skip
"""Files and folders that usually hold keys, by their names in lower case."""
_SOURCES = (".py", ".pyi")


def submit(
    job_file: JobArgument,
    address: Annotated[str, typer.Option(help="The Ray head's dashboard.")] = "http://127.0.0.1:8265",
    overrides: SetOption = None,
    python: Annotated[str, typer.Option(help="The head's Python that has Foil's requirements.")] = "python",
    wait: Annotated[bool, typer.Option(help="Wait for the end and print the job's log.")] = True,
) -> None:
    """Send a job to a running Ray head through Ray Jobs; the same job again resumes.

    Uploads this checkout and the job file, and starts `foil run` on the cluster. The job's `out` must be a folder that
    every node sees. No environment variable and no file whose name speaks of keys (.env, *.pem, ...) is sent; what git
    ignores stays too. Says what is sent and what is not.
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
    files, secrets = files_to_send(Path.cwd())
    size = sum(file.stat().st_size for file in files)
    print_line(f"sending {len(files):,} files, {size:,} bytes; left out as secrets: {', '.join(secrets) or 'none'}")
    with tempfile.TemporaryDirectory(prefix="foil-submit-") as folder:
        for file in files:
            target = Path(folder) / file.relative_to(Path.cwd())
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        client.submit_job(entrypoint=shlex.join(command), submission_id=name, runtime_env={"working_dir": folder})
    return name


def files_to_send(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of a checkout that a run needs, and the names left out because they may be secrets.

    What git ignores is left out silently, and so are links, caches, environments, tests and data. Price: one walk.
    """
    sent, secrets = [], []
    for path in _candidates(folder):
        inside = path.relative_to(folder)
        names = [part.lower() for part in inside.parts]
        if _matches(names, _EXCLUDED) or any(inside.is_relative_to(each) for each in _EXCLUDED_HERE):
            continue
        if _matches(names[:-1] if path.suffix in _SOURCES else names, _SECRETS):
            secrets.append(str(inside))
        elif path.is_file() and not path.is_symlink():
            sent.append(path)
    return sorted(sent), sorted(secrets)


def _candidates(folder: Path) -> Iterator[Path]:
    """Every file that git knows or does not ignore; outside of a git checkout, every file."""
    command = ["git", "-C", str(folder), "ls-files", "-coz", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not _matches([name.lower()], _EXCLUDED)]
            yield from (Path(parent, name) for name in names)
    else:
        yield from (folder / os.fsdecode(name) for name in listed.split(b"\0") if name)


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _client(address: str) -> JobSubmissionClient:
    from ray.job_submission import JobSubmissionClient

    from engine.runtime.cluster_address import check_reachable

    check_reachable(address)
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
