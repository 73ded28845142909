"""Writes a release: the topics of a run as the files of a format, with card, Croissant document and checksums.

    training view -> topics of the splits -> texts withheld -> rows of the format -> FOLDER, there whole or not at all

Promise: the same snapshot and order give the same bytes. What is in no file is counted: in the card and in
`release.json`. Price: three passes over the run, four where texts that may not be passed on are looked up, and about
100 bytes a withheld text in memory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.release.ancestry import shown_job
from foil.datasets_out.release.card import CardRow, ReleaseFacts, card, has_training_rows
from foil.datasets_out.release.checksums import sign, write_checksums
from foil.datasets_out.release.croissant import CROISSANT, croissant
from foil.datasets_out.release.formats.judged_corpora import MTEB_TASK, TASK_MODULE
from foil.datasets_out.release.formats.release_format import BENCHMARK_SPLITS, Layout, ReleaseFormat, TextForm
from foil.datasets_out.release.formats.training_script import SCRIPT, training_script
from foil.datasets_out.release.released_topic import released_topics
from foil.datasets_out.release.row_files import WITHHELD, OutputRow, RowFiles, WrittenFile
from foil.datasets_out.release.run_facts import RunFacts, run_facts
from foil.datasets_out.release.withheld_texts import CorpusIndex, look_up, withhold
from foil.datasets_out.training.training_view import SPLITS, Split, TrainingView
from foil.engine.atomic_files import publish_folder, put_text, write_json
from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json
from foil.engine.storage.store import inside
from foil.engine.topic import Seed
from foil.engine.visible_text import visible

MANIFEST = "release.json"
TEXTS = f"{WITHHELD}/texts.jsonl"


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """What is wanted. `seeds` opens the corpus, to look up texts that may not be passed on."""

    format: ReleaseFormat
    splits: tuple[Split, ...]
    form: TextForm
    command: str
    allow_nonredistributable: bool = False
    seeds: Callable[[], Iterable[Seed]] | None = None
    languages: tuple[str, ...] = ()
    audits: tuple[CardRow, ...] = ()
    judges: tuple[CardRow, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenRelease:
    """A release that stands: its facts, its files, and its digest, the sha256 of its checksums."""

    facts: ReleaseFacts
    files: tuple[WrittenFile, ...]
    digest: str
    signed_by: str


def parse_splits(split: str) -> tuple[Split, ...]:
    """The splits of an option: one of them, or `all`."""
    names: dict[str, tuple[Split, ...]] = {"all": ("train", "dev", "heldout"), **{name: (name,) for name in SPLITS}}
    if split not in names:
        raise UsageError(f"there is no split {split!r}; choose one of {', '.join(sorted(names))}")
    return names[split]


def write_release(
    folder: Path, view: TrainingView, order: ReleaseOrder, key_file: Path | None = None
) -> WrittenRelease:
    """Writes the folder. Raises UsageError where it exists, or the splits have no row of this format."""
    if folder.exists():
        raise UsageError(f"{folder} exists; a release is never changed, so give another folder or remove this one")
    written: list[WrittenRelease] = []
    folder.parent.mkdir(parents=True, exist_ok=True)
    publish_folder(folder, lambda draft: written.append(_Writing(draft, folder.name, view, order).release(key_file)))
    return written[0]


class _Writing:
    def __init__(self, draft: Path, name: str, view: TrainingView, order: ReleaseOrder) -> None:
        self._draft, self._name, self._view, self._order = draft, name, view, order
        self._snapshot: Snapshot = view.sources[0].snapshot
        self._topics: Counter[str] = Counter()
        self._held_back: Counter[str] = Counter()
        self._cells: Counter[str] = Counter()
        self._nonredistributable = 0
        self._keys: set[str] = set()  # of the withheld texts so far

    def release(self, key_file: Path | None) -> WrittenRelease:
        order = self._order
        with RowFiles(self._draft, order.format.schemas) as row_files:
            for row in self._rows():
                row_files.add(row)
        files = tuple(row_files.written())
        if not self._topics.total() or not any(not file.name.startswith(WITHHELD) for file in files):
            raise UsageError(
                f"{self._snapshot.out} has no topic of {' or '.join(order.splits)} for a row of {order.format.name}; "
                "`foil sql` shows what was accepted, `--split all` takes every split"
            )
        run = run_facts(self._snapshot)
        facts = self._facts(run.counts.topics["accepted"])
        self._describe(facts, run, files)
        digest = write_checksums(self._draft)
        return WrittenRelease(facts, files, digest, sign(self._draft, key_file) if key_file else "")

    def _rows(self) -> Iterator[OutputRow]:
        order = self._order
        layout = Layout(order.form, len(order.splits) > 1, coordinates_of(self._snapshot))
        index = None if order.allow_nonredistributable else self._index()
        for released in released_topics(self._view, order.splits):
            self._topics[released.split] += 1
            self._cells["judged"] += len(released.topic.judgments)
            self._cells["scored"] += sum(
                (j.intent_id, j.passage_id) in released.probabilities for j in released.topic.judgments
            )
            self._nonredistributable += not released.topic.redistributable
            topic, entries = (released.topic, []) if order.allow_nonredistributable else withhold(released.topic, index)
            for entry in entries:
                if entry.key not in self._keys:
                    self._keys.add(entry.key)
                    self._held_back[entry.place] += 1
                    yield OutputRow(TEXTS, entry.plain())
            yield from order.format.rows(replace(released, topic=topic), layout)

    def _index(self) -> CorpusIndex | None:
        if self._order.seeds is None:
            return None
        withheld = (
            each.topic for each in released_topics(self._view, self._order.splits) if not each.topic.redistributable
        )
        return look_up(withheld, self._order.seeds())

    def _facts(self, accepted: int) -> ReleaseFacts:
        order, view = self._order, self._view
        considered = sum(facts["topics_kept"] + facts["topics_dropped"] for facts in view.facts.values())
        return ReleaseFacts(
            name=self._name, format=order.format, splits=order.splits, split=view.split, template=order.form.name,
            separation={split: dict(view.facts[split]) for split in order.splits}, topics=dict(self._topics),
            without_intents=accepted - considered,
            held_back=self._held_back, nonredistributable=self._nonredistributable,
            allowed=order.allow_nonredistributable, command=order.command, languages=order.languages,
            audits=order.audits, judges=order.judges, cells=self._cells,
        )  # fmt: skip

    def _describe(self, facts: ReleaseFacts, run: RunFacts, files: tuple[WrittenFile, ...]) -> None:
        """Card, manifest, Croissant document, and the script of sentence-transformers or mteb where one fits."""
        put_text(self._draft / "README.md", card(facts, run, files))
        description = "Queries with instructions that decide which passages are relevant, made by Foil."
        document = croissant(self._draft, files, _croissant_facts(facts, run), name=facts.name, description=description)
        write_json(self._draft / CROISSANT, document)
        write_json(self._draft / MANIFEST, manifest(facts, files, run.digest, run.fingerprint))
        if has_training_rows(files):
            put_text(self._draft / SCRIPT, training_script(self._order.form))
        if facts.format.name == "mteb" and len(facts.splits) == 1:
            language = {"en": "eng-Latn"}.get((facts.languages or ("en",))[0], "eng-Latn")
            split = BENCHMARK_SPLITS[facts.splits[0]]
            text = MTEB_TASK.substitute(name=facts.name, split=split, language=language, digest=run.digest[:40])
            put_text(self._draft / TASK_MODULE, text)


def _croissant_facts(facts: ReleaseFacts, run: RunFacts) -> dict[str, Sequence[str]]:
    """Licences, what made the run of others, and how its judges did."""
    jobs = [run.job, *(each.job for each in run.ancestors)] if run.ancestors else []
    return {
        "license": sorted({licence or "unknown" for licence, _, _ in run.licences}) or ["unknown"],
        "rai:dataPreprocessingProtocol": [visible(canonical_json(shown_job(job))) for job in jobs if job],
        "rai:dataAnnotationAnalysis": [visible(f"{row.group}: {row.measure} {row.value}") for row in facts.judges],
    }


def manifest(facts: ReleaseFacts, files: Iterable[WrittenFile], digest: str, fingerprint: str) -> dict[str, Any]:
    """`release.json`: what other commands need to know of the folder."""
    return {
        "format": facts.format.name,
        "splits": list(facts.splits),
        "split": facts.split.model_dump(mode="json"),
        "template": facts.template,
        "snapshot_digest": digest,
        "fingerprint": fingerprint,
        "topics": dict(facts.topics),
        "separation": {split: dict(counts) for split, counts in facts.separation.items()},
        "nonredistributable_topics": facts.nonredistributable,
        "allow_nonredistributable": facts.allowed,
        "withheld_texts": dict(facts.held_back),
        **({"cells": dict(facts.cells)} if facts.cells["scored"] else {}),
        "files": [{"name": file.name, "rows": file.rows, "withheld": file.withheld} for file in files],
    }


def coordinates_of(snapshot: Snapshot) -> dict[str, tuple[float, float]]:
    """The places of the topics' queries on the run's newest map of this data; none without a map."""
    maps = sorted(
        (snapshot.out / "desk").glob(f"map-{snapshot.digest[:16]}-*.parquet"), key=lambda p: p.stat().st_mtime
    )
    if not maps:
        return {}
    rows = pq.read_table(
        inside(snapshot.out, maps[-1]), columns=["topic_id", "x", "y"], filters=[("kind", "=", "query")]
    ).to_pylist()
    return {row["topic_id"]: (row["x"], row["y"]) for row in rows}
