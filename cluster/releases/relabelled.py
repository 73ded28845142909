"""A training set as its run left it: the rows in their own layout, and what became of every passage.

    rows of the set + topics of the run, query by query --> set/FILE with the labels that stand, passages.jsonl

A negative that was turned joins the relevant passages of its row, or makes a row of its own where a row has one. A row
of fixed columns that lost a passage takes another of its query and label, or repeats one of its own. A row without a
relevant passage, and one that has lost all its negatives, is left out, as are the rows of a query that the run has
not, or could not judge. A set that is not the one that was judged is refused before anything of the last one goes.
Price: the rows of one query are in memory.
"""

import shutil
import tempfile
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
from foil.datasets_out.training.judge_scores import JUDGE, UNREADABLE, probabilities_of
from foil.engine.atomic_files import sync
from foil.engine.errors import UsageError
from foil.engine.seeds.files.rows import SourceRow, read_rows
from foil.engine.topic import Topic
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.recipes.stored import unpack_topics

PASSAGES, ROWS = "passages.jsonl", "set"
LEFT_OUT, UNSEEN = "left_out", "not_in_the_run"
_DRAFT = ".relabelled."


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
    """How many passages came to what, how many labels stand unread, how many rows were written, or left out and why."""

    passages: Counter[str] = field(default_factory=Counter)
    unread: int = 0
    rows: Counter[str] = field(default_factory=Counter)


def write_relabelled(settings: TrainingSetSettings, out: Path, into: Path, *, with_rows: bool) -> Relabelled:
    """Writes passages.jsonl, what became of each passage, and `with_rows` the rows that stand; both anew.

    Raises UsageError, with all as it was, where the set is not the one that was judged.
    """
    counts = Relabelled()
    for stale in into.glob(f"{_DRAFT}*"):
        shutil.rmtree(stale)
    draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=into))
    try:
        with _SetFiles(draft, settings.path, with_rows=with_rows) as files:
            for rows, fates in _groups(settings, out):
                _add_group(files, rows, fates, counts)
        for path in (*draft.rglob("*"), draft):
            sync(path)
        if (into / ROWS).exists():
            shutil.rmtree(into / ROWS)
        if with_rows:
            (draft / ROWS).rename(into / ROWS)
        (draft / PASSAGES).replace(into / PASSAGES)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync(into)
    return counts


def _groups(settings: TrainingSetSettings, out: Path) -> Iterator[tuple[list[TrainingRow], Fates]]:
    """The rows of each query in their order, with what the run says of their passages."""
    topics = chain.from_iterable(read_partitions(load_snapshot(out, None, verify=True)))
    topic = next(topics, None)
    for seed, rows in TrainingSetReader(settings).groups(read_rows(settings.path, settings.max_row_bytes)):
        own = topic if topic is not None and topic.seed_id == seed.id else None
        topic = next(topics, None) if own else topic
        [packed] = unpack_topics(seed)
        if own and not _is_of(own, packed):
            raise _changed(settings.path, seed.id)
        yield rows, fates_of(packed, own)
    if topic is not None:
        raise _changed(settings.path, topic.seed_id)


def _is_of(topic: Topic, packed: Topic) -> bool:
    """Whether a judged topic is that of the rows as they are now."""
    standing = {passage.id for passage in topic.passages}
    judged = standing | {verdict.scope for verdict in topic.verdicts}
    now = {passage.id for passage in packed.passages}
    instructions = {intent.instruction for intent in packed.intents}
    return topic.query == packed.query and (
        topic.status == "failed"
        or (standing <= now <= judged and {intent.instruction for intent in topic.intents} <= instructions)
    )


def _changed(path: Path, seed: str) -> UsageError:
    return UsageError(
        f"{path} is not the set that was judged: its query at {seed} is gone or has other texts. Nothing was written. "
        "Put the file back as it was, or give another INTO with --reuse of this run, which pays for what is new alone"
    )


def fates_of(packed: Topic, topic: Topic | None) -> Fates:
    """What a topic came to says of its passages, by their folded text. None: the run has none of it."""
    labels = {label.passage_id: label.relevance for label in packed.judgments}
    stands = topic is not None and topic.status == "accepted"
    now = {label.passage_id: label.relevance for label in topic.judgments} if topic and stands else {}
    verdict_of = {verdict.scope: verdict for verdict in topic.verdicts if verdict.validator == JUDGE} if topic else {}
    read = {passage: chance for (_, passage), chance in probabilities_of(topic.verdicts).items()} if topic else {}
    why = (topic.reason or "no_positive_left") if topic else UNSEEN
    fates: Fates = {}
    for passage in packed.passages:
        label, verdict = labels[passage.id], verdict_of.get(passage.id)
        reason = verdict.reason if verdict else ""
        if passage.id in now:
            outcome = ("marked" if reason else "kept") if now[passage.id] == label else "turned"
        else:
            outcome = "dropped" if stands and verdict and verdict.outcome == "edit" else LEFT_OUT
        probability = read.get(passage.id)
        unread = UNREADABLE if verdict and probability is None else ""
        reason = reason or (why if outcome == LEFT_OUT else unread)
        fates[fold_text(passage.text)] = Fate(label, outcome, reason, probability, packed.id)
    return fates


class _SetFiles:
    """The files of the rows, each under its name in the set, and the one of the passages; use it as a context."""

    def __init__(self, folder: Path, source: Path, *, with_rows: bool) -> None:
        self._rows, self._source, self._with_rows = folder / ROWS, source, with_rows
        self._rows.mkdir()
        self._sinks: dict[str, Sink] = {}
        self._labels = open_sink(folder / PASSAGES, pa.schema([]))

    def __enter__(self) -> "_SetFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for sink in (*self._sinks.values(), self._labels):
            sink.close()

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
            self._sinks[source.path] = open_sink(self._rows / name, schema)
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
            counts.unread += fate.reason == UNREADABLE
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
        negatives, positives = each.columns.negatives, each.columns.positives
        cells = self._filled(each, negatives, -1, self._spare)
        if not any(cells.values()) and self._entries(each, negatives):
            return [], self._why(each, negatives, "no_negative_left")
        cells |= self._filled(each, positives, 1, ())
        new, lists = self._newly_positive(each), [name for name in positives if isinstance(cells[name], list)]
        if lists:
            cells[lists[0]] = cells[lists[0]] + [_like(each.row.value[lists[0]], entry) for entry in new]
            new = []
        stand = any(cells[name] for name in positives)
        values, first = {**each.row.value, **cells}, positives[0]
        more = [{**values, first: _like(each.row.value.get(first), entry)} for entry in new]
        edited = [values, *more] if stand else more
        return edited, "" if edited else self._why(each, positives, "no_positive_left")

    def _why(self, each: TrainingRow, names: Iterable[str], lost: str) -> str:
        """Why no passage of these columns is left: `lost`, but where the run did not come to judge a single one."""
        fates = [self._fates[fold_text(text_of(entry))] for entry in self._entries(each, names)]
        return fates[0].reason if all(fate.outcome == LEFT_OUT for fate in fates) else lost

    def _newly_positive(self, each: TrainingRow) -> list[Any]:
        """The turned negatives of a row, each once a query."""
        new = []
        for entry in self._entries(each, each.columns.negatives):
            key = fold_text(text_of(entry))
            if self._fates[key].outcome == "turned" and key not in self._turned:
                self._turned.add(key)
                new.append(entry)
        return new

    def _filled(self, each: TrainingRow, names: Sequence[str], sign: int, spare: Sequence[Any]) -> dict[str, Any]:
        """The cells with the passages that have this label, those of single ones that were lost filled again."""
        cells = {name: self._standing(each, name, sign) for name in names}
        own = [entry for name in names for entry in entries_of(cells[name])]
        holes = [name for name in names if cells[name] == "" and each.row.value.get(name)]
        fresh = [entry for entry in spare if entry not in own]
        for name, entry in zip(holes, cycle(fresh + own) if fresh + own else (), strict=False):
            cells[name] = _like(each.row.value[name], entry)
        return cells

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


def _like(cell: Any, entry: Any) -> Any:
    """An entry in the form of those of a cell: a text, or a record."""
    [model, *_] = [*entries_of(cell), entry]
    if isinstance(model, dict) == isinstance(entry, dict):
        return entry
    return {**dict.fromkeys(model, ""), "text": entry} if isinstance(model, dict) else text_of(entry)
