"""`foil submit`, `foil logs` and `foil cancel`: the same job through Ray Jobs.

The state of the run is in its `out`, so a second submission resumes.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import (
    AddressOption,
    AllOption,
    JobArgument,
    JsonOption,
    OutOption,
    RetryOption,
    ReuseOption,
    SetOption,
    SubmissionArgument,
)
from foil.cluster.deploy.ray_environment import NETWORK, STOP_WAIT, stop_wait_s
from foil.cluster.extras import need
from foil.cluster.terminal import print_json, print_line, say
from foil.engine.errors import ClusterUnreachableError, UsageError
from foil.engine.keys import holds_key, know_key
from foil.engine.storage.opening import open_store

if TYPE_CHECKING:
    from foil.cluster.commands.operators.ray_jobs import RayJobs
    from foil.engine.settings import Settings

_EXCLUDED = (".git", ".venv*", "venv", "__pycache__", ".*_cache", ".hypothesis", "node_modules", "*.egg-info")
_EXCLUDED_HERE = ("benchmarks", "tests", "datasets_out/data", "out")
"""Folders of the checkout that no run needs."""
_SECRETS = (
    ".env*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa*",
    "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".netrc",
    "_netrc", ".pgpass", ".pypirc", ".npmrc", ".git-credentials", ".htpasswd", "*credentials*", "*secret*",
    "service-account*.json", "kubeconfig*", "key", "key.txt", "keys.txt", "*-key.txt", "*api[-_.]key*", "*apikey*",
    "token", "*.token", "*token.txt", "*password*", "*passwd*", ".boto", ".s3cfg",
    "rclone.conf", ".vault-token", ".terraformrc",
)  # fmt: skip
"""Files and folders that usually hold keys, by their names in lower case."""
_SOURCES = (".py", ".pyi")


def submit(
    job_file: JobArgument,
    address: AddressOption = "http://127.0.0.1:8265",
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    go_on: AllOption = False,
    retry_failed: RetryOption = False,
    python: Annotated[str, typer.Option(help="The head's Python that has Foil's requirements.")] = "python",
    wait: Annotated[bool, typer.Option(help="Print the job's log and end with its exit code.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Send a job to a running Ray head through Ray Jobs; the same job again resumes.

    Uploads this checkout and the job file (once: Ray keeps what it has), and starts `foil run` on the cluster. The
    job's `out` must be a bucket, or a folder that every node sees. No key is sent: neither files whose names speak of
    keys (.env, *.pem, key, ...), that hold one (sk-..., a private key) or that the job reads one from, nor your
    environment, but for Ray's own network settings; what git ignores stays too. Says what is sent and what is left out.
    """
    from foil.cluster.job import load_job

    need("ray", extra="ray")
    job = load_job(job_file, overrides or [], out)
    if job.runtime.kind != "ray":
        raise UsageError(f"{job_file}: runtime.kind is {job.runtime.kind!r}; to submit it set kind: ray and workers: N")
    from foil.cluster.commands.operators import ray_jobs
    from foil.engine.storage.lease import SUBMISSION

    _know_keys(job.models.values())
    flags = [*(["--all"] if go_on else ()), *(["--retry-failed"] if retry_failed else ())]
    command = command_of(python, job_file, overrides or [], open_store(job.out.resolve()).url, reuse or [], flags)
    upload = checked_files(Path.cwd(), job_file)
    client = ray_jobs.connect(address)
    name = f"{ray_jobs.name_prefix(job.out)}{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    _send(client, name, command, {**_variables(job.runtime.drain_s), SUBMISSION: name}, *upload)
    _announce(name, address, as_json=as_json)
    if wait:
        _wait(client, name)


def _announce(name: str, address: str, *, as_json: bool) -> None:
    print_line(f"submitted {name} to {address}")
    if as_json:
        print_json({"submission": name, "address": address})


def _know_keys(models: Iterable[Settings]) -> None:
    """Makes the keys of the job known, so that no file that holds one is sent."""
    from foil.engine.models.endpoints import HostedSettings

    for model in models:
        for endpoint in model.all_endpoints() if isinstance(model, HostedSettings) else ():
            know_key(endpoint.api_key)


def _wait(client: RayJobs, name: str) -> None:
    from foil.cluster.commands.operators import ray_jobs

    try:
        ray_jobs.end_like(name, ray_jobs.follow(client, name))
    except KeyboardInterrupt:
        say(f"foil: {name} goes on without you; `foil logs -f {name}` follows it, `foil cancel {name}` stops it")
        raise


def command_of(
    python: str, job_file: Path, overrides: Sequence[str], out: str, reuse: Sequence[Path], flags: Sequence[str]
) -> list[str]:
    """The `foil run` that the cluster starts, in a copy of this folder. Raises UsageError for a job file elsewhere."""
    home, inside = Path.cwd(), job_file.resolve()
    if not inside.is_relative_to(home):
        raise UsageError(
            f"job file {job_file} lies outside of {home}, which is uploaded; move it there or change folder"
        )
    settings = [part for override in overrides for part in ("--set", override)]
    reused = [part for folder in reuse for part in ("--reuse", open_store(folder.resolve()).url)]
    return [python, "-m", "foil", "run", str(inside.relative_to(home)), *settings, *reused, *flags, "--out", out]


def _variables(drain_s: float) -> dict[str, str]:
    """The environment of the job: Ray's network settings, and a wait before SIGKILL that lets the run drain."""
    return {**NETWORK, STOP_WAIT: os.environ.get(STOP_WAIT, str(stop_wait_s(drain_s)))}


def _send(
    client: RayJobs,
    name: str,
    command: Sequence[str],
    variables: dict[str, str],
    files: list[Path],
    left_out: list[str],
) -> None:
    """Uploads the files, unless the head has their bytes already, and starts the command there."""
    size = sum(file.stat().st_size for file in files)
    print_line(f"sending {len(files):,} files, {size:,} bytes; left out as secrets: {', '.join(left_out) or 'none'}")
    with tempfile.TemporaryDirectory(prefix="foil-submit-") as folder:
        copy_files(files, Path.cwd(), Path(folder))
        runtime_env = {"working_dir": folder, "env_vars": variables}
        try:
            client.submit_job(entrypoint=shlex.join(command), submission_id=name, runtime_env=runtime_env)
        except (OSError, RuntimeError) as error:
            raise ClusterUnreachableError(f"the Ray head did not take the job: {error}; submit it again") from None


def copy_files(files: Iterable[Path], home: Path, folder: Path) -> None:
    """Copies files of `home` to where they lie in the uploaded folder."""
    for file in files:
        target = folder / file.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def checked_files(folder: Path, job_file: Path) -> tuple[list[Path], list[str]]:
    """What `files_to_send` says, if the job is among it. Raises UsageError."""
    files, left_out = files_to_send(folder)
    if job_file.resolve() not in files:
        raise UsageError(f"job file {job_file} is not sent, since it holds a key or git ignores it; mend that first")
    return files, left_out


def files_to_send(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of a checkout that a run needs, and the names left out because they may be secrets.

    What git ignores is left out silently, and so are links, caches, environments, tests and data.
    Price: one walk, and one look through each file.
    """
    files, left_out = [], []
    for path in _candidates(folder):
        inside = path.relative_to(folder)
        names = [part.lower() for part in inside.parts]
        if _matches(names, _EXCLUDED) or any(inside.is_relative_to(each) for each in _EXCLUDED_HERE):
            continue
        if _matches(names[:-1] if path.suffix in _SOURCES else names, _SECRETS):
            left_out.append(str(inside))
        elif path.is_file() and not path.is_symlink():
            (left_out.append(f"{inside} (holds a key)") if holds_key(path) else files.append(path))
    return sorted(files), sorted(left_out)


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


def logs(
    submission: SubmissionArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends, with its exit code.")] = False,
    address: AddressOption = "http://127.0.0.1:8265",
) -> None:
    """What a submitted run printed so far, or with -f until it ends."""
    need("ray", extra="ray")
    from foil.cluster.commands.operators import ray_jobs

    client = ray_jobs.connect(address)
    name = ray_jobs.find_job(client, submission)
    if follow:
        ray_jobs.end_like(name, ray_jobs.follow(client, name))
    else:
        ray_jobs.print_log(client, name)


def cancel(
    submission: SubmissionArgument,
    address: AddressOption = "http://127.0.0.1:8265",
    wait: Annotated[bool, typer.Option(help="Wait until the run has drained and ended.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Stop a submitted run: seeds in flight drain, complete partitions are committed, and submitting resumes.

    Of several submissions for one OUT, the one that holds it is stopped.
    """
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
