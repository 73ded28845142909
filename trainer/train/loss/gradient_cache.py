"""The gradient of a loss over a whole table of vectors, with the memory of one micro-batch.

    plain     encode all with a graph -> loss -> backward through everything
    cached    encode all without a graph -> loss -> gradient of each vector
              -> encode each micro-batch again, now with a graph, and send its vectors' gradients back

Both run the same micro-batches with the same random numbers, so that dropout drops the same cells; the results differ
by the order of float additions alone. The cache costs one more forward pass. Reference: Gao et al., Scaling Deep
Contrastive Learning Batch Size under Memory Limited Setup, arXiv 2101.06983.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from foil.trainer.model.encoder import Encoder, MicroBatch, restore_order

LossOf = Callable[[Tensor], Tensor]
"""From the table of vectors, [texts, D] or [texts, T, D], to a scalar."""


def backward(
    encoder: Encoder, batches: Sequence[MicroBatch], loss_of: LossOf, *, cached: bool, seeds: Sequence[int]
) -> float:
    """Adds the gradient of `loss_of(vectors)` to the encoder's parameters, and returns the loss.

    `seeds` seed dropout's random numbers, one for each micro-batch.
    """
    with torch.set_grad_enabled(not cached):
        batch_vectors = [_encode(encoder, batch, seed) for batch, seed in zip(batches, seeds, strict=True)]
        vectors = restore_order(batches, batch_vectors) if batches else encoder.encode([], [])
    if cached or not batches:
        vectors.requires_grad_()
    loss = loss_of(vectors)
    torch.autograd.backward(loss)
    if cached:
        assert vectors.grad is not None
        for batch, seed in zip(batches, seeds, strict=True):
            again = _encode(encoder, batch, seed)
            torch.autograd.backward(again, vectors.grad[batch.rows.to(vectors.device), : again.shape[1]])
    return loss.item()


def _encode(encoder: Encoder, batch: MicroBatch, seed: int) -> Tensor:
    with random_numbers(encoder, seed):
        vectors: Tensor = encoder(batch)
    return vectors


@contextmanager
def random_numbers(model: nn.Module, seed: int) -> Iterator[None]:
    """Seeds the random numbers inside; those outside continue as if none had been drawn."""
    device = next(model.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else [], enabled=model.training):
        if model.training:
            torch.manual_seed(seed)
        yield
