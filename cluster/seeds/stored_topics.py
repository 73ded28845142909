"""Another run as seeds: its accepted topics, or its rows for `recipe: {kind: stored}`, through other validators.

    out/ --load_snapshot(verified)--> rows of one seed --> Seed(id, query, its topics without what validators said)

- A whole topic is as its recipe made it, as far as the row tells: no verdict, no status, labels that a judge had taken
  over or reversed as they were before. What a judge cut from a topic that it accepted is in no row, so it stays cut; a
  row that is not accepted has all that the judges got. Texts stay as checks edited them.
- A row that is no whole topic stays rejected or failed, with its reason. So does one that people or a filter took out;
  one that they accepted stays accepted.
- Calls of the recipe are kept, as paid by the other run; those of its judges are not, since they are asked anew.

Promise: topics keep their ids. Price: one partition in memory.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot, read_accepted, read_partitions
from foil.datasets_out.curation.merge import as_paid
from foil.engine.errors import UsageError
from foil.engine.planning.funnel import is_whole
from foil.engine.protocols import Screen
from foil.engine.seeds.corpus import no_seeds_error
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.settings import Settings
from foil.engine.topic import ACCEPTED, Judgment, Seed, Topic, Verdict
from foil.prompts.recipes.dual_view import seed_of
from foil.prompts.recipes.stored import pack_topics, unpack_topics
from foil.validators.catalog import VALIDATORS

_REVERSALS = {("judge_relevance", "edit", "positive_lost"), ("judge_demands", "edit", "negative_is_relevant")}
"""Verdicts by which a judge reversed a label, where the topic still has it."""


class StoredTopicsSettings(Settings):
    """Which run."""

    kind: Literal["stored"] = "stored"
    out: Path = Field(description="the `out` folder of the run whose rows are the seeds")
    snapshot: str | None = Field(None, description="a snapshot of it; without, what is committed now")

    def identity(self) -> dict[str, Any]:
        """The digest of the rows: a run that grew is another corpus, one that was moved is not."""
        return {"kind": self.kind, "digest": self.load().digest}

    def load(self, *, verify: bool = False) -> Snapshot:
        """What is read. With `verify`, every file is checked first."""
        return load_snapshot(self.out, self.snapshot, verify=verify)


class StoredTopicsReader:
    """A SeedReader: one seed for each seed of the run, in the order of its rows."""

    def __init__(self, settings: StoredTopicsSettings) -> None:
        self._settings = settings
        self.ledger = Ledger()

    def __iter__(self) -> Iterator[Seed]:
        seed_ids: set[str] = set()
        for topics in read_partitions(self._settings.load(verify=True)):
            for seed_id, of_seed in groupby(topics, key=lambda topic: topic.seed_id):
                if seed_id in seed_ids:
                    raise UsageError(
                        f"{self._settings.out} has rows of the seed {seed_id!r} in two places, as merged runs do; "
                        "give the runs that it was merged of, one after the other, and merge what becomes of them"
                    )
                seed_ids.add(seed_id)
                yield _seed([as_made(topic) for topic in of_seed])
        if not seed_ids:
            raise no_seeds_error(self._settings, Ledger())


class WholeOnly:
    """A Screen that looks at seeds of which a topic is whole: the others stay as they are."""

    def __init__(self, screen: Screen) -> None:
        self.name, self.fingerprint, self._screen = screen.name, screen.fingerprint, screen

    def __call__(self, seed: Seed) -> Verdict | None:
        """The screen's verdict, None for a seed without an open topic."""
        return self._screen(seed) if any(topic.status == "accepted" for topic in unpack_topics(seed)) else None


def as_made(topic: Topic) -> Topic:
    """The topic before any validator spoke, its calls paid; as it is, where nothing is to be decided anew."""
    paid = as_paid(topic)
    if not is_whole(topic) or _is_decided(topic):
        return paid
    calls = tuple(call for call in paid.calls if not call.task.startswith("judges."))
    judgments = tuple(_unjudged(topic)) if any(v.validator.startswith("judge_") for v in topic.verdicts) else None
    return replace(
        paid,
        judgments=topic.judgments if judgments is None else judgments,
        verdicts=(),
        calls=calls,
        status="accepted",
        reason="",
        detail="",
    )


def _seed(topics: Sequence[Topic]) -> Seed:
    first = topics[0]
    passages = [passage for passage in first.passages if passage.role in ("seed_positive", "seed_negative")]
    return Seed(
        id=first.seed_id,
        corpus=first.corpus,
        query=first.query,
        positives=tuple(passage for passage in passages if passage.role == "seed_positive"),
        negatives=tuple(passage for passage in passages if passage.role == "seed_negative"),
        licence=first.licence,
        redistributable=first.redistributable,
        attributes=pack_topics(topics),
    )


def _is_decided(topic: Topic) -> bool:
    """Whether something that is no validator rejected or accepted the topic: a person, or a filter."""
    by_outsiders = (verdict for verdict in topic.verdicts if verdict.validator not in VALIDATORS)
    return any(verdict.outcome == "reject" or verdict.reason == ACCEPTED for verdict in by_outsiders)


def _unjudged(topic: Topic) -> Iterator[Judgment]:
    """The labels as they were: a judge's are by construction again, and those that one reversed are turned back."""
    reversed_labels = {
        (json.loads(verdict.evidence)["intent"], verdict.scope)
        for verdict in topic.verdicts
        if (verdict.validator, verdict.outcome, verdict.reason) in _REVERSALS
    }
    for label in topic.judgments:
        if not label.judge.startswith("judge:"):
            yield label
            continue
        turned = (label.intent_id, label.passage_id) in reversed_labels
        relevance = -label.relevance if turned else label.relevance
        yield replace(label, relevance=relevance, judge="construction", votes=())


class RunSettings(Settings):
    """Which run, and which of its intents."""

    kind: Literal["run"] = "run"
    out: Path = Field(description="the `out` folder of the run whose topics are the seeds")
    snapshot: str | None = Field(None, description="a snapshot of it; without, what is committed now")

    def identity(self) -> dict[str, Any]:
        """The settings and the digest of the rows they name: a run that grew is another corpus."""
        return {**self.model_dump(mode="json"), "digest": load_snapshot(self.out, self.snapshot).digest}


class RunReader:
    """A SeedReader of accepted topics in order: d+ and instruction negatives come first, with the instruction.

    A seed keeps the id of the seed behind the topic, so a held-out seed stays held out. The further topics of one seed
    get `#2`, `#3`, ...; the trainer compares texts, so they cannot leak either. A topic without an instructed intent
    gives a seed without an instruction, a plain row no seed. All bytes are checked once; one partition is in memory.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self.ledger = Ledger()

    def __iter__(self) -> Iterator[Seed]:
        snapshot = load_snapshot(self._settings.out, self._settings.snapshot, verify=True)
        topics_of: Counter[str] = Counter()
        for topic in read_accepted(snapshot):
            if not topic.intents:
                continue
            seed = seed_of(topic)
            topics_of[seed.id] += 1
            yield replace(seed, id=f"{seed.id}#{topics_of[seed.id]}") if topics_of[seed.id] > 1 else seed
        if not topics_of:
            raise no_seeds_error(self._settings, Ledger())
