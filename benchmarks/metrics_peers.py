"""Ranking measures beside pytrec_eval, mteb and ranx: seconds and memory on the same dictionaries, a process each.

    python -m benchmarks.metrics_peers [--queries 10000] [--rounds 3] [--quick] [--json] [--ranx PYTHON]

Each process makes the same runs (1,000 documents a query), measures nDCG@10, AP, RR and Recall@1000 and says how long
that took and by how much memory rose at its peak. mteb works out more with them (precision, hit rate, abstention), and
has no switch for that. What a library compiles at its first call is compiled before. `--ranx`: a Python that has ranx,
which is none of Foil's own; a peer that is not installed is left out.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.made_runs import made_benchmark

PEERS = ("foil", "pytrec_eval", "mteb", "ranx")
STATUS, CLEAR, RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs"), "5"
QUICK, DISTINCT_SCORES = 1_000, 1 << 24
Work = Callable[[list[Any], dict[str, Any], dict[str, Any]], dict[str, float]]


def foil(queries: list[Any], qrels: dict[str, Any], run: dict[str, Any]) -> dict[str, float]:
    from foil.trainer.evaluate.measures.catalog import measure_all, measure_named

    values_of = measure_all([measure_named(name) for name in ("nDCG@10", "AP", "RR", "R@1000")], queries, qrels, run)
    return {name: statistics.fmean(values.values()) for name, values in values_of.items()}


def pytrec_eval(_: list[Any], qrels: dict[str, Any], run: dict[str, Any]) -> dict[str, float]:
    import pytrec_eval as library

    names = {"ndcg_cut.10": "nDCG@10", "map": "AP", "recip_rank": "RR", "recall.1000": "R@1000"}
    rows = library.RelevanceEvaluator(qrels, set(names)).evaluate(run).values()
    return {ours: statistics.fmean(row[name.replace(".", "_")] for row in rows) for name, ours in names.items()}


def mteb(_: list[Any], qrels: dict[str, Any], run: dict[str, Any]) -> dict[str, float]:
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores

    scores = calculate_retrieval_scores(run, qrels, [10, 1000])
    return {"nDCG@10": scores.ndcg["NDCG@10"], "AP": scores.map["MAP@1000"], "R@1000": scores.recall["Recall@1000"]}


def ranx(_: list[Any], qrels: dict[str, Any], run: dict[str, Any]) -> dict[str, float]:
    from ranx import Qrels, Run, evaluate

    names = {"ndcg@10": "nDCG@10", "map": "AP", "mrr": "RR", "recall@1000": "R@1000"}
    scores = evaluate(Qrels(qrels), Run(run), list(names))
    return {ours: float(scores[name]) for name, ours in names.items()}


WORKS: dict[str, Work] = {"foil": foil, "pytrec_eval": pytrec_eval, "mteb": mteb, "ranx": ranx}


def measured(peer: str, count: int, rounds: int) -> dict[str, Any]:
    """The child's part: the median seconds, the rise of the peak memory in MB, and the means."""
    work = WORKS[peer]
    work(*made_benchmark(8, DISTINCT_SCORES))
    benchmark = made_benchmark(count, DISTINCT_SCORES)
    CLEAR.write_text(RESET_PEAK)
    before, timings, means = _peak_mb(), [], dict[str, float]()
    for _ in range(rounds):
        began = time.perf_counter()
        means = work(*benchmark)
        timings.append(time.perf_counter() - began)
    return {"seconds": statistics.median(timings), "mb": _peak_mb() - before, "means": means}


def _peak_mb() -> float:
    [line] = [line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def compare(count: int, rounds: int, python_of: dict[str, str]) -> dict[str, Any]:
    """What each installed peer says of itself; AssertionError where means differ."""
    results: dict[str, Any] = {}
    for peer in PEERS:
        command = [python_of.get(peer, sys.executable), "-m", "benchmarks.metrics_peers", "--peer", peer,
                   "--queries", str(count), "--rounds", str(rounds)]  # fmt: skip
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        if child.returncode:
            print(f"{peer} is left out: {child.stderr.strip().splitlines()[-1]}")
            continue
        results[peer] = json.loads(child.stdout.splitlines()[-1])
    for peer, result in results.items():
        for name, mean in result.pop("means").items():
            ours = results["foil"].setdefault("values", {}).setdefault(name, mean)
            assert abs(mean - ours) < 1e-5, f"{peer} has {mean} for {name}, and Foil {ours}"
        result["ratio_seconds"] = result["seconds"] / results["foil"]["seconds"]
    del results["foil"]["values"]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} queries, one round")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--ranx", default="", metavar="PYTHON", help="a Python that has ranx")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(measured(options.peer, options.queries, options.rounds)))
        return
    count, rounds = (QUICK, 1) if options.quick else (options.queries, options.rounds)
    results = compare(count, rounds, {"ranx": options.ranx} if options.ranx else {})
    for peer, result in results.items():
        print(f"{peer:12} {result['seconds']:8.2f} s  {result['ratio_seconds']:6.2f} x  {result['mb']:8.0f} MB more")
    if options.json:
        print(json.dumps({f"{peer}_{name}": value for peer, each in results.items() for name, value in each.items()}))


if __name__ == "__main__":
    main()
