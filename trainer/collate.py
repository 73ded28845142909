"""A batch in index form: every text once, and the anchors as indices; what is a negative follows from keys alone.

    groups -> Batch: unique passages [P], unique (instruction, query) pairs [N], anchors [R, 2] = relevant cells
    keys of all workers -> negatives: one bool mask [R, columns] per block

A key is a 64-bit hash of normalised text, so masks hold across workers that never saw each other's texts: no cell that
is known to be relevant is pushed away, and of equal columns only the first counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from datasets_out.training_view import Group
from trainer.fusion import Template
from trainer.settings import Block

K = TypeVar("K")
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keys:
    """What masks are made of: `passages` [P], `pairs` [N, 2] of (instruction, query), `relevant` [M, 3] of both."""

    passages: Ints
    pairs: Ints
    relevant: Ints


@dataclass(frozen=True, slots=True)
class Batch:
    """Unique texts, and the relevant cells as `anchors`, [R, 2]: indices of (pair, passage)."""

    passages: tuple[str, ...]
    pairs: tuple[str, ...]
    anchors: Ints
    keys: Keys


def key_of(text: str) -> int:
    """The same for texts that differ in blanks or case only; 0 for the empty text."""
    normal = " ".join(text.split()).casefold()
    raw = hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big", signed=True) if normal else 0


def trim(group: Group, distractors: int, other_queries: bool) -> Group:
    """What a topic brings to a batch: of the passages relevant to none of its intents only the first `distractors`,
    and intents of another query than its first only where `other_queries` says so."""
    own = group.intents[0][1]
    rows = np.array([other_queries or query == own for _, query in group.intents])
    wanted = (group.relevance[rows] > 0).any(0)
    columns = wanted | (np.cumsum(~wanted) <= distractors)
    return group.only(rows, columns)


def collate(groups: Sequence[Group], template: Template) -> Batch:
    """The batch of these groups; anchors in the order of the groups, equal ones once."""
    passages: dict[int, str] = {}
    pairs: dict[tuple[int, int], str] = {}
    anchors: dict[tuple[tuple[int, int], int], None] = {}
    for group in groups:
        bodies = [template.body(*passage) for passage in group.passages]
        columns = [key_of(body) for body in bodies]
        rows = [(key_of(instruction), key_of(query)) for instruction, query in group.intents]
        for key, body in zip(columns, bodies, strict=True):
            passages.setdefault(key, body)
        for pair, intent in zip(rows, group.intents, strict=True):
            pairs.setdefault(pair, template.fuse(*intent))
        anchors.update(dict.fromkeys((rows[i], columns[j]) for i, j in np.argwhere(group.relevance > 0)))
    pair_at, passage_at = _positions(pairs), _positions(passages)
    return Batch(
        passages=tuple(passages.values()),
        pairs=tuple(pairs.values()),
        anchors=np.array([(pair_at[r], passage_at[c]) for r, c in anchors], dtype=np.int64).reshape(-1, 2),
        keys=Keys(
            np.array(list(passages), dtype=np.int64),
            np.array(list(pairs), dtype=np.int64).reshape(-1, 2),
            np.array([(*r, c) for r, c in anchors], dtype=np.int64).reshape(-1, 3),
        ),
    )


def negatives(anchors: Ints, keys: Keys) -> dict[Block, Bools]:
    """For each block which columns an anchor is contrasted with; anchors index into `keys`, [R, P] or [R, N] bool.

    Never a negative: a passage relevant to the anchor's pair, or to its query under any instruction where the anchor
    has none; a pair to which the anchor's passage is relevant; a column equal to an earlier one.
    """
    passage_id, pair_id = _class_of(keys.passages[:, None]), _class_of(keys.pairs)
    first_passage, first_pair = first_of_class(keys.passages[:, None]), first_of_class(keys.pairs)
    relevant = _relevance(keys, pair_id, passage_id)
    pair, passage = anchors[:, 0], anchors[:, 1]
    instruction, query = keys.pairs[:, 0], keys.pairs[:, 1]
    free = first_pair & ~relevant[pair_id][:, passage_id[passage]].T
    return {
        "P": first_passage & ~relevant[pair_id[pair]][:, passage_id],
        "I": free & (query[pair][:, None] == query),
        "IQ": free,
        "Q": free & (instruction[pair][:, None] == instruction),
    }


def _relevance(keys: Keys, pair_id: Ints, passage_id: Ints) -> Bools:
    """[unique pairs, unique passages]: known relevant; a bare query has what any instruction on it has."""
    pair_class = {tuple(pair): number for pair, number in zip(keys.pairs.tolist(), pair_id, strict=True)}
    passage_class = dict(zip(keys.passages.tolist(), passage_id, strict=True))
    relevant = np.zeros((len(set(pair_class.values())), len(set(passage_class.values()))), dtype=bool)
    for instruction, query, passage in keys.relevant.tolist():
        relevant[pair_class[instruction, query], passage_class[passage]] = True
        if (0, query) in pair_class:
            relevant[pair_class[0, query], passage_class[passage]] = True
    return relevant


def first_of_class(keys: Ints) -> Bools:
    """Of every set of equal rows of keys, [rows, parts], the first: [rows] bool."""
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[np.unique(keys, axis=0, return_index=True)[1]] = True
    return is_first


def _class_of(keys: Ints) -> Ints:
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _positions(table: dict[K, str]) -> dict[K, int]:
    return {key: position for position, key in enumerate(table)}
