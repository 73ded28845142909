"""What `foil gc` frees, and what it never touches."""

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, take_snapshot
from foil.datasets_out.curation.collection import collect
from foil.engine.errors import CorruptDataError, RunHeldError
from foil.engine.flow.journal import Journal
from foil.engine.requests import Reply
from foil.engine.storage.lease import hold
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.opening import open_store
from tests.support.commands import write_job


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gc")
    assert run_command(app, ["run", str(write_job(folder, 30))]) == 0
    return folder / "out"


@pytest.fixture
def out(finished, tmp_path) -> Path:
    """A finished run with an unfinished file, an orphan of each kind, and journals, one of partition 99, which is not
    committed.
    """
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    (out / "staging" / "part.abc").write_bytes(b"x" * 10)
    (out / "orphans" / "old").write_bytes(b"x" * 20)
    (out / "data" / "topics" / f"part-00000000-{'0' * 64}.parquet").write_bytes(b"x" * 30)
    journal = Journal(LocalStore(out), "of-99")
    for partition in (0, 99):
        asyncio.run(journal.open(partition).put(Reply("1", "paid")))
    return out


def age(out: Path, days: float) -> None:
    then = time.time() - days * 86_400
    for path in (out / "journal").rglob("*"):
        os.utime(path, (then, then))


def names(found) -> set[tuple[str, str]]:
    return {(each.kind, each.path.name) for each in found}


def test_a_dry_run_says_what_goes_and_the_next_removes_it(out, capsys):
    loose = {("staging", "part.abc"), ("orphan", "old"), ("orphan", f"part-00000000-{'0' * 64}.parquet")}
    digest = load_snapshot(out, None).digest
    assert names(collect(out, 30, dry_run=True)) == loose
    age(out, 31)
    there = {path.name for path in (out / "journal").iterdir()}
    journals = {("journal", name) for name in there if not name.startswith("of-99")}
    assert len(journals) == len(there) - 1
    assert run_command(app, ["gc", str(out), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["removed"], len(told["found"])) == (False, len(loose | journals))
    assert names(collect(out, 30, dry_run=False)) == loose | journals
    assert not collect(out, 30, dry_run=True)
    assert Journal(LocalStore(out)).open(99).get("1")
    assert load_snapshot(out, None, verify=True).digest == digest
    assert run_command(app, ["verify", str(out)]) == 0


@pytest.mark.parametrize("finished_run", [True, False])
def test_replies_that_no_seed_asked_for_go_with_those_of_a_finished_run(out, finished_run, capsys):
    journal = Journal(LocalStore(out), "unasked")
    journal.open(0).note_unasked(Reply("own", "paid"))
    journal.close()
    if not finished_run:  # then they count in its budget
        max((out / "commits").glob("*.json")).unlink()
    age(out, 31)
    assert run_command(app, ["gc", str(out), "--json"]) == 0
    freed = {Path(each["path"]).name for each in json.loads(capsys.readouterr().out)["found"]}
    assert any(name.startswith("unasked") for name in freed) is finished_run


def test_a_run_that_lives_is_left_alone(out):
    async def held() -> None:
        async with hold(open_store(out), takeover=False):
            await asyncio.to_thread(collect, out, 0, dry_run=False)

    with pytest.raises(RunHeldError):
        asyncio.run(held())
    assert (out / "staging" / "part.abc").exists()


def test_what_a_snapshot_names_stays_even_without_an_entry(out):
    take_snapshot(out, "kept")
    last = max(CommitLog(out).partitions())
    (out / "commits" / f"{last:08d}.json").unlink()
    collect(out, 0, dry_run=False)
    load_snapshot(out, "kept", verify=True)


def test_nothing_goes_where_an_entry_does_not_read(out):
    entry = next((out / "commits").glob("*.json"))
    entry.write_bytes(entry.read_bytes()[:-9])
    with pytest.raises(CorruptDataError):
        collect(out, 0, dry_run=False)
    assert (out / "orphans" / "old").exists()


def test_what_is_no_run_is_told(tmp_path):
    assert run_command(app, ["gc", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())


ODD = [None, "1", {}, -1, 10**400, float("nan")]


@pytest.mark.slow
@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("name", ["number", "at", "pid", "since"])
def test_a_lease_with_odd_values_ends_gc_with_no_fault(out, name, value, capsys):
    kind = "beat" if name in ("number", "at", "released") else "json"
    path = max((out / "lease").glob(f"*.{kind}"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    assert run_command(app, ["gc", str(out), "--dry-run"]) in (0, 12), capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("text", ["null", "[]", "[" * 100_000, '{"number": null, "at": null, "released": null}'])
@pytest.mark.parametrize("kind", ["beat", "json"])
def test_a_lease_that_does_not_read_ends_gc_with_no_fault(out, kind, text, capsys):
    max((out / "lease").glob(f"*.{kind}")).write_text(text)
    assert run_command(app, ["gc", str(out), "--dry-run"]) in (0, 12), capsys.readouterr().err
