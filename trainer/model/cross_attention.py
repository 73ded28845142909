"""InF-Embed's cross-attention between an instruction and a query that were encoded separately: eq. 4 over tokens.

    instruction_queries   softmax(H_I W_i (H_Q W_q1)^T / sqrt(D)) H_Q W_q2   pooled over the instruction; eq. 4
    query_queries         softmax(H_Q W_q1 (H_I W_i)^T / sqrt(D)) H_I W_q2   pooled over the query

H_I and H_Q are the last hidden states of all tokens. As printed, the equation is over pooled vectors: then there is one
key, its weight is always 1, and the instruction has no effect. Over the rows of a batch, a vector would depend on the
other rows. In the paper's direction the instruction acts through the attention weights only, and the values are the
query's. In the other direction the values are the instruction's, so a residual is needed to keep the query.

All pairs of B instructions and B queries cost 2B encodings and B x B attentions. The matrices begin as identities,
since random ones lose what the encoder has learnt. Reference: Zhuang et al., InF-IR, arXiv 2505.21439, section 5.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import normalize, scaled_dot_product_attention

from foil.engine.atomic_files import read_json, write_json
from foil.engine.errors import CorruptDataError
from foil.trainer.model_settings import AttentionDirection

PoolingMode = Literal["mean", "last"]


class CrossAttention(nn.Module):
    """One head of attention between two encoded texts; a vector for each pair.

    Args:
        dim: D, the width of the hidden states.
        direction: whose tokens are the attention queries, and are pooled over.
        residual: whether the query's own pooled states are added.
        pooling: over these tokens, and over the query's own states: mean, or the last one (decoders).
    """

    def __init__(
        self,
        dim: int,
        direction: AttentionDirection = "instruction_queries",
        residual: bool = False,
        pooling: PoolingMode = "mean",
    ) -> None:
        super().__init__()
        self.facts = {"dim": dim, "direction": direction, "residual": residual, "pooling": pooling}
        self.direction, self.residual, self.pooling = direction, residual, pooling
        self.w_i, self.w_q1, self.w_q2 = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        for matrix in (self.w_i, self.w_q1, self.w_q2):
            nn.init.eye_(matrix.weight)

    def forward(self, instructions: Tensor, instruction_mask: Tensor, queries: Tensor, query_mask: Tensor) -> Tensor:
        """Unit vectors in float32, [B, D]; that of an empty instruction is the query's own.

        Args:
            instructions: hidden states, [B, L_I, D]; L_I may be 0.
            instruction_mask: where they are tokens rather than padding, [B, L_I] bool or 0/1; a row may be all false.
            queries: hidden states, [B, L_Q, D].
            query_mask: as above, [B, L_Q]; every row has a token.
        """
        instruction_mask, query_mask = instruction_mask.bool(), query_mask.bool()
        pooled_query = self._pool(queries, query_mask)
        if not instructions.shape[1]:
            return normalize(pooled_query.float(), dim=1)
        has_instruction = instruction_mask.any(1, keepdim=True)
        instruction_mask = instruction_mask | ~has_instruction
        attending, attended = (instructions, instruction_mask), (queries, query_mask)
        keys, questions = self.w_q1(queries), self.w_i(instructions)
        if self.direction == "query_queries":
            attending, attended, keys, questions = attended, attending, questions, keys
        mixed = scaled_dot_product_attention(questions, keys, self.w_q2(attended[0]), attn_mask=attended[1][:, None])
        pooled = self._pool(mixed, attending[1])
        pooled = pooled + pooled_query if self.residual else pooled
        return normalize(torch.where(has_instruction, pooled, pooled_query).float(), dim=1)

    def save(self, folder: Path) -> None:
        """Writes config.json and model.safetensors into a directory, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", self.facts)
        save_file(self.state_dict(), folder / "model.safetensors")

    @classmethod
    def load(cls, folder: Path) -> CrossAttention:
        """What `save` wrote; CorruptDataError where it does not read."""
        try:
            module = cls(**read_json(folder / "config.json"))
            module.load_state_dict(load_file(folder / "model.safetensors"))
        except (OSError, TypeError, RuntimeError, SafetensorError) as error:
            raise CorruptDataError(f"cross-attention in {folder} does not read ({error}); train it again") from error
        return module

    def _pool(self, states: Tensor, mask: Tensor) -> Tensor:
        if self.pooling == "mean":
            return (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        last = (torch.arange(mask.shape[1], device=mask.device) * mask).argmax(1)
        return states[torch.arange(len(states), device=states.device), last]
