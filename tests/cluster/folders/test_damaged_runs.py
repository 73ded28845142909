"""What changes under a run between two commands: its seeds, its entries, its journal, its files. `foil` says so."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from foil.engine.flow.journal_records import line_of
from tests.support.commands import foil, write_job
from tests.support.paths import REPO
from tests.support.tiny_packages import write_packages

PARTITION = 10


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A copy of a finished run, 60 seeds in 6 partitions, beside the folder that it ran in."""
    world = tmp_path_factory.mktemp("runs") / "world"
    world.mkdir()
    job = write_job(world, 60)
    job.write_text(job.read_text().replace("seeds: {", "seeds: {negatives: 0, ") + "train: {}\n")
    assert run(world).returncode == 0
    return shutil.copytree(world, world.with_name("kept"))


@pytest.fixture
def world(kept) -> Path:
    """The folder of the job and its run, to be damaged; a seed file's path is part of its job."""
    world = kept.with_name("world")
    shutil.rmtree(world)
    return shutil.copytree(kept, world)


def stop_after(world: Path, partitions: int) -> None:
    """As a kill would have left it."""
    (world / "out" / "plan.json").unlink()
    for index in range(partitions, 6):
        (world / "out" / "commits" / f"{index:08d}.json").unlink()


def run(world: Path) -> subprocess.CompletedProcess[str]:
    return foil("run", world / "job.yaml")


def edit_seeds(world: Path, edit: Callable[[list[str]], list[str]]) -> None:
    path = world / "seeds.jsonl"
    path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))


def row(name: str) -> str:
    words = f"{name} is a kite of paper. It flew in 1911. Its tail is red."
    return json.dumps({"id": name, "query": f"What is {name}?", "good": words, "bad": ["A boat."]}) + "\n"


def changed_row(text: str) -> str:
    return text.replace("sail is cut from one paper", "sail is sewn from two silk")


EDITS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "rows put in front": (lambda rows: [row(f"new{i}") for i in range(40)] + rows, "number 0 of partition 0, 'new0'"),
    "a row changed": (
        lambda rows: [*rows[:13], changed_row(rows[13]), *rows[14:]],
        "number 3 of partition 1, 's13'",
    ),
    "a row taken away": (lambda rows: rows[:7] + rows[8:], "number 7 of partition 0, 's8'"),
    "two rows exchanged": (lambda rows: [rows[1], rows[0], *rows[2:]], "number 0 of partition 0, 's1'"),
    "rows cut off": (lambda rows: rows[:15], "partition 1 has 5 seeds, 10 were there"),
    "whole partitions cut off": (lambda rows: rows[:20], "the corpus has 20 seeds now and had more"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_a_resume_over_changed_seeds_is_refused_and_names_the_first(world, name):
    edit, told = EDITS[name]
    stop_after(world, 3)
    before = sorted(world.glob("out/data/**/*.parquet"))
    edit_seeds(world, edit)
    refused = run(world)
    assert refused.returncode == 2, refused.stderr
    assert "the seeds changed under this run" in refused.stderr
    assert told in refused.stderr
    assert sorted(world.glob("out/data/**/*.parquet")) == before


@pytest.mark.slow
def test_a_new_file_in_the_folder_of_a_corpus_is_a_changed_corpus(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    job = write_job(tmp_path, 30)
    (tmp_path / "seeds.jsonl").rename(corpus / "b.jsonl")
    job.write_text(job.read_text().replace(str(tmp_path / "seeds.jsonl"), str(corpus)))
    assert foil("run", job).returncode == 0
    (tmp_path / "out" / "plan.json").unlink()
    (tmp_path / "out" / "commits" / "00000002.json").unlink()
    (corpus / "a.jsonl").write_text(row("new"))
    refused = foil("run", job)
    assert (refused.returncode, "number 0 of partition 0, 'new'" in refused.stderr) == (2, True)
    (corpus / "a.jsonl").unlink()
    assert foil("run", job).returncode == 0


@pytest.mark.slow
def test_an_upgraded_package_is_a_changed_corpus(tmp_path):
    write_packages(tmp_path / "site")
    job = tmp_path / "job.yaml"
    job.write_text(
        "seeds: {kind: python_docs, libraries: [tinyarrays, tinytensors], questions_share: 0}\n"
        f"out: {tmp_path / 'out'}\n"
        "recipe: {kind: verifiable}\nlimits: {partition_seeds: 2}\n"
    )
    packages = {"PYTHONPATH": f"{tmp_path / 'site'}:{REPO}"}
    assert foil("run", job, env=packages).returncode == 0
    (tmp_path / "out" / "plan.json").unlink()
    max((tmp_path / "out" / "commits").iterdir()).unlink()
    module = tmp_path / "site" / "tinyarrays" / "stars.py"
    module.write_text(module.read_text().replace("Sentence 3 says", "Since version 2, sentence 3 says"))
    refused = foil("run", job, env=packages)
    assert (refused.returncode, "the seeds changed under this run" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_rows_appended_after_what_is_committed_are_taken_in(world):
    stop_after(world, 3)
    edit_seeds(world, lambda rows: [*rows, row("new")])
    assert run(world).returncode == 0
    assert "61" in foil("sql", world / "out", "SELECT count(*) FROM topics", "--csv").stdout


@pytest.mark.slow
def test_a_deleted_entry_is_not_made_anew_of_other_seeds(world):
    (world / "out" / "commits" / "00000002.json").unlink()
    edit_seeds(world, lambda rows: [*rows[:23], changed_row(rows[23]), *rows[24:]])
    refused = run(world)
    assert refused.returncode == 2
    assert "a seed changed before the end of partition 3, in a partition that has no commit entry" in refused.stderr
    assert not (world / "out" / "commits" / "00000002.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("edit", [lambda rows: [*rows[:-1], changed_row(rows[-1])], lambda rows: [*rows, row("new")]])
def test_the_plan_holds_the_last_partition_to_its_seeds(world, edit):
    (world / "out" / "commits" / "00000005.json").unlink()
    edit_seeds(world, edit)
    refused = run(world)
    assert refused.returncode == 2
    assert "the seeds changed under this run" in refused.stderr


def test_a_deleted_entry_is_made_anew_of_the_same_seeds(world):
    entry = world / "out" / "commits" / "00000002.json"
    there = entry.read_bytes()
    entry.unlink()
    assert run(world).returncode == 0
    assert entry.read_bytes() == there


def test_a_seed_id_that_another_partition_has_is_refused(world):
    stop_after(world, 3)
    edit_seeds(world, lambda rows: [*rows[:45], changed_row(rows[3]), *rows[46:]])
    refused = run(world)
    assert refused.returncode == 2
    assert "seeds.jsonl:46" in refused.stderr
    assert "seeds.jsonl:4" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "status", "sql", "verify", "snapshot", "why", "mix", "mine", "train"])
def test_an_entry_of_another_run_is_used_by_nobody(world, tmp_path_factory, command):
    other = tmp_path_factory.mktemp("other")
    assert foil("run", write_job(other, 60)).returncode == 0
    stop_after(world, 5)
    shutil.copy(other / "out" / "commits" / "00000002.json", world / "out" / "commits")
    arguments = {
        "run": [world / "job.yaml"],
        "sql": [world / "out", "SELECT 1"],
        "snapshot": [world / "out", "v1"],
        "why": [world / "out", "x"],
        "mix": [world / "out", world / "mix"],
        "mine": [world / "out", world / "mined", "--set", "miner=bm25"],
        "train": [world / "job.yaml"],
    }.get(command, [world / "out"])
    told = foil(command, *arguments)
    assert told.returncode == 6, told.stderr
    assert "00000002.json" in told.stderr
    assert "of another run" in told.stderr or "foreign" in told.stderr


@pytest.mark.slow
def test_verify_says_incomplete_with_a_code_of_its_own(world):
    assert foil("verify", world / "out").returncode == 0
    (world / "out" / "commits" / "00000004.json").unlink()
    told = foil("verify", world / "out")
    assert (told.returncode, "incomplete: 5 of 6 partitions are committed, not 4" in told.stderr) == (11, True)
    for entry in (world / "out" / "commits").iterdir():
        entry.unlink()
    told = foil("verify", world / "out")
    assert (told.returncode, "incomplete: 0 of 6" in told.stderr) == (11, True)
    (world / "out" / "plan.json").unlink()
    assert foil("verify", world / "out").returncode == 11


def write_journal(world: Path, data: bytes) -> None:
    path = world / "out" / "journal" / "1-abc-0000.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


@pytest.mark.slow
def test_a_damaged_journal_record_is_told_from_a_torn_tail(world):
    stop_after(world, 4)
    write_journal(world, b'deadbeef 4 {"asked"')
    told = foil("verify", world / "out")
    assert (told.returncode, "torn" in told.stderr) == (11, True)
    write_journal(world, b'00000000 4 {"asked":"x"}\n' + line_of(4, {"seeds": "y"}))
    told = foil("verify", world / "out")
    assert (told.returncode, "record 1 does not match its checksum" in told.stderr) == (6, True), told.stderr
    told = run(world)
    assert (told.returncode, "would be paid for again" in told.stderr) == (6, True), told.stderr


@pytest.mark.slow
def test_what_does_not_belong_into_a_run_stops_nobody(world):
    stop_after(world, 5)
    out = world / "out"
    os.mkfifo(out / "commits" / "00000009.json.tmp")
    os.mkfifo(out / "snapshots" / "pipe")
    (out / "journal" / "stray").mkdir(parents=True)
    (out / "journal" / "stray" / "x.log").write_text("x")
    os.mkfifo(out / "journal" / "pipe")
    (out / "sessions" / "x.json").write_text("{")
    (out / "sessions" / "y.json").write_text('{"seconds": "long"}')
    (out / "sessions" / "z.json").mkdir()
    assert foil("status", out).returncode == 0
    assert run(world).returncode == 0
    assert foil("verify", out).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["commits/00000002.json", "plan.json", "run.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_in_the_place_of_a_document_ends_nothing_in_a_wait(world, name, kind):
    path = world / "out" / name
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    unseen = kind == "folder" and name.startswith("commits")  # no listing shows it: the partition is not committed
    assert run(world).returncode in (6, 8)
    for command, incomplete in (("status", 0), ("verify", 11)):
        told = foil(command, world / "out")
        if unseen:
            assert told.returncode == incomplete, told.stderr
            continue
        assert told.returncode in (6, 8), told.stderr
        assert path.name in told.stderr


@pytest.mark.slow
def test_a_progress_file_that_cannot_be_written_ends_no_run(tmp_path):
    job = write_job(tmp_path, 20)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sessions").write_text("a file in its way")
    ran = foil("run", job)
    assert (ran.returncode, "cannot be written" in ran.stderr) == (0, True)
    assert foil("status", tmp_path / "out").returncode == 0
