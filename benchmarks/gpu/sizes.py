"""How large the checks are: `FULL` fills an H100 for some minutes, `SMALL` takes seconds on one core."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ShapeName = Literal["minilm", "base", "decoder"]
JobName = Literal["embed_300m", "embed_600m", "embed_4b"]
"""Files of examples/jobs."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer of random weights: a causal decoder of Qwen3's kind where it has `kv_heads`, else a BERT.

    `both_ways`: a decoder of Gemma 3's kind whose tokens see those behind them too, as EmbeddingGemma's.
    """

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int = 30_522
    positions: int = 512
    kv_heads: int = 0
    head_width: int = 0
    both_ways: bool = False


@dataclass(frozen=True, slots=True)
class Lengths:
    """Words, that is tokens, of the texts of a topic; a text has between half of them and all."""

    query: int = 12
    instruction: int = 24
    passage: int = 120


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a real run and a rehearsal differ in.

    0 stands for what suits the device (`matrix`, `micro_batch_tokens`) or for the job's own (`job_topics`).
    """

    shapes: Mapping[ShapeName, Shape]
    lengths: Lengths = Lengths()
    matrix: int = 0
    micro_batch_tokens: int = 0
    train_topics: Mapping[ShapeName, int] = field(default_factory=dict)
    train_s: float = 8.0
    cache_topics: int = 8_192
    whole_topics: int = 128
    packed_instructions: int = 32
    packed_queries: int = 32
    attention_tokens: int = 16_384
    attention_lengths: tuple[int, ...] = (128, 512)
    repeats: int = 5
    encoded_texts: int = 20_000
    generated_requests: int = 256
    generated_tokens: int = 128
    job_shapes: Mapping[JobName, Shape] = field(default_factory=dict)
    job_lengths: Lengths = Lengths(instruction=48, passage=480)
    job_topics: int = 0


FULL = Sizes(
    shapes={
        "minilm": Shape(width=384, layers=6, heads=12, inner=1536),
        "base": Shape(width=768, layers=12, heads=12, inner=3072),
        # Qwen3-0.6B's config.json: 28 layers, 16 heads and 8 for keys of width 128, vocabulary of 151,936
        "decoder": Shape(1024, 28, 16, 3072, vocabulary=151_936, positions=32_768, kv_heads=8, head_width=128),
    },
    train_topics={"minilm": 512, "base": 256, "decoder": 48},
    job_shapes={  # config.json of embeddinggemma-300m (but for its two dense layers), Qwen3-0.6B and Qwen3-4B
        "embed_300m": Shape(768, 24, 3, 1152, 262_144, 2_048, kv_heads=1, head_width=256, both_ways=True),
        "embed_600m": Shape(1024, 28, 16, 3072, 151_936, 32_768, kv_heads=8, head_width=128),
        "embed_4b": Shape(2560, 36, 32, 9728, 151_936, 32_768, kv_heads=8, head_width=128),
    },
)
_TINY = Shape(width=32, layers=2, heads=2, inner=64, vocabulary=2_000)
SMALL = Sizes(
    shapes={
        "minilm": _TINY,
        "base": _TINY,
        "decoder": Shape(32, 2, 2, 64, vocabulary=2_000, kv_heads=1, head_width=16),
    },
    lengths=Lengths(query=6, instruction=8, passage=20),
    matrix=256,
    micro_batch_tokens=256,
    train_topics={"minilm": 8, "base": 8, "decoder": 8},
    train_s=0.2,
    cache_topics=48,
    whole_topics=8,
    packed_instructions=4,
    packed_queries=4,
    attention_tokens=256,
    attention_lengths=(16, 64),
    repeats=1,
    encoded_texts=64,
    generated_requests=2,
    generated_tokens=8,
    job_shapes={
        "embed_300m": Shape(32, 2, 2, 64, 2_000, kv_heads=1, head_width=16, both_ways=True),
        "embed_600m": Shape(32, 2, 2, 64, 2_000, kv_heads=1, head_width=16),
        "embed_4b": Shape(32, 2, 2, 64, 2_000, kv_heads=1, head_width=16),
    },
    job_lengths=Lengths(query=6, instruction=8, passage=20),
    job_topics=4,
)
