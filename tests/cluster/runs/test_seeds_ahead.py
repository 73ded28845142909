"""Seeds put aside for worker processes, through `foil run`: a full disk, a killed run, an edited corpus."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.commands import foil, write_job
from tests.support.paths import REPO

pytestmark = pytest.mark.slow

WORKERS = ("--set", "runtime.workers=2")
MOST_BYTES = 400_000


@contextmanager
def small_files():
    """No file may grow beyond MOST_BYTES, as on a disk that is full by then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def shards(out):
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted((out / "data").rglob("*.parquet"))}


def same_as_one_process(job, out):
    whole = out.with_name("whole")
    assert foil("run", job, "--out", whole).returncode == 0
    assert shards(out) == shards(whole)
    assert foil("verify", out).returncode == 0
    assert not (out / "spool").exists()


def test_a_disk_that_is_full_when_seeds_are_put_aside_is_told_and_nothing_is_lost(tmp_path):
    job, seeds, out = write_job(tmp_path, 50), tmp_path / "seeds.jsonl", tmp_path / "out"
    rows = [json.loads(line) for line in seeds.read_text().splitlines()]
    for row in rows[30:]:
        row["good"] += " It is built from two spars and a sail." * 2_000
    seeds.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with small_files():
        full = foil("run", job, *WORKERS)
    assert full.returncode == 8, full.stderr
    assert "the seeds of partition 3 cannot be written to" in full.stderr
    assert "File too large" in full.stderr
    assert {path.name for path in (out / "commits").iterdir()} <= {f"0000000{n}.json" for n in range(3)}
    more = foil("run", job, *WORKERS)
    assert more.returncode == 0, more.stderr
    same_as_one_process(job, out)


def test_seeds_that_were_edited_after_a_kill_are_refused_and_what_was_put_aside_is_swept(tmp_path):
    job, seeds, out = write_job(tmp_path, 300), tmp_path / "seeds.jsonl", tmp_path / "out"
    command = [sys.executable, "-m", "foil", "run", str(job), *WORKERS]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    run = subprocess.Popen(command, cwd=REPO, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (out / "commits" / "00000000.json").exists() and time.monotonic() < end:  # the second may come before it
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert list(out.glob("spool/*/*"))
    before = seeds.read_text()
    seeds.write_text(before.replace("Harbour Town 3.", "Harbour Town 4."))
    refused = foil("run", job, *WORKERS)
    assert refused.returncode == 2, refused.stderr
    assert "the first seed that differs is number 3 of partition 0, 's3'" in refused.stderr
    assert not (out / "spool").exists()
    seeds.write_text(before)
    assert foil("run", job, *WORKERS).returncode == 0
    same_as_one_process(job, out)


def test_screens_see_every_seed_in_order_whatever_the_workers(tmp_path):
    job, seeds, out = write_job(tmp_path, 40), tmp_path / "seeds.jsonl", tmp_path / "out"
    rows = [json.loads(line) for line in seeds.read_text().splitlines()]
    repeats = [{**row, "id": f"again {row['id']}"} for row in rows[::2]]
    seeds.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *repeats]))
    job.write_text(job.read_text().replace("[{kind: shape}", "[{kind: duplicates}, {kind: shape}"))
    more = foil("run", job, *WORKERS)
    assert more.returncode == 0, more.stderr
    assert "planned 60 seeds = 40 accepted + 20 rejected + 0 failed" in more.stdout
    same_as_one_process(job, out)


def pad(seeds):
    """Gives each row a column that no seed takes, so that the file has several blocks."""
    rows = [json.loads(line) | {"note": "x" * 20_000} for line in seeds.read_text().splitlines()]
    seeds.write_text("".join(json.dumps(row) + "\n" for row in rows))


def readers_of(run: int) -> list[int]:
    """The processes that make seeds: started by the one that the run started to read them."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    below = [pid for child in children.get(run, []) for pid in children.get(child, [])]
    return [pid for pid in below if _is_spawned(pid)]


def _is_spawned(pid: int) -> bool:
    """Whether it is a process of multiprocessing's, and still there."""
    with suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize(("workers", "readers"), [(0, 2), (2, 3)])
def test_several_readers_make_the_run_of_one(tmp_path, workers, readers):
    job, seeds, out = write_job(tmp_path, 240), tmp_path / "seeds.jsonl", tmp_path / "out"
    rows = [json.loads(line) for line in seeds.read_text().splitlines()]
    again = [{**row, "id": f"again {row['id']}"} for row in rows[::4]]
    almost = [{**row, "id": f"almost {row['id']}", "good": row["good"] + " Indeed."} for row in rows[1::4]]
    rows += again + almost
    seeds.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pad(seeds)
    job.write_text(job.read_text().replace("[{kind: shape}", "[{kind: duplicates}, {kind: shape}"))
    run = foil("run", job, "--set", f"runtime.workers={workers}", "--set", f"runtime.readers={readers}")
    assert run.returncode == 0, run.stderr
    assert "planned 360 seeds = 240 accepted + 120 rejected + 0 failed" in run.stdout
    same_as_one_process(job, out)


def test_readers_that_are_killed_are_replaced_and_a_killed_run_goes_on_with_another_number_of_them(tmp_path):
    job, out = write_job(tmp_path, 600), tmp_path / "out"
    pad(tmp_path / "seeds.jsonl")
    command = [sys.executable, "-m", "foil", "run", str(job), *WORKERS, "--set", "runtime.readers=2"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(command, cwd=REPO, env=environment, stdout=subprocess.DEVNULL, stderr=said)
    end, killed = time.monotonic() + 60, set()
    while not (len(killed) > 1 and list((out / "commits").glob("*.json"))) and time.monotonic() < end:
        for pid in {*readers_of(run.pid)} - killed if len(killed) < 2 else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.01)
    orphans = readers_of(run.pid)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert len(killed) > 1
    end = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in orphans) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in orphans)
    assert foil("run", job, *WORKERS, "--set", "runtime.readers=3").returncode == 0
    same_as_one_process(job, out)
