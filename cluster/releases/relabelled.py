"""A training set as its run left it: the rows in their own layout, and what became of every passage.

    rows of the set + topics of the run, query by query --> set/FILE with the labels that stand, passages.jsonl

A negative that was turned joins the relevant passages of its row, or makes a row of its own where a row has one. A row
of fixed columns that lost a negative takes another of its query, or repeats one of its own. A row without a relevant
passage, and one that has lost all its negatives, is left out. Price: the rows of one query are in memory.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foil.cluster.seeds.training_set import TrainingRow, TrainingSetReader, TrainingSetSettings, entries_of, text_of
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions
from foil.datasets_out.release.row_files import Row, Sink, open_sink
from foil.engine.atomic_files import publish_folder
from foil.engine.seeds.files.rows import SourceRow, read_rows
from foil.engine.topic import Seed, Topic, Verdict
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.recipes.stored import unpack_topics
from foil.validators.judges.votes import UNREADABLE

PASSAGES = "passages.jsonl"
LEFT_OUT, _JUDGE = "left_out", "judge_demands"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a passage: kept, marked, dropped, turned or left_out. `label`: what the set says of it."""

    label: int
    outcome: str
    reason: str = ""
    probability: float | None = None
    topic: str = ""

    @property
    def relevance(self) -> int:
        """What it is now; 0 if it is gone."""
        return {"kept": self.label, "marked": self.label, "turned": 1}.get(self.outcome, 0)


Fates = dict[str, Fate]
"""By the folded text."""


@dataclass(slots=True)
class Relabelled:
    """How many passages came to what, and how many rows were written, or left out and why."""

    passages: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)


def write_relabelled(settings: TrainingSetSettings, out: Path, into: Path, rows_into: Path | None) -> Relabelled:
    """Writes what became of each passage under `into`, and the rows that stand into `rows_into`, a new folder."""
    counts = Relabelled()

    def write(draft: Path) -> None:
        with _SetFiles(draft, into / PASSAGES, settings.path, with_rows=rows_into is not None) as files:
            for rows, fates in _groups(settings, out):
                _add_group(files, rows, fates, counts)

    publish_folder(rows_into or into / ".none", write)
    shutil.rmtree(into / ".none", ignore_errors=True)
    return counts


def _groups(settings: TrainingSetSettings, out: Path) -> Iterator[tuple[list[TrainingRow], Fates]]:
    """The rows of each query in their order, with what the run says of their passages."""
    topics = chain.from_iterable(read_partitions(load_snapshot(out, None, verify=True)))
    topic = next(topics, None)
    for seed, rows in TrainingSetReader(settings).groups(read_rows(settings.path, settings.max_row_bytes)):
        own = topic if topic is not None and topic.seed_id == seed.id else None
        topic = next(topics, None) if own else topic
        yield rows, fates_of(seed, own)


def fates_of(seed: Seed, topic: Topic | None) -> Fates:
    """What a seed's topic came to says of its passages, by their folded text. None: the run has none of it."""
    [packed] = unpack_topics(seed)
    labels = {label.passage_id: label.relevance for label in packed.judgments}
    stands = topic is not None and topic.status == "accepted"
    now = {label.passage_id: label.relevance for label in topic.judgments} if topic and stands else {}
    verdict_of = {verdict.scope: verdict for verdict in topic.verdicts if verdict.validator == _JUDGE} if topic else {}
    why = (topic.reason or "no_positive_left") if topic else "not_in_the_run"
    fates: Fates = {}
    for passage in packed.passages:
        label, verdict = labels[passage.id], verdict_of.get(passage.id)
        reason = verdict.reason if verdict else ""
        if passage.id in now:
            outcome = ("marked" if reason else "kept") if now[passage.id] == label else "turned"
        else:
            outcome = "dropped" if stands and verdict and verdict.outcome == "edit" else LEFT_OUT
        probability = verdict.score if verdict and _is_read(verdict) else None
        reason = reason or (why if outcome == LEFT_OUT else "")
        fates[fold_text(passage.text)] = Fate(label, outcome, reason, probability, packed.id)
    return fates


def _is_read(verdict: Verdict) -> bool:
    return any(choice != UNREADABLE for _, choice in json.loads(verdict.evidence)["votes"])


class _SetFiles:
    """The files of the rows, each under its name in the set, and the one of the passages; use it as a context."""

    def __init__(self, folder: Path, passages: Path, source: Path, *, with_rows: bool) -> None:
        self._folder, self._passages, self._source, self._with_rows = folder, passages, source, with_rows
        self._sinks: dict[str, Sink] = {}
        self._draft = passages.with_suffix(".draft.jsonl")
        self._labels = open_sink(self._draft, pa.schema([]))

    def __enter__(self) -> "_SetFiles":
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        for sink in (*self._sinks.values(), self._labels):
            sink.close()
        if failed is None:
            self._draft.replace(self._passages)

    def file_of(self, row: SourceRow) -> str:
        """The row's file within the set."""
        path = PurePath(row.path)
        return path.relative_to(self._source).as_posix() if self._source.is_dir() else path.name

    def add_row(self, source: SourceRow, values: Row) -> None:
        """Writes a row to the file that bears the name of its source, unpacked."""
        if not self._with_rows:
            return
        if source.path not in self._sinks:
            name = self.file_of(source).removesuffix(".gz").removesuffix(".Z")
            name = f"{name}l" if name.endswith(".json") else name
            texts = pa.schema([(column, pa.string()) for column in source.value])
            schema = pq.read_schema(source.path) if name.endswith(".parquet") else texts
            self._sinks[source.path] = open_sink(self._folder / name, schema)
        self._sinks[source.path].write(values)

    def add_passage(self, values: Row) -> None:
        """Writes what became of a passage."""
        self._labels.write(values)


def _add_group(files: _SetFiles, rows: Sequence[TrainingRow], fates: Fates, counts: Relabelled) -> None:
    editor = _GroupEditor(rows, fates)
    for each in rows:
        edited, why = editor.edited(each)
        for values in edited:
            files.add_row(each.row, values)
        counts.rows["read"] += 1
        counts.rows["written"] += len(edited)
        counts.rows[f"left out: {why}"] += bool(why)
        for name, place, label, text in _cells(each):
            fate = fates[fold_text(text)]
            if label < 0 < fate.label:
                fate = replace(fate, label=label, outcome="dropped", reason="also_a_positive")
            elif why and fate.outcome in ("kept", "marked"):
                fate = replace(fate, outcome=LEFT_OUT, reason=why)
            counts.passages[fate.outcome] += 1
            at = {"file": files.file_of(each.row), "line": each.row.line, "column": name, "place": place}
            files.add_passage(at | {"label": label, "probability": fate.probability, "done": fate.outcome,
                                    "reason": fate.reason, "topic": fate.topic})  # fmt: skip


def _cells(each: TrainingRow) -> Iterator[tuple[str, int, int, str]]:
    """Column, place, label and text of every passage of a row."""
    for names, label in ((each.columns.positives, 1), (each.columns.negatives, -1)):
        for name in names:
            for place, entry in enumerate(entries_of(each.row.value.get(name))):
                yield name, place, label, text_of(entry)


class _GroupEditor:
    """Edits the rows of one query."""

    def __init__(self, rows: Sequence[TrainingRow], fates: Fates) -> None:
        self._fates = fates
        entries = [entry for each in rows for entry in self._entries(each, each.columns.negatives)]
        self._spare = list({text_of(entry): entry for entry in entries if self._relevance(entry) < 0}.values())
        self._turned: set[str] = set()

    def edited(self, each: TrainingRow) -> tuple[list[dict[str, Any]], str]:
        """The rows that become of one; none, and why, where it is left out."""
        values, columns = dict(each.row.value), each.columns
        had_negatives = bool(self._entries(each, columns.negatives))
        for name in columns.negatives:
            values[name] = self._standing(each, name, -1)
        if not self._fill(values, each) and had_negatives:
            return [], "no_negative_left"
        new = self._newly_positive(each)
        first, *further = columns.positives
        for name in further:
            values[name] = self._standing(each, name, 1)
        standing = self._standing(each, first, 1)
        if isinstance(standing, list):
            together = standing + new
            return ([{**values, first: together}], "") if together else ([], "no_positive_left")
        texts = [entry for entry in (standing, *new) if entry not in (None, "")]
        return [{**values, first: entry} for entry in texts], "" if texts else "no_positive_left"

    def _newly_positive(self, each: TrainingRow) -> list[Any]:
        """The turned negatives of a row, each once a query."""
        new = []
        for entry in self._entries(each, each.columns.negatives):
            key = fold_text(text_of(entry))
            if self._fates[key].outcome == "turned" and key not in self._turned:
                self._turned.add(key)
                new.append(entry)
        return new

    def _fill(self, values: dict[str, Any], each: TrainingRow) -> bool:
        """Fills the cells of single negatives that are empty now. False where no negative is left."""
        names = each.columns.negatives
        own = [entry for name in names for entry in entries_of(values[name])]
        holes = [name for name in names if values[name] == "" and each.row.value.get(name)]
        spare = [entry for entry in self._spare if entry not in own and not isinstance(entry, dict)]
        values |= dict(zip(holes, cycle(spare + own) if spare + own else (), strict=False))
        return bool(own or (holes and spare))

    def _standing(self, each: TrainingRow, name: str, sign: int) -> Any:
        """A cell with the passages that have this label; "" for a single one that has not."""
        cell = each.row.value.get(name)
        if isinstance(cell, list):
            return [entry for entry in cell if self._relevance(entry) * sign > 0]
        return cell if cell in (None, "") or self._relevance(cell) * sign > 0 else ""

    def _relevance(self, entry: Any) -> int:
        return self._fates[fold_text(text_of(entry))].relevance

    @staticmethod
    def _entries(each: TrainingRow, names: Iterable[str]) -> list[Any]:
        return [entry for name in names for entry in entries_of(each.row.value.get(name))]
