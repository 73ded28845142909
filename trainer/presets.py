"""The settings of the published systems, as defaults for a job that names a preset.

    inf_embed          InF-Embed's recommended objective, passages and instructions in one denominator, corrected
    inf_embed_literal  the same as printed: no temperature, duplicates kept, the positive counted in each block, and
                       tuples alone: with rows of bare queries too, a passage would be its own negative
    promptriever       RepLLaMA's choices: LoRA, one positive and 15 others, instruction negatives first
    dual_view          both views of a pair in one batch, 30 hard negatives

Pooling is that of the saved model; for bare weights it is the last token of a decoder, the mean of an encoder. LoRA
takes a decoder's seven projections, and all linear modules of an encoder. Every preset but `inf_embed_literal` trains
on plain rows to retain the base model's abilities; `train.retention` can add a regulariser, or blend with the base.

Not published, and chosen here: InF-Embed's temperature (0.01, since at 1 a cosine cannot rank in a big batch),
Dual-View's temperature, rate and epochs (0.02 is Arctic-Embed's default), all warm-ups but Promptriever's. Sources:
InF-IR (arXiv 2505.21439) section 5 and its appendix; Promptriever appendix E; Dual-View, experimental setup.
"""

from collections.abc import Mapping
from typing import Any, Literal

Preset = Literal["inf_embed", "inf_embed_literal", "promptriever", "dual_view"]

_INF_EMBED: dict[str, Any] = {
    "template": "instruction_query",
    "encode": {"max_tokens": 512, "query_tokens": 256},
    "loss": {"blocks": ["P", "I"], "combine": "multivariate", "instructions": "batch", "temperature": 0.01},
    "distractors": 0,
    "other_queries": True,
    "schedule": {"epochs": 2, "topics_per_batch": 32, "learning_rate": 5e-5, "warmup_steps": 50},
    "retention": {"frozen_embeddings": False},
}

PRESETS: dict[Preset, dict[str, Any]] = {
    "inf_embed": _INF_EMBED,
    "inf_embed_literal": _INF_EMBED
    | {
        "loss": _INF_EMBED["loss"] | {"temperature": 1.0, "duplicates": "kept", "positive_counted": "each_block"},
        "bare_queries": False,
    },
    "promptriever": {
        "template": "query_instruction",
        "encode": {"max_tokens": 256, "query_tokens": 304},
        "model": {"lora": {"rank": 32, "alpha": 64, "dropout": 0.1}, "dropout": True, "gradient_checkpointing": True},
        "loss": {"blocks": ["P"], "temperature": 0.01},
        "distractors": 15,
        "gradient_cache": True,
        "schedule": {
            "epochs": 1, "topics_per_batch": 128, "learning_rate": 1e-4, "warmup_steps": 100, "decay": "linear",
        },
    },
    "dual_view": {
        "template": "query_instruction",
        "encode": {"max_tokens": 512},
        "loss": {"blocks": ["P"], "temperature": 0.02},
        "distractors": 30,
        "gradient_cache": True,
        "schedule": {"epochs": 1, "topics_per_batch": 128, "learning_rate": 5e-5, "warmup_steps": 100},
        "retention": {"frozen_embeddings": False},
    },
}  # fmt: skip


def merge_settings(overrides: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """The preset with the overrides applied, section by section.

    >>> merge_settings({"a": {"x": 1}}, {"a": {"x": 0, "y": 2}, "b": 3})
    {'a': {'x': 1, 'y': 2}, 'b': 3}
    """
    merged = dict(preset)
    for name, value in overrides.items():
        preset_value = merged.get(name)
        if isinstance(value, Mapping) and isinstance(preset_value, Mapping):
            merged[name] = merge_settings(value, preset_value)
        else:
            merged[name] = value
    return merged
