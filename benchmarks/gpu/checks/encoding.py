"""Texts a second of Foil's encoder beside sentence-transformers: one model, the same texts, both in bfloat16."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.check import Figures, require_close
from benchmarks.gpu.sizes import ShapeName, Sizes
from benchmarks.gpu.timing import device, seconds
from benchmarks.gpu.world import largest_distance, load, save_model, settings_for, texts
from foil.trainer.model.encoder import Encoder

ALLOWED = 0.01
"""1 - cosine of the two vectors of a text."""
BATCH_TEXTS = 128
"""Texts that sentence-transformers encodes at once: 16,384 tokens of the longest, as many as Foil does on a GPU."""
SHAPES: tuple[ShapeName, ...] = ("minilm", "base")


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """Encoders of MiniLM's and of BERT base's shape."""
    for shape in SHAPES:
        figures = _compare(shape, sizes, folder / shape)
        yield {f"{shape}_{name}": value for name, value in figures.items()}
        require_close("vectors of Foil and of sentence-transformers", figures["largest_distance"], ALLOWED)


def _compare(shape: ShapeName, sizes: Sizes, folder: Path) -> Figures:
    encoder = load(settings_for(save_model(sizes.shapes[shape], folder), sizes)).eval()
    passages = texts(sizes.encoded_texts, sizes.lengths.passage, 0)
    some = passages[: 2 * BATCH_TEXTS]
    farthest = largest_distance(_by_foil(encoder, some), _by_peer(encoder, some))
    ours, theirs = (seconds(partial(way, encoder, passages), 1) for way in (_by_foil, _by_peer))
    speeds = {"foil_texts_per_s": len(passages) / ours, "peer_texts_per_s": len(passages) / theirs}
    return {**speeds, "ratio_encode": theirs / ours, "largest_distance": farthest}


@torch.no_grad()
def _by_foil(encoder: Encoder, passages: list[str]) -> Tensor:
    return encoder.encode(passages, []).cpu()


@torch.no_grad()
def _by_peer(encoder: Encoder, passages: list[str]) -> Tensor:
    with torch.autocast(device(), dtype=torch.bfloat16):
        vectors = encoder.model.encode(
            passages, batch_size=BATCH_TEXTS, convert_to_tensor=True, show_progress_bar=False
        )
    return torch.nn.functional.normalize(vectors.float(), dim=1).cpu()
