"""`foil doctor`: the libraries, hardware and disk of this machine, and whether its file system can hold commits."""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.commands.arguments import JsonOption
from cluster.terminal import print_json, show


def doctor(
    out: Annotated[Path, typer.Option("--out", help="The folder in which a run will be kept.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """What this machine has: libraries by extra, GPUs, memory, disk, and whether OUT can hold commits.

    Exit code 1 if a library of the base is missing, or if OUT cannot hold commits.
    """
    facts = _examine(next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.is_dir()))
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)
    if not facts["ok"]:
        raise typer.Exit(1)


def _examine(folder: Path) -> dict[str, Any]:
    from cluster.extras import PACKAGE, libraries, version_of

    by_extra, file_system = libraries(), _try_commit_steps(folder)
    base = by_extra.get("base", {})
    return {
        "foil": version_of(PACKAGE),
        "python": platform.python_version(),
        "libraries": by_extra,
        "gpus": _gpus(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "out": str(folder),
        "disk_free_bytes": shutil.disk_usage(folder).free,
        "file_system": file_system,
        "ok": bool(base) and None not in base.values() and not any(file_system.values()),
    }


def _gpus() -> list[str]:
    """Name and memory of each NVIDIA GPU, as its driver names them."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return [] if answer.returncode else answer.stdout.splitlines()


def _try_commit_steps(folder: Path) -> dict[str, str]:
    """Each file operation that a commit needs, tried in a temporary folder -> why it failed, empty if it worked."""
    from engine.atomic_files import sync

    try:
        with tempfile.TemporaryDirectory(prefix=".foil-doctor-", dir=folder) as scratch:
            data, link = Path(scratch, "data"), Path(scratch, "link")
            steps: dict[str, Callable[[], object]] = {
                "create a file exclusively": lambda: data.open("x").close(),
                "refuse to create it twice": lambda: _expect_refusal(lambda: data.open("x").close()),
                "sync a file": lambda: sync(data),
                "link a file": lambda: link.hardlink_to(data),
                "refuse to link it twice": lambda: _expect_refusal(lambda: link.hardlink_to(data)),
                "rename over a file": lambda: data.replace(link),
                "sync a folder": lambda: sync(Path(scratch)),
            }
            return {name: _failure(step) for name, step in steps.items()}
    except OSError as error:
        return {"write a file": str(error)}


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
    from cluster.extras import install_line

    rows = [
        (extra, name, version or f"not installed: {install_line(extra)}")
        for extra, versions in facts["libraries"].items()
        for name, version in versions.items()
    ]
    show(["extra", "library", "version"], rows, f"foil-ir {facts['foil']}, Python {facts['python']}")
    gib = 1 << 30
    rows = [
        ("GPUs", ", ".join(facts["gpus"]) or "none", ""),
        ("CPUs", facts["cpus"], ""),
        ("memory", f"{facts['memory_bytes'] / gib:,.1f} GiB", ""),
        ("free disk", f"{facts['disk_free_bytes'] / gib:,.1f} GiB", facts["out"]),
        *((step, "fails" if problem else "works", problem) for step, problem in facts["file_system"].items()),
    ]
    show(["machine", "", ""], rows)
