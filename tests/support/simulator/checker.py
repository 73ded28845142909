"""What must hold of a run, told from rows, files and the provider's bill; never from the plan or Foil's own counts."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.simulator.provider import Provider, Sent

HELD = 12
"""The exit code of a run that another one keeps from the folder."""
EXIT_CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 130, 143}
VALIDATORS = {"shape", "leak", "constraint_check"}

Row = dict[str, str]


@dataclass(frozen=True)
class Version:
    """One input of a run: the rows of its seeds, how they are cut, and the settings and code that decide the rest.

    `code` enters the fingerprint; `foil` is a version of Foil whose rules differ and whose fingerprint does not.
    """

    rows: tuple[tuple[tuple[str, str], ...], ...]
    size: int
    settings: tuple[str, ...] = ()
    code: str = ""
    foil: str = ""

    @property
    def job(self) -> tuple[Any, ...]:
        return self.size, self.settings, self.code

    def partition(self, index: int) -> list[Row]:
        return [dict(row) for row in self.rows[index * self.size : (index + 1) * self.size]]


@dataclass
class Dataset:
    """The commit entries and the rows in the files that they name."""

    entries: dict[int, dict[str, Any]] = field(default_factory=dict)
    topics: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def shas(self) -> dict[tuple[int, str], str]:
        return {(index, t): f["sha256"] for index, entry in self.entries.items() for t, f in entry["files"].items()}

    def seeds(self, index: int) -> list[dict[str, Any]]:
        """The first row of each seed of a partition, in order."""
        return list({row["seed_id"]: row for row in reversed(self.topics[index])}.values())[::-1]

    def accepted(self, index: int) -> int:
        return sum(row["status"] == "accepted" for row in self.topics[index])


def read(out: Path) -> Dataset:
    """Reads what is committed with nothing of Foil."""
    data = Dataset()
    for path in sorted((out / "commits").glob("*.json")):
        try:
            entry = json.loads(path.read_bytes())
            tables = {table: _read_file(out, file) for table, file in entry["files"].items()}
        except (ValueError, LookupError, OSError) as error:
            data.faults.append(f"{path.name}: {type(error).__name__} {error}")
            continue
        index = int(path.stem)
        data.entries[index], data.topics[index] = entry, tables["topics"]
        for table, rows in tables.items():
            data.rows.setdefault(table, []).extend({"partition": index, **row} for row in rows)
    return data


def digest(path: Path) -> str:
    """The sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_file(out: Path, file: dict[str, Any]) -> list[dict[str, Any]]:
    raw = (out / file["path"]).read_bytes()
    if hashlib.sha256(raw).hexdigest() != file["sha256"] or len(raw) != file["bytes"]:
        raise ValueError(f"{file['path']} does not hold what its entry says")
    rows: list[dict[str, Any]] = pq.ParquetFile(out / file["path"]).read(use_threads=False).to_pylist()
    if len(rows) != file["rows"]:
        raise ValueError(f"{file['path']} holds {len(rows)} rows")
    return rows


def first_difference(data: Dataset, version: Version) -> tuple[str, str] | None:
    """The ids of the first committed seed that is not the version's, and of the version's; None if all are."""
    for index in sorted(data.entries):
        found, wanted = data.seeds(index), version.partition(index)
        for place in range(max(len(found), len(wanted))):
            row = found[place] if place < len(found) else {}
            seed = wanted[place] if place < len(wanted) else {}
            if (row.get("seed_id"), row.get("query")) != (seed.get("id"), seed.get("query")):
                return row.get("seed_id", ""), seed.get("id", "")
            if not _is_of(data, row, seed):
                return row["seed_id"], seed["id"]
    return None


def _is_of(data: Dataset, row: dict[str, Any], seed: Row) -> bool:
    """Whether the passages of a topic were made of this version of its seed: each of its sentences names its lot."""
    texts = [
        p["text"] for p in data.rows["passages"] if p["topic_id"] == row["topic_id"] and p["role"] == "seed_positive"
    ]
    return all(f"lot {seed['lot']} " in text for text in texts)


def is_complete(data: Dataset, version: Version, accept: int | None) -> bool:
    """Every seed of the version is there, or what `limits.accept` asks for."""
    partitions = -(-len(version.rows) // version.size)
    if accept is not None:
        sums, total = [], 0
        for index in range(partitions):
            total += data.accepted(index) if index in data.topics else 0
            sums.append(total)
        partitions = next((i + 1 for i, done in enumerate(sums) if done >= accept), partitions)
    return sorted(data.entries) == list(range(partitions))


def check_rows(data: Dataset, versions: Sequence[Version]) -> Iterator[str]:
    """What no moment of a run may show."""
    yield from (f"damaged: {fault}" for fault in data.faults)
    for name, of in (("topic", "topic_id"), ("seed", "seed_id")):
        found = [row[of] for rows in data.topics.values() for row in ({r[of]: r for r in rows}.values())]
        found = [row["topic_id"] for row in data.rows.get("topics", [])] if of == "topic_id" else found
        yield from (f"doubled: {name} {key} is there {n} times" for key, n in Counter(found).items() if n > 1)
    if len({entry["fingerprint"] for entry in data.entries.values()}) > 1:
        yield "mixed: entries of two jobs"
    if not data.faults and all(first_difference(data, version) for version in versions):
        yield f"mixed: the rows are of no one input (partitions {sorted(data.entries)})"
    judged = {(row["topic_id"], row["validator"]) for row in data.rows.get("verdicts", [])}
    for row in data.rows.get("topics", []):
        if row["status"] == "accepted" and not all((row["topic_id"], validator) in judged for validator in VALIDATORS):
            yield f"unjudged: {row['seed_id']} is accepted and lacks a verdict"
        if row["status"] != "accepted" and not row["reason"]:
            yield f"unexplained: {row['seed_id']} is {row['status']} without a reason"


def check_glob(out: Path, data: Dataset) -> Iterator[str]:
    """A plain glob over a finished run sees the committed files and no other."""
    named = {file["path"] for entry in data.entries.values() for file in entry["files"].values()}
    seen = {path.relative_to(out).as_posix() for path in (out / "data").glob("*/*.parquet")}
    yield from (f"glob: {name} is not committed" for name in sorted(seen - named))


def check_bills(
    data: Dataset, provider: Provider, budget: int | None, status: dict[str, Any] | None, *, power_cuts: bool
) -> Iterator[str]:
    """Nothing is paid twice but what was in flight at a kill; what Foil reports is what the provider billed."""
    firm = Counter(sent.request for sent in provider.bill if not is_excused(sent))
    yield from (f"paid twice: {request} {n} times" for request, n in firm.items() if n > 1)
    if budget is not None and firm.total() > budget:
        yield f"budget: {firm.total()} replies were paid, {budget} allowed"
    if status is None:
        return
    kept = Counter(sent.request for sent in provider.bill if not sent.lost)
    extra = kept.total() - len(kept)
    raced = any(sent.process.racing for sent in provider.bill)
    if not power_cuts and not raced and extra > status["possibly_paid_twice"]:
        yield f"paid twice: {extra} more than once, {status['possibly_paid_twice']} told"
    yield from _check_costs(data, provider, status)


def is_excused(sent: Sent) -> bool:
    """Whether this send may be paid for again: its reply never came, or its process could not keep it."""
    process = sent.process
    if sent.arrived is None or process.racing:
        return True
    until = process.met_at if process.met else process.ended if process.code is None else math.inf
    return sent.arrived > until - process.synced_s


def _check_costs(data: Dataset, provider: Provider, status: dict[str, Any]) -> Iterator[str]:
    billed = {sent.request: sent.usd for sent in provider.bill}
    calls = {(row["partition"], row["request_id"]): row for row in data.rows.get("calls", [])}
    for (_, request), row in calls.items():
        if not math.isfinite(row["cost_usd"]) or not 0 <= row["cost_usd"] < 1:
            yield f"cost: {request} is told to cost {row['cost_usd']}"
        elif request not in billed:
            yield f"cost: {request} was never billed"
        elif request not in provider.odd and not math.isclose(row["cost_usd"], billed[request]):
            yield f"cost: {request} cost {billed[request]}, told {row['cost_usd']}"
    told = math.fsum(row["cost_usd"] for row in calls.values())
    if not math.isclose(told, status["cost_usd"], rel_tol=1e-6, abs_tol=1e-9) or len(calls) != status["calls"]:
        yield f"cost: the rows hold {len(calls)} calls for {told}, status {status['calls']} for {status['cost_usd']}"


def compare(data: Dataset, undisturbed: Dataset, *, odd_usage: bool) -> Iterator[str]:
    """The files of a run are those of an undisturbed run of the same inputs.

    But for partitions where the provider failed a seed too often, and the calls where it told absurd tokens.
    """
    failed = {row["partition"] for row in data.rows.get("topics", []) if row["reason"] == "model_unavailable"}
    for index, table in sorted(data.shas.keys() | undisturbed.shas.keys()):
        excused = index in failed or (table == "calls" and odd_usage)
        if not excused and data.shas.get((index, table)) != undisturbed.shas.get((index, table)):
            yield f"digest: {table} of partition {index} differs from an undisturbed run"
            return


def compare_topics(data: Dataset, *undisturbed: Dataset, odd_usage: bool) -> Iterator[str]:
    """Each topic of a run that several versions of Foil made is one that one of them makes in peace."""
    known = [_by_topic(one, odd_usage=odd_usage) for one in undisturbed]
    failed = {row["topic_id"] for row in data.rows.get("topics", []) if row["reason"] == "model_unavailable"}
    for topic, rows in _by_topic(data, odd_usage=odd_usage).items():
        if topic not in failed and all(rows != one.get(topic) for one in known):
            yield f"digest: topic {topic} is as no version of Foil makes it"


def _by_topic(data: Dataset, *, odd_usage: bool) -> dict[str, list[str]]:
    """The rows of every table, by their topic."""
    rows: dict[str, list[str]] = {}
    for table in sorted(data.rows.keys() - ({"calls"} if odd_usage else set())):
        for row in data.rows[table]:
            rows.setdefault(row["topic_id"], []).append(f"{table} {sorted(row.items())}")
    return rows
