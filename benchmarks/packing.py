"""What shared-prefix packing saves: all pairs of B instructions and B queries through a causal decoder.

Naive encodes each whole text (48 + 12 tokens, none of them padding), packed puts an instruction's queries behind it
once; same random decoder, same micro-batch tokens, one thread. `ratio_tokens` is what the tokens alone would give;
`ratio_forward` and `ratio_training` are of CPU seconds, the medians of rounds in which the two take turns.

    .venv/bin/python -m benchmarks.packing [--instructions 12] [--queries 12] [--layers 4] [--hidden 256]
        [--quick] [--json]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaModel

from foil.trainer.model.packing import check_packable, encode_packed, pack

INSTRUCTION_TOKENS, QUERY_TOKENS = 48, 12
VOCABULARY = 1000
BATCH_TOKENS = 4096


def decoder(hidden: int, layers: int) -> LlamaModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=8, initializer_range=0.1,
    )  # fmt: skip
    model = LlamaModel(config).eval()
    check_packable(model)
    return model


def pairs(instructions: int, queries: int) -> tuple[list[list[int]], list[int]]:
    """The token ids of every instruction in front of every query, and which instruction it is."""
    draw = torch.Generator().manual_seed(0)

    def sample(tokens: int) -> list[int]:
        return torch.randint(VOCABULARY, (tokens,), generator=draw).tolist()

    fronts = [sample(INSTRUCTION_TOKENS) for _ in range(instructions)]
    ends = [sample(QUERY_TOKENS) for _ in range(queries)]
    return [front + end for front in fronts for end in ends], [n for n in range(instructions) for _ in ends]


def naive(model: LlamaModel, texts: list[list[int]]) -> Tensor:
    size = BATCH_TOKENS // len(texts[0])
    chunks = [torch.tensor(texts[start : start + size]) for start in range(0, len(texts), size)]
    return torch.cat([model(input_ids=chunk, use_cache=False).last_hidden_state[:, -1] for chunk in chunks])


def packed(model: LlamaModel, texts: list[list[int]], groups: list[int]) -> Tensor:
    return encode_packed(model, pack(texts, groups, sequence_tokens=BATCH_TOKENS, batch_tokens=BATCH_TOKENS))


def train(encode: Callable[[], Tensor]) -> None:
    encode().square().sum().backward()


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median CPU seconds of each way, over rounds in which they take turns."""
    for work in ways.values():
        work()
    timings = [{name: seconds(work) for name, work in ways.items()} for _ in range(rounds)]
    return {name: statistics.median(timing[name] for timing in timings) for name in ways}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instructions", type=int, default=12)
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 7")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = decoder(options.hidden, options.layers)
    texts, groups = pairs(options.instructions, options.queries)
    ways: dict[str, Callable[[], Tensor]] = {
        "naive": lambda: naive(model, texts),
        "packed": lambda: packed(model, texts, groups),
    }
    rounds = 3 if options.quick else 7
    with torch.no_grad():
        difference = float((ways["naive"]() - ways["packed"]()).abs().max())
        forward = compare(ways, rounds)
    training = compare({name: partial(train, way) for name, way in ways.items()}, rounds)
    batches = pack(texts, groups, sequence_tokens=BATCH_TOKENS, batch_tokens=BATCH_TOKENS)
    tokens = {"naive": sum(map(len, texts)), "packed": sum(batch.ids.numel() for batch in batches)}
    results = {
        "texts": len(texts),
        "tokens": tokens,
        "forward_s": forward,
        "training_s": training,
        "largest_difference": difference,
        "ratio_tokens": tokens["naive"] / tokens["packed"],
        "ratio_forward": forward["naive"] / forward["packed"],
        "ratio_training": training["naive"] / training["packed"],
    }
    for name, value in results.items():
        print(f"{name:20} {value}")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
