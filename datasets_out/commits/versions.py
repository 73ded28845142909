"""Versions of a run's log: the entries of many partitions in few files, so that a large run opens at once.

    versions/00000003.json           version 3: its manifests and packs, and the sums of all its entries; put once
    versions/manifest-SHA.parquet    counts and files of some thousand partitions, a row each
    versions/facts-SHA.parquet       the facts of the same partitions, which few readers need
    data/TABLE/pack-SHA.parquet      rows of partitions that follow each other; the version says of which
    versions/ids-SHA.bloom           the ids of a pack's records, so that one is not searched in every pack

Promise: a version holds all that the one before it holds, under equal entries, but for partitions that it reopens to
ask their failed rows again (datasets_out.compaction.reopening); where a version holds a partition, no file in
`commits/` counts for it. Each file that a version names carries the sha256 that it has there. The bytes of an
entry in `commits/` can be made again from its rows. Price: a partition takes some 300 bytes, and 5 a seed of facts.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foil.datasets_out.commits.encoding import seal, unseal
from foil.datasets_out.commits.entries import CommitEntry, CommittedFile, shared_name
from foil.datasets_out.commits.schema import SCHEMA_VERSION, TABLES
from foil.engine.errors import CorruptDataError
from foil.engine.flow.progress import Counts, counts_of, total
from foil.engine.ids import canonical_json, sha256_hex

FOLDER = "versions"
VERSION_NAME = re.compile(r"versions/(?P<number>[0-9]{8})\.json")
PACK_NAME = re.compile(r"data/(?P<table>[a-z]+)/pack-(?P<sha256>[0-9a-f]{64})\.parquet")
_IDS = "ids"
_SHA256 = re.compile(r"[0-9a-f]{64}")

_MANIFEST = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("counts", pa.string(), nullable=False),
        *(
            pa.field(f"{table}_{name}", kind, nullable=False)
            for table in TABLES
            for name, kind in (
                ("rows", pa.int64()), ("bytes", pa.int64()), ("sha256", pa.binary(32)), ("own_name", pa.bool_()),
            )
        ),
    ]
)  # fmt: skip
_FACTS = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in (("partition", pa.int32()), ("facts", pa.string()))]
)


class PartitionRanges:
    """A sorted set of partitions, as pairs of its first and last ones."""

    def __init__(self, pairs: Iterable[Sequence[int]]) -> None:
        self.pairs = [(int(first), int(last)) for first, last in pairs]
        self._firsts = [first for first, _ in self.pairs]
        self._before = [0, *accumulate(last - first + 1 for first, last in self.pairs)]

    @classmethod
    def of(cls, partitions: Iterable[int]) -> "PartitionRanges":
        pairs: list[list[int]] = []
        for partition in sorted(set(partitions)):
            if pairs and pairs[-1][1] == partition - 1:
                pairs[-1][1] = partition
            else:
                pairs.append([partition, partition])
        return cls(pairs)

    @classmethod
    def union(cls, sets: Iterable["PartitionRanges"]) -> "PartitionRanges":
        """All that lies in any of them."""
        pairs: list[list[int]] = []
        for first, last in sorted(pair for each in sets for pair in each.pairs):
            if pairs and first <= pairs[-1][1] + 1:
                pairs[-1][1] = max(pairs[-1][1], last)
            else:
                pairs.append([first, last])
        return cls(pairs)

    def __contains__(self, partition: object) -> bool:
        return isinstance(partition, int) and self.covers(partition, partition)

    def covers(self, first: int, last: int) -> bool:
        """Whether one of its pairs holds all partitions from `first` to `last`."""
        place = bisect_right(self._firsts, first) - 1
        return place >= 0 and last <= self.pairs[place][1]

    def __len__(self) -> int:
        return self._before[-1]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.pairs:
            yield from range(first, last + 1)

    def without(self, removed: "PartitionRanges") -> "PartitionRanges":
        """What of this set is not removed."""
        pairs = []
        for start, last in self.pairs:
            first, place = start, max(0, bisect_right(removed.pairs, (start, start)) - 1)
            for begin, end in islice(removed.pairs, place, None):
                if begin > last:
                    break
                if begin > first:
                    pairs.append((first, begin - 1))
                first = max(first, end + 1)
            if first <= last:
                pairs.append((first, last))
        return PartitionRanges(pairs)

    def position(self, partition: int) -> int:
        """How many partitions of the set lie before this one of it."""
        place = bisect_right(self._firsts, partition) - 1
        return self._before[place] + partition - self.pairs[place][0]


NO_PARTITIONS = PartitionRanges(())


@dataclass(frozen=True, slots=True)
class Manifest:
    """Two files that hold the entries of `partitions`, and their facts."""

    partitions: PartitionRanges = field(compare=False)
    entries: CommittedFile
    facts: CommittedFile


@dataclass(frozen=True, slots=True)
class Pack:
    """A file a table with the rows of the partitions from `first` to `last`, in order.

    `ids`: a filter of the ids of its records (`schema.record_key`); packs of earlier versions of Foil have none.
    """

    first: int
    last: int
    files: Mapping[str, CommittedFile]
    ids: CommittedFile | None = None


@dataclass(frozen=True)
class Version:
    """One version: what it names, and the sums of its entries: `rows` and `nbytes` by table."""

    number: int
    fingerprint: str
    manifests: tuple[Manifest, ...]
    packs: tuple[Pack, ...]
    counts: Counts
    rows: Mapping[str, int]
    nbytes: Mapping[str, int]
    reopened: tuple[tuple[int, PartitionRanges], ...] = ()
    """For each time that failed rows were asked again: the version with the old rows, and their partitions."""
    sha256: str = field(default="", compare=False)
    """Of its document, once it was read."""

    @cached_property
    def partitions(self) -> PartitionRanges:
        return PartitionRanges.union(manifest.partitions for manifest in self.manifests)

    @cached_property
    def packed(self) -> PartitionRanges:
        """Those of its partitions that lie in packs."""
        return PartitionRanges.union(PartitionRanges([(pack.first, pack.last)]) for pack in self.packs)

    @cached_property
    def _pack_firsts(self) -> list[int]:
        return [pack.first for pack in self.packs]

    def pack_of(self, partition: int) -> Pack | None:
        """The pack with the rows of a partition; None where its own files hold them."""
        place = bisect_right(self._pack_firsts, partition) - 1
        return self.packs[place] if place >= 0 and partition <= self.packs[place].last else None

    def manifest_of(self, partition: int) -> Manifest:
        """The manifest with the entry of one of its partitions."""
        return next(manifest for manifest in self.manifests if partition in manifest.partitions)

    def files(self) -> Iterator[CommittedFile]:
        """Every file that it names, those of partitions aside."""
        for manifest in self.manifests:
            yield from (manifest.entries, manifest.facts)
        for pack in self.packs:
            yield from pack.files.values()
            if pack.ids:
                yield pack.ids

    def sealed(self) -> bytes:
        body = {
            "version": self.number,
            "fingerprint": self.fingerprint,
            "schema_version": SCHEMA_VERSION,
            "counts": self.counts.plain(),
            "rows": dict(self.rows),
            "bytes": dict(self.nbytes),
            "manifests": [
                {
                    "partitions": [list(pair) for pair in manifest.partitions.pairs],
                    "entries": _listed(manifest.entries),
                    "facts": _listed(manifest.facts),
                }
                for manifest in self.manifests
            ],
            "packs": [[pack.first, pack.last, _files_of(pack)] for pack in self.packs],
        }
        if self.reopened:
            body["reopened"] = [
                [number, [list(pair) for pair in partitions.pairs]] for number, partitions in self.reopened
            ]
        return seal(body)


def version_name(number: int) -> str:
    """The name of a version's document."""
    return f"{FOLDER}/{number:08d}.json"


def pack_name(table: str, sha256: str) -> str:
    """The name of the pack of these bytes."""
    return f"data/{table}/pack-{sha256}.parquet"


def ids_name(sha256: str) -> str:
    """The name of the filter of these bytes."""
    return f"{FOLDER}/ids-{sha256}.bloom"


def _files_of(pack: Pack) -> dict[str, list[Any]]:
    files = {**pack.files, _IDS: pack.ids} if pack.ids else pack.files
    return {name: _listed(file) for name, file in files.items()}


def _listed(file: CommittedFile) -> list[Any]:
    return [file.rows, file.bytes, file.sha256]


def read_version(path: Path, number: int, raw: bytes) -> Version:
    """The version of a document. Raises CorruptDataError if a bit of it has changed, or it has another shape."""
    body = unseal(path, raw)
    try:
        version = _version_of(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"{path} is not a version ({error}); was it written by another Foil?") from error
    if body["schema_version"] != SCHEMA_VERSION or version.number != number:
        raise CorruptDataError(
            f"{path} is version {version.number} with schema version {body['schema_version']}, and this Foil reads "
            f"{SCHEMA_VERSION}; use the Foil that wrote it"
        )
    return replace(version, sha256=sha256_hex(raw))


def _version_of(body: Mapping[str, Any]) -> Version:
    manifests = tuple(
        Manifest(
            PartitionRanges(each["partitions"]),
            _stored(f"{FOLDER}/manifest-{{}}.parquet", *each["entries"]),
            _stored(f"{FOLDER}/facts-{{}}.parquet", *each["facts"]),
        )
        for each in body["manifests"]
    )
    packs = tuple(
        Pack(
            first,
            last,
            {table: _stored(f"data/{table}/pack-{{}}.parquet", *files[table]) for table in TABLES},
            _stored(f"{FOLDER}/ids-{{}}.bloom", *files[_IDS]) if _IDS in files else None,
        )
        for first, last, files in body["packs"]
    )
    rows, nbytes = ({table: int(body[name][table]) for table in TABLES} for name in ("rows", "bytes"))
    reopened = tuple((int(number), PartitionRanges(pairs)) for number, pairs in body.get("reopened", ()))
    return Version(
        int(body["version"]), str(body["fingerprint"]), manifests, packs, counts_of(body), rows, nbytes, reopened
    )


def _stored(name: str, rows: int, nbytes: int, sha256: str) -> CommittedFile:
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"{sha256!r} is no sha256")
    return CommittedFile(name.format(sha256), int(rows), int(nbytes), sha256)


def encode_manifest(entries: Sequence[CommitEntry]) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest of entries in order of partition, and the bytes of its two files by name."""
    partitions = [entry.partition for entry in entries]
    columns: dict[str, list[Any]] = {
        "partition": partitions,
        "counts": [canonical_json(entry.counts.plain()) for entry in entries],
    }
    for table in TABLES:
        files = [entry.files[table] for entry in entries]
        columns[f"{table}_rows"] = [file.rows for file in files]
        columns[f"{table}_bytes"] = [file.bytes for file in files]
        columns[f"{table}_sha256"] = [bytes.fromhex(file.sha256) for file in files]
        shared = [shared_name(table, partition) for partition in partitions]
        columns[f"{table}_own_name"] = [file.path != name for file, name in zip(files, shared, strict=True)]
    facts = {"partition": partitions, "facts": [canonical_json(entry.facts) for entry in entries]}
    blobs = {"manifest": _parquet(pa.table(columns, _MANIFEST)), "facts": _parquet(pa.table(facts, _FACTS))}
    stored = [
        CommittedFile(f"{FOLDER}/{kind}-{sha256_hex(blob)}.parquet", len(entries), len(blob), sha256_hex(blob))
        for kind, blob in blobs.items()
    ]
    manifest = Manifest(PartitionRanges.of(partitions), *stored)
    return manifest, {file.path: blob for file, blob in zip(stored, blobs.values(), strict=True)}


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=["counts"], write_statistics=False)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def first_version(fingerprint: str) -> Version:
    """Version 0, which is never stored: of nothing."""
    none = dict.fromkeys(TABLES, 0)
    return Version(0, fingerprint, (), (), Counts(), none, none)


def added(version: Version, entries: Sequence[CommitEntry], manifests: Sequence[Manifest]) -> Version:
    """The next version: with `entries` more, and these manifests in all."""
    rows, nbytes = (
        {table: before[table] + sum(getattr(entry.files[table], name) for entry in entries) for table in TABLES}
        for name, before in (("rows", version.rows), ("bytes", version.nbytes))
    )
    counts = total([version.counts, *(entry.counts for entry in entries)])
    return replace(
        version, number=version.number + 1, manifests=tuple(manifests), counts=counts, rows=rows, nbytes=nbytes
    )


def without(
    version: Version,
    partitions: PartitionRanges,
    entries: Sequence[CommitEntry],
    manifests: Sequence[Manifest],
    packs: Iterable[Pack],
) -> Version:
    """The next version: without these partitions, of the `entries` that stay, their manifests and packs."""
    empty = replace(first_version(version.fingerprint), number=version.number, packs=tuple(packs))
    reopened = (*version.reopened, (version.number, partitions))
    return replace(added(empty, entries, manifests), reopened=reopened)


@dataclass(frozen=True, slots=True)
class LogTotals:
    """How many partitions are committed, and the sums over their entries; `rows` and `nbytes` by table."""

    partitions: int
    counts: Counts
    rows: Mapping[str, int]
    nbytes: Mapping[str, int]


def totals(version: Version | None, entries: Sequence[CommitEntry]) -> LogTotals:
    """The sums of a version and of entries beyond it."""
    whole = added(version or first_version(""), entries, ())
    partitions = len(version.partitions) if version else 0
    return LogTotals(partitions + len(entries), whole.counts, whole.rows, whole.nbytes)
