"""One run for all tests of releases, and its releases by format and split, each made once."""

from pathlib import Path

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from tests.support.topics.releases import SHARES, make_run


@pytest.fixture(scope="package")
def out(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="package")
def release(out, tmp_path_factory):
    """`release(format, split)`: the folder of a release."""
    folder, made = tmp_path_factory.mktemp("releases"), {}

    def export(form: str, split: str = "train") -> Path:
        into = folder / f"{form}-{split}"
        if into not in made:
            made[into] = run_command(
                app, ["export", str(out), "--format", form, "--split", split, "--into", str(into), *SHARES]
            )
        assert made[into] == 0
        return into

    return export
