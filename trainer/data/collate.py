"""A batch in index form: every text once, and the anchors as indices; what is a negative follows from keys alone.

    groups -> Batch: unique passages [P], unique (instruction, query) pairs [N], anchors [R, 2] = relevant cells
    keys of all workers -> cells: for each block its columns and which of them are negatives, [R, columns]

A key is a 64-bit hash of normalised text, so masks hold across workers that never saw each other's texts: no cell that
is known to be relevant is pushed away, and of equal columns only the first counts. Blocks in which instructions or
queries vary may reach beyond a topic (`LossSettings.instructions`): then pairs are made of every own query with every
instruction of the whole batch, whichever worker holds it, and a block is the same for any number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datasets_out.training.training_view import TopicGroup
from trainer.model.encoder import Pair
from trainer.settings import Block, LossSettings
from trainer.text_templates import TextTemplate

K = TypeVar("K")
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keys:
    """What masks are made of.

    `passages` [P, 1]; `pairs` [N, 3]: instruction, query, and 1 where a topic asks so, 0 where the pair was only made
    for contrast; `relevant` [M, 3]: instruction, query, passage of every anchor; `known` [K, 3]: the same of what is
    relevant too and is no anchor, since its topic did not bring the passage, while another may.
    """

    passages: Ints
    pairs: Ints
    relevant: Ints
    known: Ints = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Batch:
    """Unique texts, and the relevant cells as `anchors`, [R, 2]: indices of (pair, passage)."""

    passages: tuple[str, ...]
    pairs: tuple[Pair, ...]
    anchors: Ints
    keys: Keys


@dataclass(frozen=True, slots=True)
class Cells:
    """A block's columns among all passages (block P) or all pairs: `columns` [R, C], or None for each of them in its
    order; `negative` [R, C] says which of them an anchor is contrasted with."""

    columns: Ints | None
    negative: Bools


def key_of(text: str) -> int:
    """The same for texts that differ in blanks or case only; 0 for the empty text."""
    normal = " ".join(text.split()).casefold()
    raw = hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "big", signed=True) if normal else 0


def trim(group: TopicGroup, distractors: int, other_queries: bool) -> TopicGroup:
    """What a topic brings to a batch: of the passages relevant to none of its intents only the first `distractors`,
    and intents of another query than its first only where `other_queries` says so."""
    own = group.intents[0][1]
    rows = np.array([other_queries or query == own for _, query in group.intents])
    wanted = (group.relevance[rows] > 0).any(0)
    columns = wanted | (np.cumsum(~wanted) <= distractors)
    return group.only(rows, columns)


def plain(group: TopicGroup) -> TopicGroup:
    """What a topic brings to plain retrieval: its bare query and the first passage that this wants."""
    first = np.arange(len(group.passages)) == np.argmax(group.relevance[0] > 0)
    return group.only(np.arange(len(group.intents)) == 0, first & (group.relevance[0] > 0))


def collate(
    groups: Sequence[TopicGroup], template: TextTemplate, made: Iterable[Pair] = (), known: Iterable[TopicGroup] = ()
) -> Batch:
    """The batch of these groups; anchors in the order of the groups, equal ones once. `made` are further pairs;
    `known` are topics that brought a part of what their first intent wants: none of the rest is a negative of it."""
    passages: dict[int, str] = {}
    pairs: dict[tuple[int, int], Pair] = {}
    anchors: dict[tuple[tuple[int, int], int], None] = {}
    for group in groups:
        bodies = [template.body(*passage) for passage in group.passages]
        columns = [key_of(body) for body in bodies]
        rows = [_pair_key(intent) for intent in group.intents]
        for key, body in zip(columns, bodies, strict=True):
            passages.setdefault(key, body)
        for pair, intent in zip(rows, group.intents, strict=True):
            pairs.setdefault(pair, intent)
        anchors.update(dict.fromkeys((rows[i], columns[j]) for i, j in np.argwhere(group.relevance > 0)))
    asked = len(pairs)
    for intent in made:
        pairs.setdefault(_pair_key(intent), intent)
    pair_at, passage_at = _positions(pairs), _positions(passages)
    return Batch(
        passages=tuple(passages.values()),
        pairs=tuple(pairs.values()),
        anchors=np.array([(pair_at[r], passage_at[c]) for r, c in anchors], dtype=np.int64).reshape(-1, 2),
        keys=Keys(
            np.array(list(passages), dtype=np.int64).reshape(-1, 1),
            np.array([(*key, place < asked) for place, key in enumerate(pairs)], dtype=np.int64).reshape(-1, 3),
            np.array([(*r, c) for r, c in anchors], dtype=np.int64).reshape(-1, 3),
            np.array([row for group in known for row in _wanted_first(group, template)], dtype=np.int64).reshape(-1, 3),
        ),
    )


def _wanted_first(group: TopicGroup, template: TextTemplate) -> list[tuple[int, int, int]]:
    asked = _pair_key(group.intents[0])
    return [(*asked, key_of(template.body(*group.passages[at]))) for at in np.flatnonzero(group.relevance[0] > 0)]


def made_pairs(own: Sequence[TopicGroup], batch: Sequence[TopicGroup], settings: LossSettings, step: int) -> list[Pair]:
    """The pairs that blocks I and Q need beyond those asked: own queries with the batch's instructions, and own
    instructions with its queries. With `instruction_samples`, that many of them for each query, drawn by the step."""
    if settings.instructions == "topic":
        return []
    mine, all_pairs = _distinct(own), _distinct(batch)
    found: list[Pair] = []
    if "I" in settings.blocks:
        instructions = list(dict.fromkeys(instruction for instruction, _ in all_pairs))
        for query in dict.fromkeys(query for _, query in mine):
            found += [(one, query) for one in _sample(instructions, query, settings.instruction_samples, step)]
    if "Q" in settings.blocks:
        queries = list(dict.fromkeys(query for _, query in all_pairs))
        for instruction in dict.fromkeys(instruction for instruction, _ in mine):
            found += [(instruction, one) for one in _sample(queries, instruction, settings.instruction_samples, step)]
    return found


def cells(anchors: Ints, keys: Keys, settings: LossSettings) -> dict[Block, Cells]:
    """For each block of the loss its columns and negatives; `anchors` [R, 2] index into `keys`, those of all workers.

    `masked`: every text once; never a negative is a passage relevant to the anchor's pair, or to its query under any
    instruction where the anchor has none; a pair to which the anchor's passage is relevant; a column equal to an
    earlier one. `kept`, as the equations are printed: one column for each anchor row of the batch, whatever it holds,
    and all but the row's own are negatives.
    """
    if settings.duplicates == "kept":
        return {name: _literal(name, anchors, keys) for name in settings.blocks}
    passage_id, pair_id = _class_of(keys.passages), _class_of(keys.pairs[:, :2])
    relevant = _relevance(keys, pair_id, passage_id)
    pair, passage = anchors[:, 0], anchors[:, 1]
    instruction, query = keys.pairs[:, 0], keys.pairs[:, 1]
    free = first_of_class(keys.pairs[:, :2]) & ~relevant[pair_id][:, passage_id[passage]].T
    masks: dict[Block, Bools] = {
        "P": first_of_class(keys.passages) & ~relevant[pair_id[pair]][:, passage_id],
        "I": free & (query[pair][:, None] == query),
        "IQ": free & _asked_anywhere(keys, pair_id),
        "Q": free & (instruction[pair][:, None] == instruction),
    }
    return {name: Cells(None, masks[name]) for name in settings.blocks}


def _literal(name: Block, anchors: Ints, keys: Keys) -> Cells:
    """Row i, column k: what the printed equations put there, for the anchors of all workers as columns."""
    instruction, query, passage = keys.relevant.T
    own = keys.pairs[anchors[:, 0]]
    place = {tuple(key): at for at, key in reversed(list(enumerate(keys.pairs[:, :2].tolist())))}
    if name == "P":
        found = {key: at for at, (key,) in reversed(list(enumerate(keys.passages.tolist())))}
        row = np.array([found[key] for key in passage.tolist()], dtype=np.int64)
        columns = np.tile(row, (len(anchors), 1))
    else:
        first = np.broadcast_to(own[:, :1] if name == "Q" else instruction, (len(anchors), len(instruction)))
        second = np.broadcast_to(own[:, 1:2] if name == "I" else query, first.shape)
        wanted = np.stack((first, second), 2).reshape(-1, 2).tolist()
        columns = np.array([place[i, q] for i, q in wanted], dtype=np.int64).reshape(first.shape)
    same = (own[:, None, :2] == keys.relevant[:, :2]).all(2)
    mine = same & (keys.passages[anchors[:, 1]] == passage)
    return Cells(columns, ~mine)


def _asked_anywhere(keys: Keys, pair_id: Ints) -> Bools:
    """Which pairs some worker's topic asks, [N]; a pair that one worker made may be another's own."""
    asked = np.zeros(int(pair_id.max(initial=-1)) + 1, dtype=bool)
    asked[pair_id[keys.pairs[:, 2] == 1]] = True
    return asked[pair_id]


def _relevance(keys: Keys, pair_id: Ints, passage_id: Ints) -> Bools:
    """[unique pairs, unique passages]: known relevant; a bare query has what any instruction on it has."""
    pair_class = {tuple(pair): number for pair, number in zip(keys.pairs[:, :2].tolist(), pair_id, strict=True)}
    passage_class = dict(zip(keys.passages[:, 0].tolist(), passage_id, strict=True))
    relevant = np.zeros((len(set(pair_class.values())), len(set(passage_class.values()))), dtype=bool)
    for instruction, query, passage in (*keys.relevant.tolist(), *keys.known.tolist()):
        for pair in ((instruction, query), (0, query)):
            if pair in pair_class and passage in passage_class:
                relevant[pair_class[pair], passage_class[passage]] = True
    return relevant


def first_of_class(keys: Ints) -> Bools:
    """Of every set of equal rows of keys, [rows, parts], the first: [rows] bool."""
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[np.unique(keys, axis=0, return_index=True)[1]] = True
    return is_first


def _class_of(keys: Ints) -> Ints:
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _pair_key(intent: Pair) -> tuple[int, int]:
    return key_of(intent[0]), key_of(intent[1])


def _distinct(groups: Sequence[TopicGroup]) -> list[Pair]:
    return list({_pair_key(intent): intent for group in groups for intent in group.intents}.values())


def _sample(items: list[str], around: str, most: int | None, step: int) -> list[str]:
    if most is None or most >= len(items):
        return items
    draw = np.random.default_rng([step, key_of(around) % 2**63])
    return [items[at] for at in np.sort(draw.choice(len(items), most, replace=False))]


def _positions(table: dict[K, Any]) -> dict[K, int]:
    return {key: position for position, key in enumerate(table)}
