"""What tests share: where private real data lies, if it is here at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of private real data (`FOIL_SHARED_DATA`, or `shared/data` beside the checkout); skips without it."""
    folder = Path(os.environ.get("FOIL_SHARED_DATA", REPO.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"private data folder {folder} is absent; set FOIL_SHARED_DATA to run this test")
    return folder
