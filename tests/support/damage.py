"""Damage to files, as disks and hands do it."""

from pathlib import Path


def flip_bit(path: Path, at: float = 0.5) -> None:
    """Turns one bit at that share of a file over."""
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    path.write_bytes(data)


def truncate(path: Path, share: float = 0.5) -> None:
    """Cuts a file to a share of its bytes."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
