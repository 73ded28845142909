"""Filters a run by SQL, balances it by a column, holds topics out, drops or accepts topics: which ones, and how.

Conditions are of the view `topics`, and are asked behind the wall of `datasets_out.sql`: they read and do nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.curation.derived_run import DerivedRun, taken_in, taken_out, write_derived
from foil.datasets_out.sql.query import asks_notes, run_sql, topics_sql
from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json, fraction_of, sha256_hex
from foil.engine.topic import Topic

SHORTEST_PREFIX = 4
_NAMED_IN_ERRORS = 5
_CONTRAST = """topic_id IN (
    SELECT topic_id FROM judgments GROUP BY topic_id, intent_id HAVING max(relevance) > 0 AND min(relevance) < 0)"""
"""Whether an intent of the topic has a relevant passage and one that is not."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which accepted topics stay accepted. `where`: a condition; `balance`: an expression, each of whose values keeps
    at most `at_most` topics (without a number, as many as the rarest value has); `heldout`: a condition on topics that
    only evaluation sees from now on. `rejected`: rejected topics that have a contrast are chosen from as well."""

    where: str = ""
    balance: str = ""
    at_most: int | None = None
    heldout: str = ""
    rejected: bool = False

    def identity(self) -> dict[str, Any]:
        """What decides the new run; without `rejected`, as it was before there was that."""
        values = asdict(self)
        return values if self.rejected else {name: value for name, value in values.items() if name != "rejected"}


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Who accepts rejected topics, and why."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The ids that a choice takes out, by reason, those that it holds out, and all that stay accepted."""

    out: dict[str, str]
    heldout: frozenset[str]
    accepted: frozenset[str]


def filter_run(source: Snapshot, into: Path, choice: Choice) -> DerivedRun:
    """Writes the run of a choice. Raises UsageError where it says nothing, is no SQL, or leaves no accepted topic."""
    if not (choice.where or choice.balance or choice.heldout):
        raise UsageError("nothing was chosen; give --where, --balance or --heldout")
    if choice.rejected and not choice.where:
        raise UsageError("--rejected accepts the rejected topics of --where, those that were dropped too; give --where")
    if choice.at_most is not None and not choice.balance:
        raise UsageError("--at-most says how many topics each value of --balance keeps; give --balance too")
    chosen = _choose(source, choice)
    evidence = {"filtered": f"not {choice.where}", "balanced": f"more than enough of its {choice.balance}"}

    def change(topic: Topic) -> Topic:
        if topic.status == "rejected" and topic.id in chosen.accepted:
            topic = taken_in(topic, "filter", f"{choice.where or choice.balance}")
        reason = chosen.out.get(topic.id)
        if reason and topic.status == "accepted":
            return taken_out(topic, "filter", reason, evidence[reason])
        if topic.id in chosen.heldout and topic.attributes.get("split") != "heldout":
            return replace(topic, attributes={**topic.attributes, "split": "heldout"})
        return topic

    return write_derived(source, into, "filter", choice.identity() | _of_notes(choice, chosen), change)


def _of_notes(choice: Choice, chosen: _Chosen) -> dict[str, str]:
    """Notes change while the snapshot stays: the digest of what they chose is part of the new run."""
    if not asks_notes(f"{choice.where} {choice.balance} {choice.heldout}"):
        return {}
    return {"chosen": sha256_hex(canonical_json([chosen.out, sorted(chosen.heldout), sorted(chosen.accepted)]))}


def drop_topics(source: Snapshot, into: Path, names: Sequence[str], reason: str) -> DerivedRun:
    """Writes the run without these topics, by their ids or beginnings of them. Raises UsageError for an unknown one."""
    if not reason.strip():
        raise UsageError("--reason is empty; say why these topics are dropped, for whoever reads the run later")
    ids = frozenset(_resolve(source, names))

    def change(topic: Topic) -> Topic:
        return taken_out(topic, "curator", reason, "dropped by a curator") if topic.id in ids else topic

    return write_derived(source, into, "drop", {"topics": sorted(ids), "reason": reason}, change)


def accept_topics(source: Snapshot, into: Path, names: Sequence[str], where: str, by: Acceptance) -> DerivedRun:
    """Writes the run in which rejected topics are accepted: those named, and those with a contrast that `where` holds
    of. Raises UsageError for a named one that is not rejected or has no contrast left."""
    if not (by.reason.strip() and by.by.strip()):
        raise UsageError("--reason or --by is empty; say who accepts these topics and why, for whoever reads the run")
    named_ids = _resolve(source, names)
    where_holds = f"(({where or 'false'}\n)) IS TRUE AND {_CONTRAST}"
    columns = f"topic_id, status, {_CONTRAST} AS contrast, {where_holds} AS wanted"
    rows = run_sql(source.out, topics_sql(columns, "true"), snapshot=source.name or None).to_pylist()
    by_id = {row["topic_id"]: row for row in rows}
    _refuse([name for name in named_ids if by_id[name]["status"] != "rejected"], "not rejected, so cannot be accepted")
    _refuse(
        [name for name in named_ids if not by_id[name]["contrast"]],
        "without a contrast: no intent has both a relevant and a non-relevant passage, so nothing can be learned from "
        "it; `foil show` shows what is left",
    )
    ids = {*named_ids, *(name for name, row in by_id.items() if row["status"] == "rejected" and row["wanted"])}
    if not ids:
        raise UsageError(
            f"no rejected topic of {source.out} with a contrast is chosen by {where!r}; look with `foil sql`"
        )

    def change(topic: Topic) -> Topic:
        return taken_in(topic, "curator", f"{by.by}: {by.reason}") if topic.id in ids else topic

    return write_derived(source, into, "accept", {"topics": sorted(ids), **asdict(by)}, change)


def _refuse(names: Sequence[str], problem: str) -> None:
    if names:
        more = f" and {len(names) - _NAMED_IN_ERRORS:,} more" if len(names) > _NAMED_IN_ERRORS else ""
        raise UsageError(f"{', '.join(names[:_NAMED_IN_ERRORS])}{more}: {problem}; leave it out")


def _choose(source: Snapshot, choice: Choice) -> _Chosen:
    columns = [
        f"(({choice.where or 'true'}\n)) IS TRUE AS wanted",
        f"CAST(({choice.balance or 'NULL'}\n) AS VARCHAR) AS value",
        f"(({choice.heldout or 'false'}\n)) IS TRUE AS held",
    ]
    also = f"OR status = 'rejected' AND {_CONTRAST}" if choice.rejected else ""
    candidates = f"(status = 'accepted' {also})"
    sql = topics_sql(f"topic_id, {', '.join(columns)}", f"{candidates} ORDER BY topic_id")
    rows = run_sql(source.out, sql, snapshot=source.name or None).to_pylist()
    if len(rows) != _count(source, candidates):
        raise UsageError(
            f"{choice.where or choice.balance or choice.heldout!r} does not have one value for each topic (unnest has "
            'many, or none); give a condition such as "list_contains(...)" or "len(...) > 0"'
        )
    out = {row["topic_id"]: "filtered" for row in rows if not row["wanted"]}
    chosen = [(row["topic_id"], row["value"]) for row in rows if row["wanted"]]
    if not chosen:
        raise UsageError(
            f"no accepted topic of {source.out} is left by {choice.where or 'nothing'}; look with `foil sql`"
        )
    if choice.balance:
        if len({value for _, value in chosen}) == 1:
            raise UsageError(
                f"all {len(chosen):,} topics have one value of {choice.balance}, {chosen[0][1]}: there is nothing to "
                "balance; `foil sql` shows what topics differ in"
            )
        out |= dict.fromkeys(_too_many(chosen, choice.at_most), "balanced")
    heldout = frozenset(row["topic_id"] for row in rows if row["held"])
    return _Chosen(out, heldout, frozenset(name for name, _ in chosen) - out.keys())


def _count(source: Snapshot, condition: str) -> int:
    table = run_sql(source.out, topics_sql("count(*) AS n", condition), snapshot=source.name or None)
    count: int = table.column("n")[0].as_py()
    return count


def _too_many(topics: Iterable[tuple[str, str | None]], at_most: int | None) -> list[str]:
    """The ids beyond the number that each value keeps, drawn by hash."""
    by_value: dict[str | None, list[str]] = defaultdict(list)
    for name, value in topics:
        by_value[value].append(name)
    most = at_most if at_most is not None else min(map(len, by_value.values()))
    return [
        name
        for names in by_value.values()
        for name in sorted(names, key=lambda name: fraction_of("balance", name))[most:]
    ]


def _resolve(source: Snapshot, names: Sequence[str]) -> list[str]:
    table = run_sql(source.out, "SELECT topic_id FROM topics", snapshot=source.name or None)
    ids = table.column("topic_id").to_pylist()
    exact, resolved = set(ids), list[str]()
    for name in names:
        matches = [name] if name in exact else [each for each in ids if each.startswith(name)]
        if len(matches) != 1 or (name not in exact and len(name) < SHORTEST_PREFIX):
            raise UsageError(
                f"{name!r} is the beginning of {len(matches)} topic ids of {source.out}; give one id, or at least "
                f"{SHORTEST_PREFIX} characters that only it begins with"
            )
        resolved += matches
    return resolved
