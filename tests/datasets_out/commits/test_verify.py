"""Whatever changes on disk after the commit, `verify` says so, and says it of the right file."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.run_files import RunFiles
from foil.datasets_out.commits.snapshot import load_snapshot, take_snapshot
from foil.datasets_out.commits.verify import verify
from foil.engine.errors import CorruptDataError
from tests.support.drills.commit_drill import JOB, topics_of


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    log = CommitLog(tmp_path_factory.mktemp("verify") / "out")
    log.open("drill", JOB)
    for partition in range(3):
        log.commit(partition, topics_of(partition), {"index": "abc"})
    log.put_plan({"seeds": 12, "partitions": 3})
    take_snapshot(log.out, "v1")
    return log.out


def files(out: Path) -> list[Path]:
    return sorted(path for path in out.rglob("*") if path.is_file())


def damaged(out: Path) -> set[str]:
    return {finding.path for finding in verify(out) if not finding.harmless}


@contextmanager
def spoiled(path: Path, spoil: Callable[[bytes], bytes]) -> Iterator[None]:
    raw = path.read_bytes()
    path.write_bytes(spoil(raw))
    try:
        yield
    finally:
        path.write_bytes(raw)


def refused(out: Path, path: Path) -> bool:
    """A trainer that loads the snapshot meets a file of its own; run.json and the like are not its business."""
    try:
        load_snapshot(out, "v1", verify=True)
    except CorruptDataError:
        return True
    return path.suffix == ".json" and path.parent.name != "snapshots"


def test_a_whole_run_has_nothing_to_report(out):
    assert len(files(out)) == 3 * 6 + 3 + 3
    assert verify(out) == []


def flip_bits(out: Path, flips: int, seed: int) -> None:
    rng = random.Random(seed)
    for trial in range(flips):
        path = rng.choice(files(out))
        bit = rng.randrange(path.stat().st_size * 8)

        def flip(raw: bytes, bit: int = bit) -> bytes:
            return raw[: bit // 8] + bytes([raw[bit // 8] ^ 1 << bit % 8]) + raw[bit // 8 + 1 :]

        with spoiled(path, flip):
            where = f"seed {seed}, trial {trial}: bit {bit} of {path}"
            assert path.relative_to(out).as_posix() in damaged(out), where
            assert refused(out, path), where


@pytest.mark.slow
def test_each_of_eight_hundred_flipped_bits_is_found(out):
    flip_bits(out, 800, seed=10)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_of_ten_thousand_flipped_bits_is_found(out):
    flip_bits(out, 10_000, seed=11)


@pytest.mark.slow
def test_each_of_a_hundred_truncations_and_extensions_is_found(out):
    rng = random.Random(12)
    for trial in range(100):
        path = rng.choice(files(out))
        length = rng.randrange(path.stat().st_size)
        with spoiled(path, lambda raw, length=length: raw[:length]):
            assert path.relative_to(out).as_posix() in damaged(out), (trial, length, path)
        with spoiled(path, lambda raw: raw + b"\n"):
            assert path.relative_to(out).as_posix() in damaged(out), (trial, path)


def test_every_missing_file_is_reported(out):
    for path in files(out):
        aside = out.parent / "aside"
        path.rename(aside)
        reported = {finding.path for finding in verify(out)}
        harmful = damaged(out)
        aside.rename(path)
        name = path.relative_to(out).as_posix()
        if name == "plan.json":
            assert reported == {name}
        elif name.startswith("commits/"):
            assert harmful == {"snapshots/v1.json"}
            assert "commits" in reported
        elif name.startswith("snapshots/"):
            assert reported == set()
        else:
            assert harmful == {name}


def test_every_pair_of_swapped_files_is_found(out):
    for path in files(out):
        twin = path.with_name(path.name.replace("00000000", "00000001"))
        if twin == path or path.read_bytes() == twin.read_bytes():
            continue
        first, second = path.read_bytes(), twin.read_bytes()
        with spoiled(path, lambda _, second=second: second), spoiled(twin, lambda _, first=first: first):
            assert {path.relative_to(out).as_posix(), twin.relative_to(out).as_posix()} <= damaged(out)


def test_an_entry_of_another_run_is_foreign(out, tmp_path):
    shutil.copytree(out, tmp_path / "out")
    other = CommitLog(tmp_path / "other")
    other.open("another job", JOB)
    other.commit(3, topics_of(3), {})
    shutil.copy(other.out / "commits/00000003.json", tmp_path / "out/commits/00000003.json")
    for table in ("topics", "intents", "passages", "judgments", "verdicts", "calls"):
        name = f"data/{table}/part-00000003.parquet"
        shutil.copy(other.out / name, tmp_path / "out" / name)
    (finding,) = verify(tmp_path / "out")
    assert (finding.path, finding.kind) == ("commits/00000003.json", "foreign")


def test_what_a_crash_left_is_listed_apart_as_harmless(out, tmp_path):
    shutil.copytree(out, tmp_path / "out")
    for name in ("staging/x.parquet.0f", "data/topics/part-00000009.parquet", "orphans/y.parquet", "commits/readme"):
        (tmp_path / "out" / name).write_bytes(b"?")
    findings = verify(tmp_path / "out")
    assert {finding.kind for finding in findings} == {"orphan"}
    assert all(finding.harmless for finding in findings)
    assert len(findings) == 4


def test_a_run_that_is_not_finished_says_what_is_missing(tmp_path):
    log = CommitLog(tmp_path)
    log.open("drill", JOB)
    log.put_plan({"seeds": 12, "partitions": 3})
    log.commit(1, topics_of(1), {})
    (finding,) = verify(tmp_path)
    assert (finding.kind, finding.harmless) == ("incomplete", True)
    assert finding.detail.startswith("1 of 3 partitions are committed, not 0, 2;")


def test_a_sample_reads_a_share_of_the_files_and_finds_damage_in_those(out, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(out, run)
    read = []
    monkeypatch.setattr(RunFiles, "find_fault", counted(RunFiles.find_fault, read))
    assert verify(run) == []
    everything, read[:] = set(read), []
    assert verify(run, share=0.5) == []
    drawn, read[:] = set(read), []
    assert 0 < len(drawn) < len(everything)
    assert drawn < everything
    assert verify(run, share=0.5) == []
    assert set(read) == drawn  # always the same ones
    for name in (min(drawn), min(everything - drawn)):
        with spoiled(run / name, lambda data: data[:-1]):
            assert {finding.path for finding in verify(run, share=0.5)} == {name} & drawn


def test_a_verification_that_was_stopped_goes_on(out, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(out, run)
    monkeypatch.setattr("foil.datasets_out.commits.verify._NOTED_AT_ONCE", 4)
    real, read = RunFiles.find_fault, []

    def stopped(log, file):
        if len(read) >= 10:
            raise KeyboardInterrupt
        read.append(file.path)
        return real(log, file)

    monkeypatch.setattr("foil.datasets_out.commits.verify._READERS", 1)
    monkeypatch.setattr(RunFiles, "find_fault", stopped)
    with pytest.raises(KeyboardInterrupt):
        verify(run)
    first, read[:] = list(read), []
    monkeypatch.setattr(RunFiles, "find_fault", counted(real, read))
    assert verify(run, resume=True) == []
    assert set(first[:8]).isdisjoint(read)  # noted four at a time
    assert len({*first, *read}) == 3 * 6
    read.clear()
    assert verify(run) == []  # without `resume` all of it is read
    assert len(read) == len({*first, *read})


def counted(real, read):
    """`find_fault` that notes what it reads."""

    def find_fault(log, file):
        read.append(file.path)
        return real(log, file)

    return find_fault
