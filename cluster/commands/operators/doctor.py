"""`foil doctor`: the libraries, hardware and disk of this machine, whether a folder or bucket can hold commits, and
what each endpoint of a job's models does."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption
from foil.cluster.extras import PACKAGE, install_line, libraries, need, version_of
from foil.cluster.terminal import print_json, say, show
from foil.engine.errors import NotReadyError, UsageError
from foil.engine.storage.mirrors import mirror_of, mirrored_url

if TYPE_CHECKING:
    from foil.cluster.examining.models import Examination

_LONG_PROMPT = 6_000
_STORE_S = 20.0
_SKEW_S = 2.0
"""Seconds that a clock may be off: logs are compared by eye, and nothing that is kept depends on it."""
_RACERS, _RACES = 8, 10


def doctor(
    target: Annotated[
        str, typer.Argument(metavar="[JOB|MODEL@URL]", help="Ask its models, or this one, what they can do.")
    ] = "",
    overrides: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=mirror_of, metavar="OUT", help="Where a run will be kept: a folder, or s3://..."),
    ] = None,
    address: Annotated[str, typer.Option(help="Look from every node of the Ray cluster with this dashboard.")] = "",
    python: Annotated[str, typer.Option(help="With --address: the head's Python that has Ray.")] = "python",
    words: Annotated[int, typer.Option(min=500, max=1_000_000, help="Words of the longest prompt.")] = _LONG_PROMPT,
    as_json: JsonOption = False,
) -> None:
    """What this machine, a cluster and models have, and whether OUT can hold commits: libraries, GPUs, disk, keys.

    Exit code 15 if something that a run needs is missing. With --address, a Ray job looks at OUT, the clock, the
    variables and the ports of the others from every node. Notes tell what a run can do without. Each endpoint of JOB,
    or MODEL@URL alone, is asked some ten short questions and a long one; their tokens are paid for.
    """
    from foil.cluster.examining.models import names_model

    facts: dict[str, Any] = {}
    if not target or not names_model(target):
        facts = _look_around((out or Path()).resolve(), address, python)
    elif out or address:
        raise UsageError("--out and --address look at where a run will be; name them with a JOB, or alone")
    examinations = check_models(target, overrides or [], words) if target else []
    problems = [*_problems_here(facts), *(problem for each in examinations for problem in each.problems())]
    problems += facts.get("cluster", {}).get("problems", [])
    facts |= {"models": [each.data() for each in examinations], "problems": problems, "ok": not problems}
    facts |= {"notes": facts.get("cluster", {}).get("notes", [])}
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)
        _print_models(examinations)
    if problems:
        raise NotReadyError("; ".join(problems))


def _look_around(out: Path, address: str, python: str) -> dict[str, Any]:
    """What this machine, OUT and the nodes of a cluster have."""
    facts = _examine(next(folder for folder in (out, *out.parents) if folder.is_dir()))
    if url := mirrored_url(out):
        facts |= _try_bucket(url)
        if address:
            raise UsageError("--address looks at a folder that all nodes share; look at a bucket without it")
    if address:
        facts["cluster"] = check_cluster(address, Path(facts["out"]), python)
    return facts


def _examine(folder: Path) -> dict[str, Any]:
    from foil.cluster.deploy.ray_environment import differing

    return {
        "foil": version_of(PACKAGE),
        "python": platform.python_version(),
        "libraries": libraries(),
        "gpus": _gpus(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "out": str(folder),
        "disk": str(folder),
        "disk_free_bytes": shutil.disk_usage(folder).free,
        "file_system": _try_commit_steps(folder),
        "ray_token": _token_problem(os.environ),
        "ray_variables_differing": differing(os.environ),
    }


def _problems_here(facts: dict[str, Any]) -> list[str]:
    if "libraries" not in facts:
        return []
    base = facts["libraries"].get("base", {})
    missing = [name for name, version in base.items() if version is None] if base else ["foil-ir itself"]
    tried = {**facts["file_system"], **facts.get("store", {})}
    failed = [f"{facts['out']} cannot {step}: {why}" for step, why in tried.items() if why]
    return [f"not installed: {name}" for name in missing] + failed + [why for why in [facts["ray_token"]] if why]


def _try_bucket(url: str) -> dict[str, Any]:
    """Each law of a store, tried on the bucket -> why it does not hold; what a folder would be asked is not."""
    from foil.engine.storage.laws import try_laws
    from foil.engine.storage.object_store import ObjectStore

    return {"out": url, "file_system": {}, "store": try_laws(ObjectStore(url, patience_s=_STORE_S))}


def _token_problem(environment: Mapping[str, str]) -> str:
    """What is wrong with Ray's token on this machine; "" where nothing is, or none is wanted."""
    if environment.get("RAY_AUTH_MODE") != "token" or environment.get("RAY_AUTH_TOKEN"):
        return ""
    path = Path(environment.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if not path.is_file() or not path.stat().st_size:
        return (
            f"RAY_AUTH_MODE is token, and {path} holds none; "
            "unset RAY_AUTH_TOKEN_PATH and run `ray get-auth-token --generate`"
        )
    if path.stat().st_mode & 0o077:
        return f"{path} can be read by others, and runs code on the cluster; `chmod 600 {path}`"
    return ""


def check_models(target: str, overrides: Sequence[str], words: int) -> list[Examination]:
    """What the endpoints of a job's hosted models do, or those of MODEL@URL."""
    from foil.cluster.examining.models import examine, hosted_of

    hosted = hosted_of(target, overrides)
    for settings in hosted.values():
        say(f"asking {settings.model}: some ten short requests, and one of {words:,} words")
    return examine(hosted, words)


def check_cluster(address: str, folder: Path, python: str) -> dict[str, Any]:
    """What each node of a Ray cluster sees, and what is wrong with it. Leaves nothing in the folder."""
    from foil.cluster.deploy.ray_environment import HEAD, HEAD_PATH, HEAD_REDIS, NETWORK, WORKER

    need("ray", extra="ray")
    from foil.cluster.commands.operators import ray_jobs

    with tempfile.TemporaryDirectory(prefix=".foil-doctor-", dir=folder) as scratch:
        Path(scratch).chmod(0o777)  # a node may run as another user
        variables = [*NETWORK, *HEAD, HEAD_PATH, HEAD_REDIS, *WORKER]
        nodes = ray_jobs.probe_nodes(ray_jobs.connect(address), python, Path(scratch), variables)
    return {"nodes": nodes, "problems": node_problems(nodes, folder), "notes": node_notes(nodes)}


def node_problems(nodes: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """What is wrong between the nodes: an OUT that is not shared, clocks, versions, variables, closed ports."""
    from foil.cluster.deploy.ray_environment import differing

    problems = [f"{_name(node)}: {node['problem']}" for node in nodes if node["problem"]]
    reached = [node for node in nodes if not node["problem"]]
    if len({node["winner"] for node in reached}) > 1 or sum(bool(node["won"]) for node in reached) > 1:
        problems.append(
            f"{folder} is not one folder on all nodes, or lets two create the same name; mount a shared one"
        )
    for node in reached:
        if abs(node["skew_s"]) - node["skew_within_s"] > _SKEW_S:
            problems.append(f"{_name(node)}: its clock is {node['skew_s']:+.1f} s off the head's; run NTP there")
        if node["missing"]:
            problems.append(f"{_name(node)}: not installed: {', '.join(node['missing'])}")
        if diffs := differing(node["variables"]):
            problems.append(f"{_name(node)}: started without our network settings (docs/clusters.md): {_listed(diffs)}")
        problems += [
            f"{_name(node)} cannot reach {port}; open all ports between nodes" for port in node["cannot_reach"]
        ]
    for software in ("python", "ray"):
        versions = sorted({node[software] for node in reached})
        problems += [f"the nodes have different versions of {software}: {', '.join(versions)}"] * (len(versions) > 1)
    return problems


def node_notes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a run can do without, until its head dies."""
    from foil.cluster.deploy.ray_environment import HEAD, HEAD_PATH, HEAD_REDIS, WORKER, differing

    notes = []
    for node in nodes:
        has = node.get("variables", {})
        lacking = differing(has, {**HEAD, HEAD_PATH: has.get(HEAD_PATH) or "a folder"} if node["head"] else WORKER)
        if node["problem"] or not lacking or (node["head"] and has.get(HEAD_REDIS)):
            continue
        costs = "its death costs all actors" if node["head"] else "it gives a dead head less time to come back"
        notes.append(f"{_name(node)}: {costs} (docs/clusters.md, A head that dies): {_listed(lacking)}")
    return notes


def _listed(variables: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value or '(unset)'}" for name, value in variables.items())


def _name(node: Mapping[str, Any]) -> str:
    return f"node {node['node'][:8]} ({node.get('host', 'unknown')})"


def _gpus() -> list[str]:
    """Name and memory of each NVIDIA GPU, as its driver names them."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return [] if answer.returncode else answer.stdout.splitlines()


def _try_commit_steps(folder: Path) -> dict[str, str]:
    """Each file operation that a commit needs, tried in a temporary folder -> why it failed, empty if it worked."""
    from foil.engine.atomic_files import sync

    try:
        with tempfile.TemporaryDirectory(prefix=".foil-doctor-", dir=folder) as scratch:
            data, link = Path(scratch, "data"), Path(scratch, "link")
            steps: dict[str, Callable[[], object]] = {
                "create a file exclusively": lambda: data.open("x").close(),
                "refuse to create it twice": lambda: _expect_refusal(lambda: data.open("x").close()),
                "sync a file": lambda: sync(data),
                "link a file": lambda: link.hardlink_to(data),
                "refuse to link it twice": lambda: _expect_refusal(lambda: link.hardlink_to(data)),
                "let one of many threads win a name": lambda: _race(Path(scratch)),
                "rename over a file": lambda: data.replace(link),
                "sync a folder": lambda: sync(Path(scratch)),
            }
            return {name: _failure(step) for name, step in steps.items()}
    except OSError as error:
        return {"write a file": str(error)}


def _race(scratch: Path) -> None:
    """Threads link their own files to one name: exactly one may win, and its bytes must stand there."""
    for race in range(_RACES):
        name, own = scratch / f"race-{race}", [scratch / f"own-{race}-{racer}" for racer in range(_RACERS)]
        for path in own:
            path.write_text(path.name)
        with ThreadPoolExecutor(_RACERS) as racers:
            won = [path.name for path in racers.map(lambda path, name=name: _link(path, name), own) if path]
        if [name.read_text()] != won:
            raise OSError(f"{len(won)} of {_RACERS} threads created the same name: {name.name}")


def _link(own: Path, name: Path) -> Path | None:
    try:
        name.hardlink_to(own)
    except FileExistsError:
        return None
    return own


def _expect_refusal(step: Callable[[], object]) -> None:
    try:
        step()
    except FileExistsError:
        return
    raise OSError("the second attempt replaced the first")


def _failure(step: Callable[[], object]) -> str:
    try:
        step()
    except OSError as error:
        return str(error)
    return ""


def _print_facts(facts: dict[str, Any]) -> None:
    if "libraries" not in facts:
        return
    rows = [
        (extra, name, version or f"not installed: {install_line(extra)}")
        for extra, versions in facts["libraries"].items()
        for name, version in versions.items()
    ]
    show(["extra", "library", "version"], rows, f"foil-ir {facts['foil']}, Python {facts['python']}")
    gib, tried = 1 << 30, {**facts["file_system"], **facts.get("store", {})}
    rows = [
        ("GPUs", ", ".join(facts["gpus"]) or "none", ""),
        ("CPUs", facts["cpus"], ""),
        ("memory", f"{facts['memory_bytes'] / gib:,.1f} GiB", ""),
        ("free disk", f"{facts['disk_free_bytes'] / gib:,.1f} GiB", facts["disk"]),
        *((step, "fails" if problem else "works", problem) for step, problem in tried.items()),
    ]
    rows += [("problem", "", problem) for problem in facts["problems"]]
    rows += [("note", "", note) for note in facts["notes"]]
    if lacking := facts["ray_variables_differing"]:
        rows.append(("Ray settings", "not set here; `foil run` and `foil submit` set them", ", ".join(lacking)))
    show(["machine", "", ""], rows)
    for node in facts.get("cluster", {}).get("nodes", []):
        show([_name(node), ""], [(name, str(value)) for name, value in node.items() if name not in {"node", "host"}])


def _print_models(examinations: Sequence[Examination]) -> None:
    for each in examinations:
        role = f" ({', '.join(each.roles)})" if each.roles else ""
        cost = f"{each.requests} requests, {each.tokens:,} tokens, ${each.usd:.4f}"
        rows = [(trait.subject, trait.finding, f"{'NO: ' * trait.wrong}{trait.foil}") for trait in each.traits]
        rows += [("answer", "none", f"NO: {each.failure}")] * bool(each.failure)
        show(["asked", "found", "Foil"], rows, f"{each.model}{role} at {each.url}: {cost}")
