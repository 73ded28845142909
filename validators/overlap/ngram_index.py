"""Finds which texts share a run of words with which items of a fixed set: the matcher behind `contamination`.

    texts -> hash of all_hashes run of 1..N words -> a bit filter -> sorted hashes of the items' runs
          -> runs joined along one item -> compared word by word -> hits

Promise: exact. Hashes only propose; what is reported was compared word for word, and what the naive matcher finds is
found (property-tested). Price: for each run of words in the items 4 to 8 bytes of filter, 12 of table and their text;
about 10 ns for each byte scanned. Words are those of `word_runs`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foil.engine.atomic_files import publish_folder
from foil.validators.overlap.word_runs import (
    Hashes,
    Positions,
    WordBatch,
    batches,
    hash_runs,
    normalise,
    ranges,
    read_batch,
)

_BLOCK_WORDS = 1 << 15  # bounds the table of runs where one text is longer than a batch
_FILTER_BITS = 32  # a run in the items
_SHARED = 32  # items looked at for one run of words that many items share


class Item(NamedTuple):
    """One string of an evaluation set: the set's name (no control characters), the item's id there, its text."""

    source: str
    id: str
    text: str


class Hit(NamedTuple):
    """Text number `text` shares `words` words, `span`, with an item of `item_words` words."""

    text: int
    source: str
    item: str
    span: str
    words: int
    item_words: int


class _Runs(NamedTuple):
    """Runs of the texts of a batch: parallel arrays."""

    hashes: Hashes
    start: Positions  # word of the batch where the run begins
    words: Positions  # length of the run

    def take(self, rows: Positions) -> _Runs:
        """The runs at these rows."""
        return _Runs(self.hashes[rows], self.start[rows], self.words[rows])


class _Matches(NamedTuple):
    """Runs of texts whose hash is that of a run of an item: parallel arrays."""

    text: Positions
    item: Positions
    text_start: Positions  # word of the text where the run begins
    item_start: Positions  # word of the item where it begins
    words: Positions  # length of the run


@dataclass(frozen=True, slots=True)
class NgramIndex:
    """Items of N words or more by all their runs of N words, shorter items by their whole. Memory-mapped when loaded.

    `hashes` of all runs, sorted; `order`: their numbers, counted item by item; `first_run`: the number of each item's
    first run; `short_bits`, `long_bits`: filters for runs of under N words and of N; then the items' words, and names.
    """

    longest: int
    hashes: Hashes
    order: NDArray[np.int32]
    first_run: Positions
    short_bits: NDArray[np.uint8]
    long_bits: NDArray[np.uint8]
    text: NDArray[np.uint8]
    text_begins: Positions
    names: NDArray[np.uint8]
    names_begin: Positions

    @staticmethod
    def build(items: Sequence[Item], longest: int) -> NgramIndex:
        """Index the items; `longest` is N, the words of a run that counts as overlap."""
        texts = [b" ".join(normalise(item.text).split()) for item in items]
        hashes, counts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for raws in batches(texts):
            batch = read_batch(raws)
            hashes.append(_item_runs(batch, longest))
            counts.append(batch.counts)
        all_hashes, words = np.concatenate(hashes), np.concatenate(counts)
        order = np.argsort(all_hashes, kind="stable").astype(np.int32)
        runs = _runs_in(words, longest)
        first_run = np.cumsum(np.concatenate([[0], runs]), dtype=np.int64)
        is_long = np.repeat(words >= longest, runs)
        bits = (_filter(all_hashes[~is_long]), _filter(all_hashes[is_long]))
        names = [f"{item.source}\x1f{item.id}".encode("utf-8", "surrogatepass") for item in items]
        return NgramIndex(longest, all_hashes[order], order, first_run, *bits, *_packed(texts), *_packed(names))

    def save(self, folder: Path) -> None:
        """Write each array as a .npy file of `folder`; a folder that another process wrote first stays."""

        def write(draft: Path) -> None:
            for name, value in self._arrays().items():
                np.save(draft / f"{name}.npy", value)

        publish_folder(folder, write)

    @staticmethod
    def load(folder: Path) -> NgramIndex:
        """Map the arrays of a saved index; its pages are shared by all processes of a machine."""
        arrays = [np.load(folder / f"{field.name}.npy", mmap_mode="r") for field in fields(NgramIndex)]
        return NgramIndex(int(arrays[0]), *arrays[1:])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(value.nbytes for value in self._arrays().values())

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    def find(self, texts: Sequence[str], least_words: Sequence[int]) -> list[Hit]:
        """One hit, the longest shared run, for each text and item that match; by text, then by item.

        They match where they share N words in a row; where the text holds the whole of a shorter item of at least
        `least_words` words (one number a text); or where all words of the text are all words of the item. Of a run of
        words that more than 32 items share, the first 32 items are seen.
        """
        hits: list[Hit] = []
        if not self.hashes.size:
            return hits
        begin = 0
        for raws in batches(map(normalise, texts)):
            batch = read_batch(raws)
            least = np.minimum(least_words[begin : begin + len(raws)], self.longest)
            runs = self._indexed(self._candidates(batch, int(least.min())))
            if runs.hashes.size:
                matches = self._items_of(runs, batch, least)
                hits += (hit._replace(text=begin + hit.text) for hit in self._confirmed(raws, matches))
            begin += len(raws)
        return hits

    def _candidates(self, batch: WordBatch, least: int) -> _Runs:
        """The runs of `least` to N words that pass the filter, and the shorter texts as one run each."""
        whole = ((batch.counts < least) & (batch.counts > 0)).nonzero()[0]
        parts = []
        for begin in range(0, len(batch.hashes), _BLOCK_WORDS):
            width = min(_BLOCK_WORDS, len(batch.hashes) - begin)
            runs = hash_runs(batch.hashes[begin:], width, self.longest)
            parts.append(_passing(self.short_bits, runs[:-1], begin, least))
            parts.append(_passing(self.long_bits, runs, begin, self.longest))
            in_block = whole[(batch.first[whole] >= begin) & (batch.first[whole] < begin + width)]
            start, words = batch.first[in_block], batch.counts[in_block]
            parts.append(_Runs(runs[words - 1, start - begin], start, words))
        hashes, start, words = map(np.concatenate, zip(*parts, strict=True))
        return _Runs(hashes, start, words)

    def _indexed(self, runs: _Runs) -> _Runs:
        """Those whose hash is that of a run of an item."""
        runs = runs.take(runs.hashes.argsort())  # neighbours in the search share the cache
        position = self.hashes.searchsorted(runs.hashes)
        return runs.take((self.hashes.take(position, mode="clip") == runs.hashes).nonzero()[0])

    def _items_of(self, runs: _Runs, batch: WordBatch, least: Positions) -> _Matches:
        """Each run that counts in its text, with the runs of items (at most `_SHARED`) that have its hash."""
        text = batch.first.searchsorted(runs.start, "right") - 1
        counts = ((runs.words >= least[text]) | (runs.words == batch.counts[text])).nonzero()[0]
        text, runs = text[counts], runs.take(counts)
        begin = self.hashes.searchsorted(runs.hashes)
        shared = np.minimum(self.hashes.searchsorted(runs.hashes, "right") - begin, _SHARED)
        number = self.order[np.repeat(begin, shared) + ranges(shared)]
        item = self.first_run.searchsorted(number, "right") - 1
        columns = (text, runs.start - batch.first[text], runs.words)
        text, start, words = (np.repeat(column, shared) for column in columns)
        return _Matches(text, item, start, number - self.first_run[item], words)

    def _confirmed(self, raws: Sequence[bytes], matches: _Matches) -> Iterator[Hit]:
        """The longest run of each text and item that agrees word for word."""
        words_of_text = functools.cache(lambda text: raws[text].split())
        words_of_item = functools.cache(self._words)
        best: dict[tuple[int, int], list[bytes]] = {}
        for text, item, start, item_start, words in _joined(matches):
            in_text = words_of_text(text)[start : start + words]
            in_item = words_of_item(item)[item_start : item_start + words]
            best[text, item] = max(best.get((text, item), []), _agreed(in_text, in_item, self.longest), key=len)
        for (text, item), span in best.items():
            if span:
                span_text = b" ".join(span).decode("utf-8", "surrogatepass")
                source, name = self._name(item)
                yield Hit(text, source, name, span_text, len(span), len(words_of_item(item)))

    def _words(self, item: int) -> list[bytes]:
        return self.text[self.text_begins[item] : self.text_begins[item + 1]].tobytes().split()

    def _name(self, item: int) -> list[str]:
        encoded = self.names[self.names_begin[item] : self.names_begin[item + 1]].tobytes()
        return encoded.decode("utf-8", "surrogatepass").split("\x1f", 1)


def _passing(bits: NDArray[np.uint8], runs: Hashes, begin: int, least: int) -> _Runs:
    """Of `runs` [N, width], those of `least` words and more that pass the filter; `begin` numbers the first word."""
    hashes = runs[least - 1 :]
    flat = ((bits[_byte(hashes, len(bits))] & _bit(hashes)) != 0).ravel().nonzero()[0]
    row, column = np.divmod(flat, runs.shape[1])
    return _Runs(hashes[row, column], column + begin, row + least)


def _joined(matches: _Matches) -> Iterator[tuple[int, int, int, int, int]]:
    """Overlapping runs along one text and one item as one: text, item, first word in each, words."""
    offset = matches.text_start - matches.item_start
    order = np.lexsort((matches.text_start, offset, matches.item, matches.text))
    text, item, start, offset = (column[order] for column in (matches.text, matches.item, matches.text_start, offset))
    goes_on = (np.diff(text) == 0) & (np.diff(item) == 0) & (np.diff(offset) == 0) & (np.diff(start) == 1)
    begins = np.flatnonzero(np.concatenate([np.ones(min(1, len(text)), bool), ~goes_on]))
    extra = np.diff(np.concatenate([begins, [len(text)]])) - 1
    for row, more in zip(begins.tolist(), extra.tolist(), strict=True):
        words = int(matches.words[order[row]]) + more
        yield int(text[row]), int(item[row]), int(start[row]), int(start[row] - offset[row]), words


def _agreed(first: list[bytes], second: list[bytes], longest: int) -> list[bytes]:
    """The words that both share: all, or after a hash collision the first run that is equal."""
    if first == second:
        return first
    runs = (slice(start, start + longest) for start in range(len(first) - longest + 1))
    return next((first[run] for run in runs if first[run] == second[run]), [])


def _runs_in(words: Positions, longest: int) -> Positions:
    """How many runs an item of so many words has: one for each N words in a row, or its whole."""
    return np.where(words, words - np.minimum(words, longest) + 1, 0)


def _item_runs(batch: WordBatch, longest: int) -> Hashes:
    """The hashes of the runs of a batch of items, item by item."""
    count = _runs_in(batch.counts, longest)
    rows = np.repeat(np.minimum(batch.counts, longest) - 1, count)
    runs = hash_runs(batch.hashes, len(batch.hashes), longest)
    chosen: Hashes = runs[rows, np.repeat(batch.first, count) + ranges(count)]
    return chosen


def _packed(strings: Sequence[bytes]) -> tuple[NDArray[np.uint8], Positions]:
    """The strings as one array of bytes, and where each begins (the end last)."""
    return np.frombuffer(b"".join(strings), np.uint8), np.cumsum([0, *map(len, strings)], dtype=np.int64)


def _filter(hashes: Hashes) -> NDArray[np.uint8]:
    """A bit set for each hash, in a table of at least `_FILTER_BITS` bits a hash; its length is a power of two."""
    table = np.zeros(max(8, 1 << (len(hashes) * _FILTER_BITS // 8).bit_length()), np.uint8)
    np.bitwise_or.at(table, _byte(hashes, len(table)), _bit(hashes))
    return table


def _byte(hashes: Hashes, size: int) -> Hashes:
    return hashes >> np.uint64(65 - size.bit_length())


def _bit(hashes: Hashes) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (hashes & np.uint64(7)).astype(np.uint8))
