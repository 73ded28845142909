"""Whole lives of a run, each from one integer: kills, power cuts, failing disks, edited inputs, a provider's faults."""

import re
import subprocess
import sys

import pytest

from tests.support.paths import REPO
from tests.support.simulator.planted import PLANTED, Found, search, table

MODULE = "tests.support.simulator"


def simulate(*words: str) -> str:
    """The table of `python -m tests.support.simulator`, which must have found nothing."""
    command = [sys.executable, "-m", MODULE, *words]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=REPO, check=False)
    assert ended.returncode == 0, ended.stdout[-6000:]
    return ended.stdout


@pytest.mark.slow
def test_no_life_of_a_run_ends_wrongly():
    assert re.search(r"violations +0\n", simulate("--seeds", "0:30"))


@pytest.mark.slow
def test_no_life_of_a_run_in_a_bucket_ends_wrongly():
    table = simulate("--bucket", "--seeds", "0:4")
    assert re.search(r"violations +0\n", table)
    assert re.search(r"lost answers +[1-9]", table)


@pytest.mark.long
@pytest.mark.parametrize("words", [("--seed", "6"), ("--bucket", "--seed", "3")])
def test_the_same_seed_makes_the_same_calls_in_every_process(words):
    first, second = (simulate(*words, "--trace").partition("digest")[0] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: f"{planted.part}: {planted.name}")
def test_the_code_that_a_planted_fault_replaces_stands_there(planted):
    assert (REPO / planted.file).read_text().count(planted.old) == 1


@pytest.mark.long
def test_no_life_of_a_run_in_twenty_thousand_ends_wrongly():
    print(simulate("--seeds", "30:20030", "--workers", "2", "--processes", "200"))


@pytest.mark.long
def test_no_life_of_a_run_in_a_bucket_in_a_thousand_ends_wrongly():
    print(simulate("--bucket", "--seeds", "4:1004", "--workers", "2"))


@pytest.mark.long
def test_every_planted_fault_is_found():
    found: list[Found] = [search(planted) for planted in PLANTED]
    print(table(found))
    assert [one.planted.name for one in found if one.seed < 0] == []
