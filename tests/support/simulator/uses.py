"""The life of someone who uses a finished run: mining, Parquet, CSV to a full disk, all under troubles.

What must hold: a mined run is at any moment whole, and in the end that of an undisturbed mining. An export is absent or
whole, one that was told of stays, and no file is replaced. A failure is said, and has a documented exit code.
"""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from foil.datasets_out.sql import query
from foil.datasets_out.sql.output_formats import write_parquet
from foil.trainer.train.mining import mined_run
from tests.support.simulator.checker import EXIT_CODES, Dataset, check_rows, read
from tests.support.simulator.life import MEMORY, Life, put_finished_run
from tests.support.simulator.world import Process, World

_MINE = ("mine", "box/out", "box/mined", "--set", "per_intent=2")
_SELECT = "SELECT topic_id, query, status FROM topics ORDER BY topic_id"
_MET_EXISTING, _STORAGE = 2, 8


class Uses(Life):
    """A mining and an export, each tried under troubles and then in peace."""

    calls = 250
    where = ("mined/commits", "mined/data", "mined/staging", "mined/run.json", "mined/plan.json", "snapshots", "")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.mined, self.export = self.folder / "box" / "mined", self.folder / "box" / "export.parquet"
        self.acknowledged: set[int] = set()
        self.exported = False  # a command has said so; one that was killed on the way promised nothing
        put_finished_run(world)
        world.told["mined and exported"] += 1

    def play(self) -> None:
        """Mines and exports under troubles, then in peace."""
        for _ in range(self.dice.randint(1, 3)):
            self._mine(**self._troubles(self.dice))
        self._finish_mining()
        self.calls, self.where = 8, ("export", "export", "")
        for _ in range(2):
            self._export(**self._troubles(self.dice))
        self._finish_export()
        self._print_to_a_full_disk()

    def _mine(self, **troubles: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            other = self.dice.random() < 0.15
            if other:
                patch.setattr(mined_run, "MINING_VERSION", "next")
            begun = (self.mined / "run.json").exists()
            process = self.foil(*_MINE, **troubles)
        peaceful = not process.met and not process.signal_at and process.code is not None
        if other and not begun:  # whoever comes first decides whose folder it is
            self._remove_mined()
        elif peaceful and process.code != (2 if other else 0):
            self.violated(f"mine: ended with {process.code}, another version {other}: {process.stderr[-300:]}")
        self._look(done=process.code == 0 and not other)
        if self.dice.random() < 0.4:
            self._cut_power()
            self._look(done=False)

    def _remove_mined(self) -> None:
        self.world.disk.remove(self.mined)

    def _look(self, *, done: bool) -> None:
        data = read(self.mined)
        for fault in data.faults:
            self.violated(f"damaged: the mined run: {fault}")
        if lost := self.acknowledged - data.entries.keys():
            self.violated(f"lost: the mined partitions {sorted(lost)} were told of")
        self.acknowledged |= data.entries.keys() if done else set()

    def _finish_mining(self) -> None:
        process = self.foil(*_MINE)
        data, wanted = read(self.mined), undisturbed().mined
        if process.code != 0 or data.shas != wanted.shas:
            self.violated(f"mine: ended with {process.code}, or is not as undisturbed: {process.stderr[-200:]}")
        for fault in check_rows(data, ()):
            if not fault.startswith("mixed: the rows"):
                self.violated(fault)
        if self.foil("verify", "box/mined").code != 0:
            self.violated("verify: a mined run is not clean")

    def _export(self, **troubles: Any) -> Process:
        before = self.export.read_bytes() if self.export.exists() else None
        process = self._sql("--parquet", "box/export.parquet", **troubles)
        self._judge_export(process, before)
        self.exported = self.exported or process.code == 0
        if self.dice.random() < 0.4:
            self._cut_power()
            if self.exported and not self.export.exists():
                self.violated("lost: an export was told of, and is gone")
            self._judge_export(None, before)
        return process

    def _judge_export(self, process: Process | None, before: bytes | None) -> None:
        now = self.export.read_bytes() if self.export.exists() else None
        if now not in {None, undisturbed().export}:
            self.violated(f"half: an export holds {len(now or b'')} bytes of {len(undisturbed().export)}")
        if process is None:
            return
        if process.code == 0 and (now is None or before is not None):
            self.violated("export: foil sql ended with 0, and wrote no file, or over one")
        if before is not None and not process.met and process.code not in {_MET_EXISTING, None, 130, 143}:
            self.violated(f"export: a file that is there ended foil sql with {process.code}")

    def _finish_export(self) -> None:
        there = self.export.exists()
        code = self._export().code
        if code != (_MET_EXISTING if there else 0) or (self.exported and not self.export.exists()):
            self.violated(f"export: foil sql in peace ended with {code}")

    def _print_to_a_full_disk(self) -> None:
        """What a shell's `> rows.csv` gets to see where the disk is full."""
        process = self._sql("--csv", full=True)
        if process.code not in EXIT_CODES - {0}:
            self.violated(f"export: a CSV that could not be written ended with {process.code}")

    def _sql(self, *words: str, **troubles: Any) -> Process:
        """`foil sql`; what its child process answers is asked once, as it is the same in every life."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(query, "run_sql", lambda *_words, form, **_options: undisturbed().answers[form])
            return self.foil("sql", "box/out", _SELECT, *words, **troubles)


@dataclass(frozen=True)
class Undisturbed:
    """What the same commands make of the finished run in peace."""

    mined: Dataset
    export: bytes
    answers: dict[str, pa.Table]


@cache
def undisturbed() -> Undisturbed:
    """Mined, exported and asked once in a process, by the real child process of `foil sql`."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="foil-sim-") as name, World(0, Path(name)).ruling() as world:
        life = Uses(world)
        process = life.foil(*_MINE)
        if process.code != 0 or life.found:
            raise RuntimeError(f"a mining in peace ended with {process.code}: {life.found} {process.stderr}")
        answers = {form: query.run_sql(life.out, _SELECT, form=form) for form in ("typed", "text")}
        write_parquet(answers["typed"], life.export)
        return Undisturbed(read(life.mined), life.export.read_bytes(), answers)
