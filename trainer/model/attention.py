"""The attention of a backbone, and one more kind for CPUs: torch's own, with its products in float32.

Under bfloat16 autocast torch 2.13 computes the backward pass of scaled dot products on a CPU in bfloat16, 2 to 7 times
slower than in float32 (the less, the longer the texts); forward they take the same time
(lab/2026-11-22-training-speed.md).
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

SDPA = "sdpa"
SDPA_FLOAT32 = "sdpa_float32"


def attention_of(backbone: PreTrainedModel) -> str:
    """The name that transformers has for it: eager, sdpa, flash_attention_2, or our own `sdpa_float32`."""
    return str(backbone.config._attn_implementation)  # noqa: SLF001 - transformers has no public name for it


def attend_in_float32(backbone: PreTrainedModel) -> None:
    """Makes a backbone that uses torch's scaled dot products compute them in float32; others do not change."""
    if attention_of(backbone) == SDPA:
        backbone.set_attn_implementation(SDPA_FLOAT32)


def _sdpa_float32(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    with torch.autocast(query.device.type, enabled=False):
        states, _ = sdpa_attention_forward(module, query.float(), key.float(), value.float(), mask, **options)
    return states.to(query.dtype), None


AttentionInterface.register(SDPA_FLOAT32, _sdpa_float32)
AttentionMaskInterface.register(SDPA_FLOAT32, sdpa_mask)
