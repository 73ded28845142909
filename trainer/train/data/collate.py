"""A batch in index form: every text once, and the anchors as indices. The keys alone decide what is a negative.

    groups -> Batch: unique passages [P], unique (instruction, query) pairs [N], anchors [R, 2] = relevant cells
    keys of all workers -> cells: for each block its columns and which of them are negatives, [R, columns]

A key is a 64-bit hash of normalised text, so workers can mask texts that they do not hold. No cell that is known to be
relevant is a negative, and of equal columns only the first counts. Instructions and queries of other topics may be
contrasted too (`LossSettings.instructions`). Then every own query is paired with every instruction of the whole batch,
whichever worker holds it, and a block is the same for any number of workers.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.texts.words import text_key
from foil.trainer.settings import Block, LossSettings
from foil.trainer.text_templates import QueryPair, TextForms

K = TypeVar("K")
V = TypeVar("V")
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Cell = tuple[tuple[int, int], int]
"""Keys of a pair and a passage."""


@dataclass(frozen=True, slots=True)
class BatchKeys:
    """The keys from which masks are computed.

    `passages` [P, 1]; `pairs` [N, 3]: instruction, query, and 1 for an intent of a topic, 0 for a contrast pair;
    `relevant` [M, 3]: instruction, query, passage of every anchor; `other_relevant` [K, 3]: relevant cells that are no
    anchors, since their topic did not bring the passage, while another topic may.
    """

    passages: Ints
    pairs: Ints
    relevant: Ints
    other_relevant: Ints = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Batch:
    """Unique texts, and the relevant cells as `anchors`, [R, 2]: indices of (pair, passage).

    `judged` [M, 3]: the same of every cell of a topic that was judged, with 1 where it is relevant and 0 elsewhere.
    `probabilities` [M]: of these a judge's P(relevant), NaN where it gave none.
    """

    passages: tuple[str, ...]
    pairs: tuple[QueryPair, ...]
    anchors: Ints
    judged: Ints
    probabilities: NDArray[np.float64]
    keys: BatchKeys


@dataclass(frozen=True, slots=True)
class BlockNegatives:
    """A block's columns among all passages (block P) or pairs, [R, C], or None for all; and which are negatives."""

    columns: Ints | None
    mask: Bools


def trim_group(group: TopicGroup, distractors: int, other_queries: bool, bare_queries: bool = True) -> TopicGroup:
    """A topic with at most `distractors` passages that no intent wants.

    Other queries stay with `other_queries`. The bare query stays with `bare_queries`, or where there is no instruction.
    """
    first_query = group.intents[0][1]
    rows = np.array([other_queries or query == first_query for _, query in group.intents])
    instructed = np.array([bool(instruction) for instruction, _ in group.intents]) & rows
    rows = instructed if instructed.any() and not bare_queries else rows
    relevant = (group.relevance[rows] > 0).any(0)
    columns = relevant | (np.cumsum(~relevant) <= distractors)
    return group.only(rows, columns)


def reduce_to_plain(group: TopicGroup) -> TopicGroup:
    """The part of a topic for plain retrieval: its bare query and the first passage relevant to this."""
    first = np.arange(len(group.passages)) == np.argmax(group.relevance[0] > 0)
    return group.only(np.arange(len(group.intents)) == 0, first & (group.relevance[0] > 0))


def collate(
    groups: Sequence[TopicGroup],
    forms: TextForms,
    contrast_pairs: Iterable[QueryPair] = (),
    partial_groups: Iterable[TopicGroup] = (),
) -> Batch:
    """The batch of these groups; anchors in the order of the groups, equal ones once.

    Passages that `forms` makes equal are one, relevant where any of them is.
    What is relevant to the first intent of `partial_groups` is no negative of it, even if another topic brings it.
    """
    passages: dict[int, str] = {}
    pairs: dict[tuple[int, int], QueryPair] = {}
    anchors, judged = dict[Cell, None](), dict[Cell, float]()
    formed = iter(forms.format_passages([passage for group in groups for passage in group.passages]))
    for group in groups:
        texts = list(islice(formed, len(group.passages)))
        columns = [text_key(text) for text in texts]
        rows = [_pair_key(intent) for intent in group.intents]
        _add_first(passages, columns, texts)
        _add_first(pairs, rows, group.intents)
        anchors |= dict.fromkeys((rows[i], columns[j]) for i, j in np.argwhere(group.relevance > 0))
        _add_judged(judged, rows, columns, group)
    asked_count = len(pairs)
    for intent in contrast_pairs:
        pairs.setdefault(_pair_key(intent), intent)
    pair_at, passage_at = _positions(pairs), _positions(passages)
    return Batch(
        passages=tuple(passages.values()),
        pairs=tuple(pairs.values()),
        anchors=_table([(pair_at[pair], passage_at[passage]) for pair, passage in anchors], 2),
        judged=_table([(pair_at[cell[0]], passage_at[cell[1]], cell in anchors) for cell in judged], 3),
        probabilities=np.fromiter(judged.values(), dtype=np.float64, count=len(judged)),
        keys=BatchKeys(
            _table([(key,) for key in passages], 1),
            _table([(*key, position < asked_count) for position, key in enumerate(pairs)], 3),
            _table([(*pair, passage) for pair, passage in anchors], 3),
            _table([row for group in partial_groups for row in _relevant_to_first_intent(group, forms)], 3),
        ),
    )


def _add_first(table: dict[K, V], keys: Iterable[K], values: Iterable[V]) -> None:
    for key, value in zip(keys, values, strict=True):
        table.setdefault(key, value)


def _add_judged(
    judged: dict[Cell, float], rows: Sequence[tuple[int, int]], columns: Sequence[int], group: TopicGroup
) -> None:
    """Adds a topic's judged cells, each with the first probability that it has."""
    for i, j in np.argwhere(group.relevance):
        cell = rows[i], columns[j]
        if math.isnan(judged.get(cell, math.nan)):
            judged[cell] = math.nan if group.probabilities is None else float(group.probabilities[i, j])


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def _relevant_to_first_intent(group: TopicGroup, forms: TextForms) -> list[tuple[int, int, int]]:
    passages = [group.passages[column] for column in np.flatnonzero(group.relevance[0] > 0)]
    return [(*_pair_key(group.intents[0]), text_key(text)) for text in forms.format_passages(passages)]


def make_contrast_pairs(
    own: Sequence[TopicGroup], batch: Sequence[TopicGroup], settings: LossSettings, step: int
) -> list[QueryPair]:
    """Own queries with the batch's instructions for block I, own instructions with its queries for block Q."""
    if settings.instructions == "topic":
        return []
    own_pairs, all_pairs, samples = _distinct_pairs(own), _distinct_pairs(batch), settings.instruction_samples
    contrast_pairs: list[QueryPair] = []
    if "I" in settings.blocks:
        instructions = list(dict.fromkeys(instruction for instruction, _ in all_pairs))
        for query in dict.fromkeys(query for _, query in own_pairs):
            contrast_pairs += [(instruction, query) for instruction in _sample(instructions, query, samples, step)]
    if "Q" in settings.blocks:
        queries = list(dict.fromkeys(query for _, query in all_pairs))
        for instruction in dict.fromkeys(instruction for instruction, _ in own_pairs):
            contrast_pairs += [(instruction, query) for query in _sample(queries, instruction, samples, step)]
    return contrast_pairs


def find_negatives(anchors: Ints, keys: BatchKeys, settings: LossSettings) -> dict[Block, BlockNegatives]:
    """For each block of the loss its columns and negatives; `anchors` [R, 2] index into `keys`, those of all workers.

    `duplicates: masked` has a column for every text. These are never negatives: a passage relevant to the anchor's pair
    (or, for a bare query, to this query under any instruction); a pair to which the anchor's passage is relevant; a
    column equal to an earlier one. `kept`, as the equations are printed, has a column for every anchor row of the
    batch, and all but the row's own are negatives.
    """
    if settings.duplicates == "kept":
        return {name: _literal_block(name, anchors, keys) for name in settings.blocks}
    passage_id, pair_id = _class_ids(keys.passages), _class_ids(keys.pairs[:, :2])
    relevant = _relevance(keys, pair_id, passage_id)
    pair, passage = anchors[:, 0], anchors[:, 1]
    instruction, query = keys.pairs[:, 0], keys.pairs[:, 1]
    candidates = _all_but(is_first_occurrence(keys.pairs[:, :2]), relevant.T.tocsr()[passage_id[passage]][:, pair_id])

    def mask_of(block: Block) -> Bools:
        match block:
            case "P":
                return _all_but(is_first_occurrence(keys.passages), relevant[pair_id[pair]][:, passage_id])
            case "I":
                return _only_equal(candidates, query[pair], query)
            case "IQ":
                return candidates & _asked_by_any_worker(keys, pair_id)
            case "Q":
                return _only_equal(candidates, instruction[pair], instruction)

    return {name: BlockNegatives(None, mask_of(name)) for name in settings.blocks}


def _all_but(columns: Bools, hidden: csr_array) -> Bools:
    """These columns in every row, but for the hidden cells, [R, C]."""
    mask = np.repeat(columns[None], hidden.shape[0], axis=0)
    mask[hidden.nonzero()] = False
    return mask


def _only_equal(mask: Bools, rows: Ints, columns: Ints) -> Bools:
    """The mask where the row's key [R] is the column's [C]; other cells, most of a large batch, are not visited."""
    order = np.argsort(columns, kind="stable")
    first, last = (np.searchsorted(columns[order], rows, side) for side in ("left", "right"))
    count = last - first
    row = np.repeat(np.arange(len(rows)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    cells = row, order[np.repeat(first, count) + place]
    equal = np.zeros_like(mask)
    equal[cells] = mask[cells]
    return equal


def _literal_block(name: Block, anchors: Ints, keys: BatchKeys) -> BlockNegatives:
    """Row i, column k as in the printed equations, with the anchors of all workers as columns."""
    instruction, query, passage = keys.relevant.T
    own_keys = keys.pairs[anchors[:, 0]]
    pair_position = {tuple(key): position for position, key in reversed(list(enumerate(keys.pairs[:, :2].tolist())))}
    if name == "P":
        passage_position = {key: position for position, (key,) in reversed(list(enumerate(keys.passages.tolist())))}
        passage_columns = np.array([passage_position[key] for key in passage.tolist()], dtype=np.int64)
        columns = np.tile(passage_columns, (len(anchors), 1))
    else:
        shape = len(anchors), len(instruction)
        instructions = np.broadcast_to(own_keys[:, :1] if name == "Q" else instruction, shape)
        queries = np.broadcast_to(own_keys[:, 1:2] if name == "I" else query, shape)
        pair_keys = np.stack((instructions, queries), 2).reshape(-1, 2).tolist()
        columns = np.array([pair_position[i, q] for i, q in pair_keys], dtype=np.int64).reshape(shape)
    same_pair = (own_keys[:, None, :2] == keys.relevant[:, :2]).all(2)
    is_own_row = same_pair & (keys.passages[anchors[:, 1]] == passage)
    return BlockNegatives(columns, ~is_own_row)


def _asked_by_any_worker(keys: BatchKeys, pair_id: Ints) -> Bools:
    """Which pairs are an intent of some worker's topic, [N]; a contrast pair of one worker may be one of another's."""
    class_is_asked = np.zeros(int(pair_id.max(initial=-1)) + 1, dtype=bool)
    class_is_asked[pair_id[keys.pairs[:, 2] == 1]] = True
    return class_is_asked[pair_id]


def _relevance(keys: BatchKeys, pair_id: Ints, passage_id: Ints) -> csr_array:
    """[unique pairs, unique passages]: known relevant; to a bare query, what is relevant under any instruction."""
    pair_class = {tuple(pair): number for pair, number in zip(keys.pairs[:, :2].tolist(), pair_id, strict=True)}
    passage_class = dict(zip(keys.passages[:, 0].tolist(), passage_id, strict=True))
    cells = [
        (pair_class[pair], passage_class[passage])
        for instruction, query, passage in (*keys.relevant.tolist(), *keys.other_relevant.tolist())
        for pair in ((instruction, query), (0, query))
        if pair in pair_class and passage in passage_class
    ]
    shape = len(set(pair_class.values())), len(set(passage_class.values()))
    return csr_array((np.ones(len(cells), dtype=bool), _table(cells, 2).T), shape=shape)


def is_first_occurrence(keys: Ints) -> Bools:
    """Of every set of equal rows of keys, [rows, parts], the first: [rows] bool."""
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[np.unique(keys, axis=0, return_index=True)[1]] = True
    return is_first


def _class_ids(keys: Ints) -> Ints:
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _pair_key(intent: QueryPair) -> tuple[int, int]:
    return text_key(intent[0]), text_key(intent[1])


def _distinct_pairs(groups: Sequence[TopicGroup]) -> list[QueryPair]:
    return list({_pair_key(intent): intent for group in groups for intent in group.intents}.values())


def _sample(items: list[str], text: str, count: int | None, step: int) -> list[str]:
    if count is None or count >= len(items):
        return items
    generator = np.random.default_rng([step, text_key(text) % 2**63])
    return [items[index] for index in np.sort(generator.choice(len(items), count, replace=False))]


def _positions(table: dict[K, Any]) -> dict[K, int]:
    return {key: position for position, key in enumerate(table)}
