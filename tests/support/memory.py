"""How much memory a process has held, for tests and benchmarks."""

from pathlib import Path


def peak_memory() -> int:
    """Bytes: the most memory this process has held (Linux).

    `ru_maxrss` is no such figure: a process starts with that of the one that started it.
    """
    return _of_status("VmHWM")


def current_memory() -> int:
    """Bytes: what this process holds now (Linux)."""
    return _of_status("VmRSS")


def _of_status(name: str) -> int:
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0]) << 10


def forget_peak() -> None:
    """Lets `peak_memory` count from now on (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
