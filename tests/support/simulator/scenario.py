"""One seed, one life of a run: attempts under faults and edited inputs, then attempts in peace until it is complete."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from foil.datasets_out.commits.encoding import seal
from foil.engine.flow.ask import schema_of
from foil.prompts.recipes.custom.recipe import model_of
from foil.prompts.recipes.custom.specs import Stage
from tests.support.models.character import SCHEMAS
from tests.support.simulator import inputs
from tests.support.simulator.checker import (
    Dataset,
    Version,
    check_bills,
    check_glob,
    check_rows,
    compare,
    compare_topics,
    first_difference,
    is_complete,
    read,
)
from tests.support.simulator.life import MEMORY, Life, run_foil
from tests.support.simulator.provider import PRICE, Provider
from tests.support.simulator.world import Process, World

ASKING = (
    f"{{kind: custom, templates: {Path(__file__).parent / 'templates'}, negatives: 2, "
    "stages: [{name: kite, answer: {instruction: string, text: string}}], topic: {"
    "intents: [{role: original}, {role: instructed, instruction: kite.instruction}], "
    "passages: [{role: seed_positive, text: positive}, {role: instruction_negative, text: kite.text}, "
    "{role: seed_negative, text: negatives}], "
    "judgments: [[original, seed_positive, 1], [original, instruction_negative, 1], [original, seed_negative, -1], "
    "[instructed, seed_positive, 1], [instructed, instruction_negative, -1]]}}"
)
"""A recipe that asks a model once a seed, in place of `verifiable`, which asks none."""
_ANSWER = model_of(Stage.model_validate({"name": "kite", "answer": {"instruction": "string", "text": "string"}}))
SCHEMAS[_ANSWER.__name__] = schema_of(_ANSWER)
_NAMED = re.compile(r"'s\d+'|ended earlier|the corpus has|commit entry is gone")


@dataclass(frozen=True)
class Plan:
    """What a seed draws once: the input, the writer, the limits, and how often each trouble comes."""

    version: Version
    writer: str
    accept: int | None
    budget: int | None
    window: int
    faulty: float
    odd_usage: float
    said: float
    attempts: int


def draw(dice: Random) -> Plan:
    hosted_writer = dice.random() < 0.45
    version = Version(inputs.first_rows(dice, dice.randint(4, 9)), dice.randint(2, 4))
    return Plan(
        version,
        "hosted" if hosted_writer else "rule",
        dice.randint(2, 6) if dice.random() < 0.1 else None,
        dice.randint(2, 6) if hosted_writer and dice.random() < 0.3 else None,
        dice.choice((1, 2, 4, 16)),
        dice.choice((0.0, 0.2, 0.5)),
        dice.choice((0.0, 0.0, 0.2)),
        dice.choice((0.0, 0.03, 0.1)),
        dice.randint(1, 4),
    )


class MovedFolder:
    """A run's folder that somebody moves away under it, and brings back afterwards.

    `strike` moves `out` to `away`; in its place is then nothing, an empty folder, or a copy without the lease.
    """

    def __init__(self, world: World, out: Path) -> None:
        self._world, self._out, self.away = world, out, out.with_name("away")

    def strike(self) -> None:
        """Moves the folder, if there is one."""
        if not self._out.exists() or self.away.exists():
            return
        world, process = self._world, self._world.running
        world.told["moved folders"] += 1
        world.running = None  # the calls of somebody else
        try:
            world.disk.move(self._out, self.away)
            kind = world.dice.choice(("gone", "empty", "copy"))
            world.note(f"moved away, {kind}")
            if kind == "empty":
                self._out.mkdir()
            if kind == "copy":
                shutil.copytree(self.away, self._out, ignore=shutil.ignore_patterns("lease"))
                world.disk.notice()  # before the call that was under way meets the copy
        finally:
            world.running = process

    def was_held_by(self, process: Process) -> bool:
        """Whether the process had taken the folder before it was moved."""
        return any(f'"pid":{process.pid},' in path.read_text("latin-1") for path in self.away.glob("lease/*.json"))

    def bring_back(self) -> None:
        """Removes what came to stand in its place, and moves it back."""
        self._world.disk.remove(self._out)
        self._world.disk.move(self.away, self._out)


class Scenario(Life):
    """The life of a run."""

    counted = ("run.json", "plan.json", "commits/*", "data/*/*", "snapshots/*", "journal/*")
    """Files of which every bit counts."""
    on_disk = True
    """Whether the folder can be moved, and files exchanged, without the run."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world)
        self.plan = plan
        self.version, self.tried = plan.version, [plan.version]
        self.jobs: dict[str, tuple[Any, ...]] = {}
        self.provider = Provider(world, plan.faulty, plan.odd_usage, plan.said)
        self.snapshots: dict[str, str] = {}
        self.acked: set[int] = set()
        self.budget = plan.budget
        self._moved = MovedFolder(world, self.out)

    def play(self) -> None:
        """Attempts under troubles, then peace."""
        with self.provider.serving():
            for _ in range(self.plan.attempts):
                self._mischief()
            self._finish()

    def _job(self, version: Version) -> list[str]:
        """The words of `foil run` for a version, whose files are written."""
        inputs.write(version, self.folder / "seeds.jsonl")
        job = self.folder / "job.yaml"
        recipe = "recipe: {kind: verifiable}\n"
        if self.plan.writer == "hosted":
            more = "structured: json_schema, patience: {timeout_s: 20, outage_s: 60}"
            price = f"price: {{prompt: {PRICE['prompt']}, completion: {PRICE['completion']}}}"
            model = f"{{kind: hosted, model: sim, url: 'http://127.0.0.1:9/v1', {more}, {price}}}"
            recipe = f"recipe: {ASKING}\nmodels: {{writer: {model}}}\n"
        limits = [f"partition_seeds: {version.size}"]
        limits += [f"accept: {self.plan.accept}"] if self.plan.accept else []
        limits += [f"budget: {{calls: {self.budget}}}"] if self.budget else []
        job.write_text(
            "seeds: {kind: table, corpus: kites, path: seeds.jsonl, columns: {query: query, positives: good, id: id, "
            f"negatives: bad}}}}\n{recipe}out: {self.place}\n"
            f"limits: {{{', '.join(limits)}}}\nruntime: {{window: {self.plan.window}}}\n"
            "validators: [{kind: shape}, {kind: leak}, {kind: constraint_check}, {kind: duplicates}]\n"
        )
        return ["run", "job.yaml", *(word for setting in version.settings for word in ("--set", setting))]

    # attempts

    def _mischief(self) -> None:
        dice, before = self.dice, read(self.out)
        if dice.random() < 0.4:
            self.version = inputs.edited(dice, dice.choice(self.tried), with_foil=self.plan.accept is None)
            self.world.told["edited inputs"] += 1
        elif dice.random() < 0.5:
            self.version = self.plan.version
        if self.version not in self.tried:
            self.tried.append(self.version)
        if self.plan.writer == "hosted" and dice.random() < 0.2:
            begin = self.world.now + dice.uniform(0, 4)
            self.provider.outage = begin, begin + dice.choice((5.0, 30.0, 500.0))
        processes = self._processes(dice)
        owner = self._owner()
        with inputs.code_of(self.version):
            self.world.run(processes)
        for process in processes:
            self._judge(process, ("run",))
            if "has taken" in process.stderr and not process.met:
                self.violated("lease: a run that lives and beats has lost its folder")
            if self._moved.away.exists():
                self._judge_moved(process)
            else:
                self._judge_run(process, before, owner)
        self._learn_owner(processes)
        well = all(process.code is not None and not process.met for process in processes)
        done = well and any(process.code in {0, 3} for process in processes)
        self._look(acknowledged=lambda index: done or (well and index not in before.entries))
        if dice.random() < 0.4:
            self._cut_power()
            self._look()
        if dice.random() < 0.3:
            troubles = self._troubles(dice) if dice.random() < 0.3 else {}
            self._read_commands(**troubles)

    def _processes(self, dice: Random) -> list[Process]:
        words = self._job(self.version)
        processes = [Process(partial(run_foil, words), **self._troubles(dice))]
        if dice.random() < 0.12:
            self.world.told["races"] += 1
            other = replace(self.version, settings=("recipe.negatives=1",)) if dice.random() < 0.2 else self.version
            self.tried += [other] if other not in self.tried else []
            processes.append(Process(partial(run_foil, self._job(other)), **self._troubles(dice)))
            for process in processes:
                process.racing = True
                process.clock_at = dice.randint(1, 60) if dice.random() < 0.6 else process.clock_at
        elif self.on_disk and dice.random() < 0.15:
            processes = [Process(processes[0].main, strike_at=dice.randint(1, 200), strike=self._moved.strike)]
        return processes

    def _judge_moved(self, process: Process) -> None:
        """A run whose folder was moved ends well only if the one that it held has all of it; else it says so.

        What held none has made a run in the place of the moved one, or read that one, finished, before it went.
        """
        held = self._moved.was_held_by(process)
        data = read(self.out if not held and (self.out / "run.json").exists() else self._moved.away)
        if process.code in {0, 3} and not any(is_complete(data, one, self.plan.accept) for one in self.tried):
            self.violated(f"moved: exit code {process.code}, and the folder of the run lacks a part of it")
        if held and "holds no run" in process.stderr:
            self.violated("moved: a run whose folder is gone is told to start one there")
        self._moved.bring_back()
        self.power_cuts += 1

    def _judge_run(self, process: Process, before: Dataset, owner: tuple[Any, ...] | None) -> None:
        """A run over other inputs than those of the folder must have been refused, and must say why."""
        if process.code is None or process.failure or process.racing:
            return
        only_sessions = process.met and all(fault.where == "sessions" for fault in process.faults)
        differs = first_difference(before, self.version) if before.entries else None
        complete = any(is_complete(before, version, self.plan.accept) for version in self.tried)
        if process.code in {0, 3}:
            now = read(self.out)
            if not any(
                is_complete(now, version, self.plan.accept) and not first_difference(now, version)
                for version in self.tried
            ):
                self.violated(f"lost: exit code {process.code}, yet only partitions {sorted(now.entries)} are there")
        if owner is not None and owner != self.version.job:
            if process.code != 2 and not process.met and not process.signal_at:
                self.violated(f"not refused: another job ended with {process.code}")
        elif differs and not complete and not process.met and not process.signal_at:
            said = process.stderr
            if process.code != 2:
                self.violated(f"not refused: changed seeds ended with {process.code}")
            elif "another job" not in said and not _NAMED.search(said):
                self.violated(f"unnamed: the refusal names no seed that differs: {said.strip()[-300:]}")
        elif only_sessions and not process.signal_at and process.code not in {0, 3, 4, 9, 2}:
            self.violated(f"sessions: an unwritable session file ends a run with {process.code}")

    def _owner(self) -> tuple[Any, ...] | None:
        """The job whose run the folder holds, where that is known; one that left nothing makes way for the next."""
        path = self.out / "run.json"
        if not any(self.out.glob("commits/*")) and not any(self.out.glob("journal/*")):
            return None
        return self.jobs.get(json.loads(path.read_bytes())["fingerprint"]) if path.exists() else None

    def _learn_owner(self, processes: list[Process]) -> None:
        path, first = self.out / "run.json", processes[0]
        surely = len(processes) == 1 and not first.met and first.code not in {None, 2}  # else it may be another job's
        if surely and path.exists():
            self.jobs.setdefault(json.loads(path.read_bytes())["fingerprint"], self.version.job)

    # looking

    def _look(self, acknowledged: Callable[[int], bool] = lambda _index: False) -> Dataset:
        """Checks what must hold at any moment. `acknowledged` partitions must be there from now on."""
        data = read(self.out)
        for text in check_rows(data, self.tried):
            self.violated(text)
        if lost := self.acked - data.entries.keys():
            self.violated(f"lost: the partitions {sorted(lost)} were acknowledged")
        self.acked |= set(filter(acknowledged, data.entries))
        for text in check_bills(data, self.provider, self.budget, None, power_cuts=self.power_cuts > 0):
            self.violated(text)
        for name, digest in self.snapshots.items():
            path = self.out / "snapshots" / f"{name}.json"
            if not path.exists() or json.loads(path.read_bytes())["digest"] != digest:
                self.violated(f"lost: the snapshot {name} was taken")
        return data

    def _read_commands(self, **troubles: Any) -> None:
        """What people do between two attempts: look, verify, pin. One of the commands may meet trouble."""
        name = f"at-{len(self.snapshots)}-{self.dice.randrange(1000)}"
        words = [("status", self.place, "--json"), ("verify", self.place), ("snapshot", self.place, name)]
        for place, command in enumerate(words):
            trouble = troubles if place == len(self.snapshots) % 3 else {}
            process = self.foil(*command, **trouble)
            if command[0] == "snapshot" and process.code == 0:
                self.snapshots[name] = json.loads(process.stdout)["digest"]
            if command[0] == "verify" and not process.met and process.code is not None and process.code < 128:
                self._judge_verify(process)

    def _judge_verify(self, process: Process) -> None:
        data = read(self.out)
        fitting = [version for version in self.tried if not first_difference(data, version)]
        complete = {is_complete(data, version, self.plan.accept) for version in fitting}
        planned = (self.out / "plan.json").exists()
        wanted = {0} if complete == {True} and planned else {0, 11} if True in complete else {11}
        if process.code not in wanted | (set() if data.entries else {2}):
            state = "complete" if True in complete else "incomplete"
            self.violated(f"verify: {process.code} of a run that is {state} and undamaged: {process.stderr[-200:]}")

    # the end

    def _finish(self) -> None:
        """In peace, with one of the inputs that fit: complete, like an undisturbed run, and verified."""
        self.provider.outage, self.provider.rate, self.budget = (0.0, 0.0), 0.0, None
        data = read(self.out)
        rows, jobs = dict.fromkeys(version.rows for version in self.tried), dict.fromkeys(v.job for v in self.tried)
        tries = [Version(one, *job) for job in jobs for one in rows]
        fitting = [version for version in tries if not first_difference(data, version)]
        codes, said = [], ""
        for version in fitting:
            self.tried += [version] if version not in self.tried else []
            with inputs.code_of(version):
                process = self.foil(*self._job(version))
            codes.append(process.code)
            said = process.stderr[-300:]
            data = self._look(lambda _index, done=process.code in {0, 3}: done)
            if process.code in {0, 3}:
                self._check_finished(version, data)
                return
        self.violated(f"stuck: none of {len(fitting)} fitting inputs is taken, exit codes {codes}: {said}")

    def _check_finished(self, version: Version, data: Dataset) -> None:
        fits = [
            one
            for one in (version, *self.tried)
            if is_complete(data, one, self.plan.accept) and not first_difference(data, one)
        ]
        if not fits:
            self.violated(f"lost: a finished run holds only partitions {sorted(data.entries)}")
            return
        texts = list(check_glob(self.out, data))
        if self.dice.random() < 0.3:
            self._cut_power()
            data = self._look()
            texts += check_glob(self.out, data)
        for text in [*texts, *self._compare(data, fits)]:
            self.violated(text)
        process = self.foil("status", self.place, "--json")
        if process.code == 0:
            status = json.loads(process.stdout)
            bills = check_bills(data, self.provider, None, status, power_cuts=self.power_cuts > 0)
            for text in bills if self.plan.writer == "hosted" else ():
                self.violated(text)
            if not (status["complete"] and 0 <= status["seconds"] < 1e6):
                self.violated(f"status: complete {status['complete']}, {status['seconds']} s")
        process = self.foil("verify", self.place)
        if process.code != 0:
            self.violated(f"verify: {process.code} of a finished run: {process.stderr[-300:]}")
        self._flip_bits()
        if self.dice.random() < 0.2 and data.entries:
            self._plant_foreign_entry()
        if self.on_disk and self.dice.random() < 0.25 and data.entries:
            self._pack(data)

    def _compare(self, data: Dataset, fits: list[Version]) -> list[str]:
        """How the run differs from undisturbed runs of every input that fits: an edit may show in no committed row."""
        first: list[str] = []
        foils = list(dict.fromkeys(version.foil for version in self.tried))
        for one in fits:
            try:
                wanted = [undisturbed(replace(one, foil=foil), self.plan) for foil in foils]
            except RuntimeError:  # an input that no run takes, such as two seeds of one id
                continue
            how = compare if len(wanted) == 1 else compare_topics
            differences = list(how(data, *wanted, odd_usage=bool(self.provider.odd)))
            if not differences:
                return []
            first = first or differences
        return first

    def _flip_bits(self) -> None:
        """One flipped bit in any file that is part of the run is found, and named."""
        files = sorted(path for pattern in self.counted for path in self.out.glob(pattern) if _flippable(path))
        for path in self.dice.sample(files, min(2, len(files))):
            raw = path.read_bytes()
            place = self.dice.randrange(_flippable(path))
            self.write(path, raw[:place] + bytes([raw[place] ^ 1 << self.dice.randrange(8)]) + raw[place + 1 :])
            self.world.told["flipped bits"] += 1
            process = self.foil("verify", self.place)
            if process.code != 6 or path.name not in process.stderr:
                self.violated(
                    f"flipped bit: verify ended with {process.code} for {path.relative_to(self.out).parts[0]}/"
                )
            self.write(path, raw)

    def _plant_foreign_entry(self) -> None:
        """An entry of another job among ours is refused by every reader."""
        path = self.dice.choice(sorted((self.out / "commits").glob("*.json")))
        raw = path.read_bytes()
        body = json.loads(raw)
        del body["sha256"]
        self.write(path, seal({**body, "fingerprint": "f" * len(body["fingerprint"])}))
        for words in (("status", self.place), ("verify", self.place), ("snapshot", self.place, "foreign")):
            if self.foil(*words).code not in {2, 6}:
                self.violated(f"foreign: foil {words[0]} takes an entry of another job")
        self.write(path, raw)

    def _pack(self, data: Dataset) -> None:
        """Packed, also over troubles, a run is what it was, and each file that a snapshot alone names still counts."""
        self.world.told["packed runs"] += 1
        digests = [self._pin("small")]
        for _ in range(self.dice.randint(0, 2)):
            self.foil("compact", self.place, **self._troubles(self.dice))
            if self.dice.random() < 0.4:
                self._cut_power()
        if self.foil("compact", self.place).code != 0:
            self.violated("packed: foil compact in peace fails")
        digests.append(self._pin("packed"))
        if len(set(digests)) > 1 or self.foil("verify", self.place).code != 0:
            self.violated("packed: foil compact has changed the run")
        files = sorted(file["path"] for entry in data.entries.values() for file in entry["files"].values())
        for name in self.dice.sample(files, min(3, len(files))):
            self._damage_packed(self.out / name, [self.out / other for other in files if other != name])

    def _pin(self, name: str) -> str:
        process = self.foil("snapshot", self.place, name)
        return str(json.loads(process.stdout)["digest"]) if process.code == 0 else f"code {process.code}"

    def _damage_packed(self, path: Path, others: list[Path]) -> None:
        """A file that was exchanged for another, changed or removed is named."""
        raw, kind = path.read_bytes(), self.dice.choice(("exchanged", "changed", "removed"))
        alike = [other for other in others if other.parent == path.parent and other.read_bytes() != raw]
        if kind == "removed":
            path.unlink()
        else:
            self.write(path, self.dice.choice(alike).read_bytes() if kind == "exchanged" and alike else raw[:-1])
        self.world.told["damaged snapshots"] += 1
        process = self.foil("verify", self.place)
        if process.code != 6 or path.name not in process.stderr:
            self.violated(f"snapshot: verify ended with {process.code} for a file of {path.parent.name} {kind}")
        self.write(path, raw)


def _flippable(path: Path) -> int:
    """How many bytes of a file count: a journal's last record may be torn."""
    raw = path.read_bytes()
    return raw.rstrip(b"\n").rfind(b"\n") + 1 if path.suffix == ".log" else len(raw)


@cache
def undisturbed(version: Version, plan: Plan) -> Dataset:
    """What a run of these inputs commits in peace."""
    return _undisturbed(
        version, replace(plan, version=version, faulty=0.0, odd_usage=0.0, budget=None, attempts=0, window=4)
    )


@cache
def _undisturbed(version: Version, plan: Plan) -> Dataset:
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="foil-sim-") as name, World(0, Path(name)).ruling() as world:
        scenario = Scenario(world, plan)
        with scenario.provider.serving(), inputs.code_of(version):
            process = scenario.foil(*scenario._job(version))
        data = read(scenario.out)
        scenario._read_commands()
        if process.code not in {0, 3} or scenario.found:
            raise RuntimeError(f"a run in peace ended with {process.code}: {scenario.found} {process.stderr}")
        return data
