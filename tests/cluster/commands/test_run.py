"""What `foil run` says before the first seed has ended."""

import os
import subprocess
import sys

from tests.support.commands import foil, write_job, write_seeds
from tests.support.paths import REPO


def test_the_first_line_comes_before_a_slow_corpus_gives_its_first_seed(tmp_path):
    job, fifo = write_job(tmp_path, 20), tmp_path / "pipe.jsonl"
    os.mkfifo(fifo)
    page = job.read_text().replace(str(tmp_path / "seeds.jsonl"), str(fifo))
    job.write_text(page)
    command = [sys.executable, "-m", "cluster", "run", str(job)]
    with subprocess.Popen(command, cwd=REPO, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr.readline() == "reading seeds: 0\n"
        finally:
            run.kill()


def test_reading_is_counted_until_seeds_end(tmp_path):
    job = write_job(tmp_path, 20)
    write_seeds(tmp_path / "seeds.jsonl", 30_000)
    run = foil("run", job, "--set", "limits.partition_seeds=30000", "--set", "limits.budget.calls=1")
    assert run.returncode == 4, run.stderr
    counts = [line for line in run.stderr.splitlines() if line.startswith("reading seeds: ")]
    assert counts[0] == "reading seeds: 0"
    assert len(counts) >= 2
