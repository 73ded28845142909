"""What `foil run` says before the first seed has ended, and at the end."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.commands import foil, hosted_job, write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.paths import REPO


def test_the_first_line_comes_before_a_slow_corpus_gives_its_first_seed(tmp_path):
    job, fifo = write_job(tmp_path, 20), tmp_path / "pipe.jsonl"
    os.mkfifo(fifo)
    page = job.read_text().replace(str(tmp_path / "seeds.jsonl"), str(fifo))
    job.write_text(page)
    command = [sys.executable, "-m", "foil", "run", str(job)]
    with subprocess.Popen(command, cwd=REPO, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr.readline() == "reading seeds: 0\n"
        finally:
            run.kill()


@pytest.mark.slow
def test_reading_is_counted_until_seeds_end(tmp_path):
    with serving(answer=Character()) as server:
        job = hosted_job(tmp_path, server.url, 12_000)
        run = foil("run", job, "--set", "limits.partition_seeds=12000", "--set", "limits.budget.calls=1")
    assert run.returncode == 4, run.stderr
    counts = [line for line in run.stderr.splitlines() if line.startswith("reading seeds: ")]
    assert counts[0] == "reading seeds: 0"
    assert len(counts) >= 2


def test_the_end_says_what_was_not_looked_at_and_what_found_nothing(tmp_path):
    job = write_job(tmp_path, 20)
    run = foil("run", job)
    assert run.returncode == 0, run.stderr
    said = run.stdout + run.stderr
    assert "not compared with any evaluation set" in said
    assert re.search(r"leak +\S +20 +\S +0 ", said), said
    assert "none of" not in said


def test_a_run_that_accepts_nothing_says_why_and_what_to_do(tmp_path):
    job = write_job(tmp_path, 20)
    run = foil("run", job, "--set", "recipe.kind=dual_view", "--set", "models.writer={kind: local_vllm, model: m}")
    said = run.stdout + run.stderr
    assert "none of 20 topics was accepted\n" in said, said
    assert "100% no_instruction, 20 of 20 topics: The seed states no instruction" in said
    assert re.search(r"leak +\S +0 +\S +0 ", said), said
    assert "not compared with" not in said
