"""The small packages, importable by name."""

from pathlib import Path

import pytest

from tests.support.tiny_packages import write_packages


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the two small packages."""
    write_packages(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path
