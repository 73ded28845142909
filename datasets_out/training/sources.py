"""Where a trainer's topics come from: snapshots of one run or of several, each whole or chosen by SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from foil.datasets_out.commits.snapshot import Snapshot, load_snapshot, take_snapshot
from foil.datasets_out.sql.query import run_sql, topics_sql
from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.settings import Settings


class SourceSettings(Settings):
    """One run to train on, and which of its accepted topics."""

    run: Path = Field(description="folder of a run")
    snapshot: str | None = Field(None, description="its name; none = what is committed now, which gets a name")
    where: str = Field("", description="SQL condition on the view `topics`, such as `corpus = 'leetcode'`")
    recipes: tuple[str, ...] = Field((), description="only topics of these recipes")
    weight: float | None = Field(
        None, gt=0, le=1e9, description="part of every batch, against the others'; none = by number of topics"
    )


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The accepted topics of a snapshot, or only `topic_ids` of them. `weight` as in the settings."""

    snapshot: Snapshot
    topic_ids: frozenset[str] | None = None
    weight: float | None = None
    condition: str = ""

    def has(self, topic_id: str) -> bool:
        """Whether the choice takes this topic."""
        return self.topic_ids is None or topic_id in self.topic_ids

    def facts(self) -> dict[str, Any]:
        """What a model card says of it."""
        return {
            "run": str(self.snapshot.out),
            "snapshot": self.snapshot.name,
            "digest": self.snapshot.digest,
            "where": self.condition,
            "weight": self.weight,
        }


def pin_source(settings: SourceSettings) -> TopicSource:
    """The source, its snapshot named after its own digest where the settings name none.

    Raises UsageError where the condition is no SQL or chooses nothing, NoRunError, and what the disk says.
    """
    snapshot = load_snapshot(settings.run, settings.snapshot)
    if settings.snapshot is None:
        snapshot = take_snapshot(settings.run, f"train-{snapshot.digest[:12]}")
    condition = _condition(settings)
    ids = _chosen(settings, snapshot, condition) if condition else None
    return TopicSource(snapshot, ids, settings.weight, condition)


def digest_of(sources: Sequence[TopicSource], protected: Sequence[TopicSource] = ()) -> str:
    """The digest of one whole snapshot, or one over the digests and choices of all, those of `protected` apart."""
    if len(sources) == 1 and not sources[0].condition and not protected:
        return sources[0].snapshot.digest
    choices, apart = ([[each.snapshot.digest, each.condition] for each in of] for of in (sources, protected))
    return sha256_hex(canonical_json([choices, apart] if protected else choices))


def _condition(settings: SourceSettings) -> str:
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in settings.recipes)
    parts = [f"recipe IN ({names})"] if names else []
    return " AND ".join([*parts, *([f"({settings.where})"] if settings.where else [])])


def _chosen(settings: SourceSettings, snapshot: Snapshot, condition: str) -> frozenset[str]:
    sql = topics_sql("topic_id", f"status = 'accepted' AND {condition}")
    table = run_sql(settings.run, sql, snapshot=snapshot.name or None)
    if not len(table):
        raise UsageError(f"no accepted topic of {settings.run} is chosen by {condition}; look with `foil sql`")
    return frozenset(table.column("topic_id").to_pylist())
