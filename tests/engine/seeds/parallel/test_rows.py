"""Several processes that read one corpus: the seeds of one, whatever the blocks, the bad rows and the deaths."""

import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from copy import copy
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foil.engine.errors import FoilError, SeedFormatError, UsageError
from foil.engine.protocols import SeedReader
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.msmarco import MsmarcoRows, MsmarcoSettings
from foil.engine.seeds.parallel import rows as parallel_rows
from foil.engine.seeds.parallel.processes import map_in_order
from foil.engine.seeds.table import TableReader, TableSettings
from foil.engine.topic import PackedSeed, Seed
from tests.support.paths import REPO

COLUMNS = {"query": "q", "positives": "p"}


def table(path: Path, **options) -> TableReader:
    return TableReader(TableSettings(corpus="harbour", path=path, columns=COLUMNS, **options))


def msmarco(path: Path, **options) -> MsmarcoRows:
    return MsmarcoRows(MsmarcoSettings(path=path, **options))


def read(reader: SeedReader) -> tuple[list[Seed], dict[str, int], str]:
    """The seeds, the ledger and the error of a corpus; where there is one, no seeds."""
    try:
        seeds = [seed.unpack() if isinstance(seed, PackedSeed) else seed for seed in reader]
    except (UsageError, SeedFormatError) as error:
        return [], {}, str(error)
    return seeds, {kind: entry.count for kind, entry in reader.ledger.entries().items()}, ""


class OneByOne:
    """The blocks of a reader, read one by one in this process: what several do side by side."""

    def __init__(self, reader) -> None:
        self._reader = reader

    @property
    def ledger(self) -> Ledger:
        return self._reader.ledger

    def __iter__(self) -> Iterator[Seed]:
        blocks = map(partial(copy(self._reader).read_block, ()), self._reader.blocks())
        return (seed.unpack() for seed in self._reader.join(blocks))


def write(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


PASSAGE = st.builds(
    lambda text, selected: {"passage_text": text, "is_selected": selected},
    st.sampled_from(["high tide", "low tide", "spring tide", "a lamp", " "]),
    st.sampled_from([0, 1, 2]),
)
ROW = st.builds(
    lambda query, passages: {"query_id": query, "query": f"about {query}", "passages": passages},
    st.sampled_from(["a", "b", "c", 4]),
    st.lists(PASSAGE, max_size=3),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.one_of(ROW, ROW, ROW, st.sampled_from(["", "  ", "{broken", "[1]"])), max_size=12),
    size=st.sampled_from([1, 60, 200, 1 << 20]),
    on_error=st.sampled_from(["skip", "refuse"]),
)
def test_blocks_of_any_size_give_the_seeds_of_the_whole(tmp_path, rows, size, on_error):
    path = write(tmp_path / "rows.jsonl", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_rows, "BLOCK_BYTES", size)
        assert read(OneByOne(msmarco(path, on_error=on_error))) == read(msmarco(path, on_error=on_error))


KEPT = st.builds(
    lambda number, text, split: {"id": number, "q": f"berth {number}", "p": text, "split": split},
    st.integers(0, 3),
    st.sampled_from(["deep", "deep", "shallow", ""]),
    st.sampled_from(["heldout", "", None]),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.one_of(KEPT, KEPT, KEPT, st.just("{broken")), max_size=12), size=st.sampled_from([1, 60, 200]))
def test_blocks_of_any_size_give_the_ledger_of_the_whole(tmp_path, rows, size):
    path = write(tmp_path / "rows.jsonl", rows)
    columns = {**COLUMNS, "id": "id", "attributes": {"split": "split"}}
    make = partial(TableReader, TableSettings(corpus="c", path=path, columns=columns, on_error="skip", negatives=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_rows, "BLOCK_BYTES", size)
        assert read(OneByOne(make())) == read(make())


def some_rows(count: int) -> list[object]:
    return [{"q": f"how deep is berth {i}", "p": [f"Berth {i} is {i % 30} metres deep. " * 9]} for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.json", "rows.csv"])
def test_processes_give_the_seeds_of_one_with_mined_negatives(tmp_path, monkeypatch, processes, name):
    monkeypatch.setattr(parallel_rows, "BLOCK_BYTES", 1 << 14)
    rows, path = some_rows(600), tmp_path / name
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    match "".join(path.suffixes):
        case ".jsonl.gz":
            path.write_bytes(gzip.compress(lines.encode()))
        case ".json":
            path.write_text(json.dumps(rows))
        case ".csv":
            path.write_text("q,p\n" + "".join(f'{row["q"]},"{row["p"][0]}"\n' for row in rows))
        case _:
            path.write_text(lines)
    alone = read(table(path, negatives=2))
    assert len(alone[0]) == 600
    assert all(len(seed.negatives) == 2 for seed in alone[0])
    assert read(table(path, negatives=2).in_parallel(processes, ())) == alone


def test_an_id_that_stands_in_two_blocks_is_refused_or_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel_rows, "BLOCK_BYTES", 64)
    rows = [{"id": i % 50, "q": f"berth {i}", "p": "deep"} for i in range(80)]
    path = write(tmp_path / "rows.jsonl", rows)
    for on_error in ("refuse", "skip"):
        options = {"columns": {**COLUMNS, "id": "id"}, "on_error": on_error, "negatives": 0}
        make = partial(TableReader, TableSettings(corpus="harbour", path=path, **options))
        alone, together = read(make()), read(make().in_parallel(2, ()))
        assert together == alone
        assert (len(alone[0]), alone[1]) == ((50, {"skipped": 30}) if on_error == "skip" else (0, {}))
        assert ("rows.jsonl:51" in alone[2]) is (on_error == "refuse")


def test_a_bad_row_ends_the_run_after_the_seeds_before_it_and_names_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel_rows, "BLOCK_BYTES", 1 << 12)
    rows = some_rows(300)
    rows[250] = "{broken"
    reader = iter(table(write(tmp_path / "rows.jsonl", rows), negatives=0).in_parallel(2, ()))
    assert [next(reader).unpack().query for _ in range(250)] == [row["q"] for row in rows[:250]]
    with pytest.raises(SeedFormatError, match=r"rows\.jsonl:251"):
        next(reader)


def test_a_file_that_is_damaged_gives_what_stands_before_the_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel_rows, "BLOCK_BYTES", 1 << 12)
    data = gzip.compress("".join(json.dumps(row) + "\n" for row in some_rows(3_000)).encode(), 1)
    (tmp_path / "rows.jsonl.gz").write_bytes(data[: len(data) // 2])
    reader = iter(table(tmp_path / "rows.jsonl.gz", negatives=0).in_parallel(2, ()))
    assert len({next(reader).id for _ in range(500)}) == 500
    with pytest.raises(UsageError, match="damaged"):
        list(reader)


def test_rows_of_a_folder_without_seeds_are_told(tmp_path):
    write(tmp_path / "rows.jsonl", ["", ""])
    with pytest.raises(UsageError, match="no seeds"):
        list(table(tmp_path).in_parallel(2, ()))


def die_once(folder: Path, item: int) -> int:
    """The item; the first process to get item 5 dies of it."""
    if item == 5 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def die(_item: int) -> int:
    os._exit(3)


def test_a_process_that_dies_is_replaced_and_nothing_is_lost_or_doubled(tmp_path):
    assert list(map_in_order(partial(die_once, tmp_path), range(20), 2, "stamps")) == list(range(20))
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_deaths_without_a_result_between_end_it_and_are_told():
    with pytest.raises(FoilError, match="a process that stamps died 3 times in a row of the same"):
        list(map_in_order(die, range(20), 2, "stamps"))


def test_what_is_left_early_leaves_no_process():
    before = set(multiprocessing.active_children())
    results = iter(map_in_order(abs, range(1_000), 2, "counts"))
    assert next(results) == 0
    results.close()
    deadline = time.monotonic() + 20
    while set(multiprocessing.active_children()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(multiprocessing.active_children()) - before


def test_the_processes_end_with_the_one_that_asks(tmp_path):
    code = (
        "import os, sys, time\n"
        "from foil.engine.seeds.parallel.processes import map_in_order\n"
        "if __name__ == '__main__':\n"
        "    results = iter(map_in_order(abs, range(1_000), 2, 'counts'))\n"
        "    next(results)\n"
        "    import multiprocessing\n"
        "    print(*(p.pid for p in multiprocessing.active_children()), flush=True)\n"
        "    time.sleep(60)\n"
    )
    (tmp_path / "ask.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    with subprocess.Popen([sys.executable, tmp_path / "ask.py"], stdout=subprocess.PIPE, env=environment) as asking:
        assert asking.stdout is not None
        pids = [int(pid) for pid in asking.stdout.readline().split()]
        asking.kill()
    assert pids
    deadline = time.monotonic() + 20
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
