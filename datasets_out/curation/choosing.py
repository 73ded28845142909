"""Filters a run by SQL, balances it by a column, holds topics out, drops topics by id: the topics to change, and how.

Conditions are of the view `topics`, and are asked behind the wall of `datasets_out.sql`: they read and do nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from foil.datasets_out.commits.snapshot import Snapshot
from foil.datasets_out.curation.derived_run import DerivedRun, taken_out, write_derived
from foil.datasets_out.sql.query import run_sql, topics_sql
from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of
from foil.engine.topic import Topic

SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """Which accepted topics stay accepted. `where`: a condition; `balance`: an expression, each of whose values keeps
    at most `at_most` topics (without a number, as many as the rarest value has); `heldout`: a condition on topics that
    only evaluation sees from now on."""

    where: str = ""
    balance: str = ""
    at_most: int | None = None
    heldout: str = ""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The ids that a choice takes out, by reason, and those that it holds out."""

    out: dict[str, str]
    heldout: frozenset[str]


def filter_run(source: Snapshot, into: Path, choice: Choice) -> DerivedRun:
    """Writes the run of a choice. Raises UsageError where it says nothing, is no SQL, or leaves no accepted topic."""
    if not (choice.where or choice.balance or choice.heldout):
        raise UsageError("nothing was chosen; give --where, --balance or --heldout")
    if choice.at_most is not None and not choice.balance:
        raise UsageError("--at-most says how many topics each value of --balance keeps; give --balance too")
    chosen = _choose(source, choice)
    evidence = {"filtered": f"not {choice.where}", "balanced": f"more than enough of its {choice.balance}"}

    def change(topic: Topic) -> Topic:
        if reason := chosen.out.get(topic.id):
            return taken_out(topic, "filter", reason, evidence[reason])
        if topic.id in chosen.heldout and topic.attributes.get("split") != "heldout":
            return replace(topic, attributes={**topic.attributes, "split": "heldout"})
        return topic

    return write_derived(source, into, "filter", asdict(choice), change)


def drop_topics(source: Snapshot, into: Path, names: Sequence[str], reason: str) -> DerivedRun:
    """Writes the run without these topics, by their ids or beginnings of them. Raises UsageError for an unknown one."""
    if not reason.strip():
        raise UsageError("--reason is empty; say why these topics are dropped, for whoever reads the run later")
    ids = frozenset(_resolve(source, names))

    def change(topic: Topic) -> Topic:
        return taken_out(topic, "curator", reason, "dropped by a curator") if topic.id in ids else topic

    return write_derived(source, into, "drop", {"topics": sorted(ids), "reason": reason}, change)


def _choose(source: Snapshot, choice: Choice) -> _Chosen:
    columns = [
        f"(({choice.where or 'true'}\n)) IS TRUE AS wanted",
        f"CAST(({choice.balance or 'NULL'}\n) AS VARCHAR) AS value",
        f"(({choice.heldout or 'false'}\n)) IS TRUE AS held",
    ]
    sql = topics_sql(f"topic_id, {', '.join(columns)}", "status = 'accepted' ORDER BY topic_id")
    rows = run_sql(source.out, sql, snapshot=source.name or None).to_pylist()
    if len(rows) != source.sums().counts.topics["accepted"]:
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
    return _Chosen(out, frozenset(row["topic_id"] for row in rows if row["held"]))


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
