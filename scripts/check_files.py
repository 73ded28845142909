"""Refuses files that do not belong in the repository: large ones, and those that hold a key. Give the files to check.

git ls-files -z | xargs -0 python scripts/check_files.py
"""

import re
import sys
from pathlib import Path

MAX_BYTES = 1_000_000
KEY = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\b(?:sk|gsk|hf|ghp|glpat|xox[abp])[-_][A-Za-z0-9_-]{24,}"
)


def problem(path: Path) -> str:
    """Why a file is refused; empty if it is not."""
    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        return f"{path} has {len(data):,} bytes; at most {MAX_BYTES:,} are kept here"
    key = KEY.search(data)
    return f"{path} holds what looks like a key: {key[0][:12].decode()}..." if key else ""


if __name__ == "__main__":
    sys.exit("\n".join(filter(None, (problem(path) for path in map(Path, sys.argv[1:]) if not path.is_symlink()))) or 0)
