"""Shared-prefix packing: a causal decoder computes the common prefix of several texts once, with exact results.

    a group of texts   [I q1] [I q2] [I q3]     I = the longest prefix that all their token lists share
    packed sequence    [I | q1 | q2 | q3]       a suffix attends to I and to itself, causally
    positions           0..  |I|.. |I|.. |I|..  start again behind I

A causal decoder computes the states of I from I alone. So the last state of every suffix is that of its whole text, and
the gradients are those of the texts one by one. A model whose tokens attend to later ones is refused.
Price: attention over a sequence is masked, not skipped, so it grows with the square of `sequence_tokens`.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, takewhile

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from foil.engine.errors import UsageError
from foil.trainer.model.attention import SDPA, SDPA_FLOAT32, attention_of

LENGTH_STEP = 16
"""Padded lengths are multiples of it: the CPU kernels keep memory for every shape."""

PREFIX, PADDING = 0, -1


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Sequences that go through the backbone together: S sequences of T tokens that hold n texts.

    `rows` [n] are the texts' rows in the table of vectors; the last token of each is at `sequence`, `last` [n].
    `ids`, `positions` and `segments` are [S, T]; a segment is 0 for the prefix, k for the k-th suffix, -1 for padding.
    """

    rows: Tensor
    sequence: Tensor
    last: Tensor
    ids: Tensor
    positions: Tensor
    segments: Tensor


@dataclass(frozen=True, slots=True)
class _PackedSequence:
    """Texts `rows` that share their first `start` tokens; `tokens` in all."""

    start: int
    rows: list[int]
    tokens: int


def pack(
    texts: Sequence[Sequence[int]], groups: Sequence[Hashable], *, sequence_tokens: int, batch_tokens: int
) -> list[PackedBatch]:
    """The packed batches of the texts, which are token ids with special tokens, truncated.

    Args:
        texts: the token ids of each text, at least one.
        groups: a key for each text; texts of one key are packed behind their common prefix, however long it is.
        sequence_tokens: a group is split over sequences of at most so many tokens (a single text may exceed it).
        batch_tokens: sequences go together while longest x count stays within it (a single one may exceed it).
    """
    members: dict[Hashable, list[int]] = {}
    for row, (text, group) in enumerate(zip(texts, groups, strict=True)):
        if not text:
            raise UsageError(f"text {row} has no tokens, so it has no last one; leave empty texts out")
        members.setdefault(group, []).append(row)
    sequences = [sequence for rows in members.values() for sequence in _split_group(texts, rows, sequence_tokens)]
    chunks = micro_batches([sequence.tokens for sequence in sequences], batch_tokens)
    return [_batch(texts, [sequences[position] for position in chunk]) for chunk in chunks]


def encode_packed(backbone: PreTrainedModel, batches: Sequence[PackedBatch]) -> Tensor:
    """The last states of all texts of `pack` (one at least), in their order, [texts, D]; differentiable."""
    states = torch.cat([last_states(backbone, batch) for batch in batches])
    return states[torch.cat([batch.rows for batch in batches]).argsort().to(states.device)]


def last_states(backbone: PreTrainedModel, batch: PackedBatch) -> Tensor:
    """The hidden state at each text's last token, after the last layer, [n, D].

    Raises UsageError where a text is longer than the backbone's sliding window, which the mask would ignore.
    `check_packable` must have accepted the backbone.
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
    states: Tensor = output.last_hidden_state[batch.sequence.to(device), batch.last.to(device)]
    return states


def check_packable(backbone: PreTrainedModel) -> None:
    """Refuses a backbone whose packed states differ from those of its texts alone; a small example is computed."""
    name, attention = type(backbone).__name__, attention_of(backbone)
    if attention not in {"eager", SDPA, SDPA_FLOAT32}:
        raise UsageError(f"packing needs a mask that {attention} has no place for; set attention to sdpa or eager")
    if not is_causal(backbone):
        raise UsageError(f"packing needs a causal decoder, and in {name} tokens see later ones; turn packing off")
    texts = [[3, 4, 5, 6, 7, 8], [3, 4, 5, 8], [3, 4, 5, 6, 3]]
    unpacked = torch.cat([_probe(backbone, text)[:, -1] for text in texts])
    try:
        with torch.no_grad(), evaluating(backbone):
            packed = encode_packed(backbone, pack(texts, [0, 0, 0], sequence_tokens=64, batch_tokens=64))
    except (RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"{name} takes no attention mask of our own ({error}); turn packing off") from error
    allowed = torch.finfo(unpacked.dtype).eps ** 0.5 * float(unpacked.abs().max())
    if (distance := float((packed - unpacked).abs().max())) > allowed:
        raise UsageError(
            f"{name} gives other states packed than alone (by {distance:.2g}, allowed {allowed:.2g}): it does not keep "
            "to an attention mask or to position ids of our own; turn packing off"
        )


def is_causal(backbone: PreTrainedModel) -> bool:
    """Whether a change of the last token leaves earlier states unchanged."""
    states, changed_states = _probe(backbone, [3, 4, 5, 6]), _probe(backbone, [3, 4, 5, 7])
    return torch.allclose(states[:, :-1], changed_states[:, :-1], rtol=0, atol=1e-6)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switches to evaluation mode inside, and restores the mode outside."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def micro_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions by falling length, cut so that longest x count stays within `tokens` (a single one may exceed it)."""
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    while order:
        count = max(1, tokens // _padded(lengths[order[0]]))
        yield order[:count]
        order = order[count:]


def _split_group(texts: Sequence[Sequence[int]], group: list[int], sequence_tokens: int) -> Iterator[_PackedSequence]:
    columns = zip(*(texts[row] for row in group), strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    start = min(shared, min(len(texts[row]) for row in group) - 1)
    rows, tokens = [group[0]], len(texts[group[0]])
    for row in group[1:]:
        rest = len(texts[row]) - start
        if tokens + rest > sequence_tokens:
            yield _PackedSequence(start, rows, tokens)
            rows, tokens = [], start
        rows, tokens = [*rows, row], tokens + rest
    yield _PackedSequence(start, rows, tokens)


def _batch(texts: Sequence[Sequence[int]], sequences: list[_PackedSequence]) -> PackedBatch:
    width = _padded(max(sequence.tokens for sequence in sequences))
    token_rows, text_ends = [], []
    for number, sequence in enumerate(sequences):
        prefix = texts[sequence.rows[0]][: sequence.start]
        token_row = [(token, position, PREFIX) for position, token in enumerate(prefix)]
        for segment, row in enumerate(sequence.rows, 1):
            rest = enumerate(texts[row][sequence.start :], sequence.start)
            token_row += [(token, position, segment) for position, token in rest]
            text_ends.append((row, number, len(token_row) - 1))
        token_rows.append(token_row + [(0, 0, PADDING)] * (width - len(token_row)))
    rows, sequence_of, last = torch.tensor(text_ends).T
    ids, positions, segments = torch.tensor(token_rows).permute(2, 0, 1)
    return PackedBatch(rows, sequence_of, last, ids, positions, segments)


def _mask(segments: Tensor, backbone: PreTrainedModel) -> Tensor:
    """The attention mask, [S, 1, T, T]: bool for sdpa, and for eager attention a term added to the scores."""
    attending, attended = segments[:, :, None], segments[:, None, :]
    visible = (((attending == attended) | (attended == PREFIX)).tril())[:, None]
    if attention_of(backbone) in {SDPA, SDPA_FLOAT32}:
        return visible
    lowest = torch.finfo(backbone.dtype).min
    return torch.zeros_like(visible, dtype=backbone.dtype).masked_fill(~visible, lowest)


def _probe(backbone: PreTrainedModel, text: list[int]) -> Tensor:
    ids = torch.tensor([text], device=backbone.device)
    with torch.no_grad(), evaluating(backbone):
        states: Tensor = backbone(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return states


def pad(tokens: Sequence[list[int]], filler: int, side: str) -> dict[str, Tensor]:
    """Token ids as a table filled up on the `left` or `right`, and which cells are tokens, each [texts, T].

    What `tokenizer.pad` gives, which looks at every number several times.
    """
    lengths = np.fromiter(map(len, tokens), dtype=np.int64)[:, None]
    places = np.arange(_padded(int(lengths.max(initial=0))))
    is_token = places < lengths if side == "right" else places >= len(places) - lengths
    ids = np.full(is_token.shape, filler, dtype=np.int64)
    ids[is_token] = np.fromiter(chain.from_iterable(tokens), dtype=np.int64)
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(is_token.astype(np.int64))}


def _padded(tokens: int) -> int:
    return -(-tokens // LENGTH_STEP) * LENGTH_STEP
