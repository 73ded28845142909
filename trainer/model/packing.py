"""Texts that begin alike through a causal decoder, their common beginning once: exact, and several times cheaper.

    a group of texts   [I q1] [I q2] [I q3]     I = the longest beginning that all their token lists share
    its strip          [I | q1 | q2 | q3]       one row; a rest sees I and itself, causally
    positions           0..  |I|.. |I|.. |I|..  start again behind I

A causal decoder computes the states of I from I alone, whatever follows, so the last state of every rest is that of its
whole text, and gradients are those of the texts one by one. An encoder that looks ahead has no such property, and is
refused. Price: attention over a strip is masked, not skipped, so it grows with the square of `strip_tokens`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.errors import UsageError
from trainer.model.attention import SDPA, SDPA_FLOAT32, attention_of

LENGTH_STEP = 16
"""Padded lengths are multiples of it: the CPU kernels keep memory for every shape that they have seen."""

PREFIX, PADDING = 0, -1


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Strips that go through the backbone together: S strips of T tokens that hold n texts.

    `rows` [n] are the texts' places in the table of vectors; the last token of each stands at `strip`, `last` [n].
    `ids`, `positions` and `segments` are [S, T]; a segment is 0 for the prefix, k for the k-th rest, -1 for padding.
    """

    rows: Tensor
    strip: Tensor
    last: Tensor
    ids: Tensor
    positions: Tensor
    segments: Tensor


@dataclass(frozen=True, slots=True)
class _Strip:
    """Texts `rows` behind the first `start` tokens of any of them; `tokens` in all."""

    start: int
    rows: list[int]
    tokens: int


def pack(
    texts: Sequence[Sequence[int]], groups: Sequence[Hashable], *, strip_tokens: int, batch_tokens: int
) -> list[PackedBatch]:
    """All the work for the texts, which are token ids with special tokens and truncation done.

    Args:
        texts: the token ids of each text, at least one.
        groups: a key for each text; texts of one key share a prefix, as long as it happens to be.
        strip_tokens: a group is split over strips of at most so many tokens (a single text may pass it).
        batch_tokens: strips go together while longest x count stays within it (a single strip may pass it).
    """
    members: dict[Hashable, list[int]] = {}
    for row, (text, group) in enumerate(zip(texts, groups, strict=True)):
        if not text:
            raise UsageError(f"text {row} has no tokens, so it has no last one; leave empty texts out")
        members.setdefault(group, []).append(row)
    strips = [strip for rows in members.values() for strip in _strips(texts, rows, strip_tokens)]
    chunks = micro_batches([strip.tokens for strip in strips], batch_tokens)
    return [_batch(texts, [strips[position] for position in chunk]) for chunk in chunks]


def encode_packed(backbone: PreTrainedModel, batches: Sequence[PackedBatch]) -> Tensor:
    """The last states of all texts of `pack` (one at least), in their order, [texts, D]; differentiable."""
    states = torch.cat([last_states(backbone, batch) for batch in batches])
    return states[torch.cat([batch.rows for batch in batches]).argsort().to(states.device)]


def last_states(backbone: PreTrainedModel, batch: PackedBatch) -> Tensor:
    """The hidden state at each text's last token, after the last layer, [n, D].

    Raises UsageError where a text is longer than the backbone's sliding window, which the mask would ignore.
    Whether the backbone can be used at all is for `check_packable` to say, once.
    """
    longest, config = int(batch.positions.max()) + 1, backbone.config
    window = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None)
    if window and longest > window:
        raise UsageError(
            f"a text of {longest} tokens is longer than the sliding window of {type(backbone).__name__} ({window}), "
            "which packing cannot keep; cut texts shorter, or turn packing off"
        )
    device = backbone.device
    output = backbone(
        input_ids=batch.ids.to(device),
        position_ids=batch.positions.to(device),
        attention_mask=_mask(batch.segments.to(device), backbone),
        use_cache=False,
    )
    states: Tensor = output.last_hidden_state[batch.strip.to(device), batch.last.to(device)]
    return states


def check_packable(backbone: PreTrainedModel) -> None:
    """Refuses a backbone whose packed states are not those of its texts alone; it is tried, not looked up in a list."""
    name, attention = type(backbone).__name__, attention_of(backbone)
    if attention not in {"eager", SDPA, SDPA_FLOAT32}:
        raise UsageError(f"packing needs a mask that {attention} has no place for; set attention to sdpa or eager")
    if not is_causal(backbone):
        raise UsageError(f"packing needs a causal decoder, and in {name} tokens see later ones; turn packing off")
    texts = [[3, 4, 5, 6, 7, 8], [3, 4, 5, 8], [3, 4, 5, 6, 3]]
    alone = torch.cat([_probe(backbone, text)[:, -1] for text in texts])
    try:
        with torch.no_grad(), evaluating(backbone):
            packed = encode_packed(backbone, pack(texts, [0, 0, 0], strip_tokens=64, batch_tokens=64))
    except (RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"{name} takes no attention mask of our own ({error}); turn packing off") from error
    allowed = torch.finfo(alone.dtype).eps ** 0.5 * float(alone.abs().max())
    if (distance := float((packed - alone).abs().max())) > allowed:
        raise UsageError(
            f"{name} gives other states packed than alone (by {distance:.2g}, allowed {allowed:.2g}): it does not keep "
            "to an attention mask or to position ids of our own; turn packing off"
        )


def is_causal(backbone: PreTrainedModel) -> bool:
    """Whether earlier states stay as they are when the last token changes."""
    one, other = _probe(backbone, [3, 4, 5, 6]), _probe(backbone, [3, 4, 5, 7])
    return torch.allclose(one[:, :-1], other[:, :-1], rtol=0, atol=1e-6)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Dropout off inside, and the mode that was there again outside."""
    was = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was)


def micro_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions by falling length, cut so that longest x count stays within `tokens` (a single one may pass it)."""
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    while order:
        count = max(1, tokens // _padded(lengths[order[0]]))
        yield order[:count]
        order = order[count:]


def _strips(texts: Sequence[Sequence[int]], group: list[int], strip_tokens: int) -> Iterator[_Strip]:
    columns = zip(*(texts[row] for row in group), strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    start = min(shared, min(len(texts[row]) for row in group) - 1)
    rows, tokens = [group[0]], len(texts[group[0]])
    for row in group[1:]:
        rest = len(texts[row]) - start
        if tokens + rest > strip_tokens:
            yield _Strip(start, rows, tokens)
            rows, tokens = [], start
        rows, tokens = [*rows, row], tokens + rest
    yield _Strip(start, rows, tokens)


def _batch(texts: Sequence[Sequence[int]], strips: list[_Strip]) -> PackedBatch:
    width = _padded(max(strip.tokens for strip in strips))
    lines, places = [], []
    for number, strip in enumerate(strips):
        prefix = texts[strip.rows[0]][: strip.start]
        line = [(token, position, PREFIX) for position, token in enumerate(prefix)]
        for segment, row in enumerate(strip.rows, 1):
            rest = enumerate(texts[row][strip.start :], strip.start)
            line += [(token, position, segment) for position, token in rest]
            places.append((row, number, len(line) - 1))
        lines.append(line + [(0, 0, PADDING)] * (width - len(line)))
    rows, strip_of, last = torch.tensor(places).T
    ids, positions, segments = torch.tensor(lines).permute(2, 0, 1)
    return PackedBatch(rows, strip_of, last, ids, positions, segments)


def _mask(segments: Tensor, backbone: PreTrainedModel) -> Tensor:
    """Who sees whom, [S, 1, T, T]: bool for sdpa, and for eager attention what is added to the scores."""
    own, seen = segments[:, :, None], segments[:, None, :]
    visible = (((own == seen) | (seen == PREFIX)).tril())[:, None]
    if attention_of(backbone) in {SDPA, SDPA_FLOAT32}:
        return visible
    hidden = torch.finfo(backbone.dtype).min
    return torch.zeros_like(visible, dtype=backbone.dtype).masked_fill(~visible, hidden)


def _probe(backbone: PreTrainedModel, text: list[int]) -> Tensor:
    ids = torch.tensor([text], device=backbone.device)
    with torch.no_grad(), evaluating(backbone):
        states: Tensor = backbone(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return states


def _padded(tokens: int) -> int:
    return -(-tokens // LENGTH_STEP) * LENGTH_STEP
