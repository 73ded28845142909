"""The kinds of attention that transformers offers, through one encoder: time forward and backward, and the vectors."""

import importlib.util
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from benchmarks.gpu.check import Figures, require_close
from benchmarks.gpu.sizes import Sizes
from benchmarks.gpu.timing import forget_peak, peak_memory, seconds
from benchmarks.gpu.world import largest_distance, load, save_model, settings_for, texts
from foil.trainer.model.encoder import Encoder, MicroBatch
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings

Attention = Literal["eager", "sdpa", "flash_attention_2"]

KINDS: tuple[Attention, ...] = ("eager", "sdpa", "flash_attention_2")
FLASH = "flash_attn"
"""The package of the third; without it, that one is left out."""
ALLOWED = 0.01
"""1 - cosine of two vectors of a text in bfloat16."""


def check(sizes: Sizes, folder: Path) -> Iterator[Figures]:
    """An encoder of BERT base's shape, on as many texts of one length as a micro-batch holds."""
    path = save_model(sizes.shapes["base"], folder / "model")
    yield {"sdpa_backends": _backends()}
    if importlib.util.find_spec(FLASH) is None:
        yield {FLASH: "skipped: it is not installed"}
    vectors: dict[int, Tensor] = {}
    for kind, length in product(KINDS, sizes.attention_lengths):
        if kind != "flash_attention_2" or importlib.util.find_spec(FLASH):
            figures, found = _measure(kind, length, path, sizes)
            distance = largest_distance(vectors.setdefault(length, found), found)
            yield figures | {f"{kind}_{length}_distance": distance}
            require_close(f"vectors of {kind} and {KINDS[0]}", distance, ALLOWED)


def _measure(kind: Attention, length: int, path: Path, sizes: Sizes) -> tuple[Figures, Tensor]:
    """Seconds and peak memory, and the vectors of the texts."""
    encode = EncodeSettings(max_tokens=length, micro_batch_tokens=sizes.attention_tokens)
    encoder = load(settings_for(path, sizes, encode=encode, model=ModelSettings(attention=kind)))
    batches = encoder.micro_batches(texts(sizes.attention_tokens // length, 2 * length, 0), [])
    forget_peak()
    spent = seconds(lambda: _train(encoder, batches), sizes.repeats)
    figures = {f"{kind}_{length}_s": spent, f"{kind}_{length}_peak_gib": peak_memory() / 2**30}
    with torch.no_grad():
        return figures, torch.cat([encoder(batch) for batch in batches]).cpu()


def _train(encoder: Encoder, batches: list[MicroBatch]) -> None:
    for batch in batches:
        torch.autograd.backward(encoder(batch).sum())


def _backends() -> dict[str, bool]:
    """Which kernels torch may choose for scaled dot products on a GPU."""
    cuda = torch.backends.cuda
    return {
        "flash": cuda.flash_sdp_enabled(),
        "memory_efficient": cuda.mem_efficient_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
    }
