"""What metrics cost. Of requests: microseconds, served to Prometheus and not, in one process, interleaved. Of ranked
lists: seconds of all ranking measures, beside pytrec_eval on the same dictionaries, and of each paired measure.

    python -m benchmarks.metrics [--quick] [--json] [--only requests|measures]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import pytrec_eval

from benchmarks.peers.made_runs import made_benchmark
from foil.engine.models.pacing import Endpoint
from foil.engine.telemetry.metrics import REQUESTS_IN_FLIGHT
from foil.engine.telemetry.prometheus import serve_metrics
from foil.trainer.evaluate.measures.catalog import measure_all, measure_named

ANY_PORT = 0
RANKING = {"nDCG@10": "ndcg_cut.10", "AP": "map", "RR": "recip_rank", "R@1000": "recall.1000"}
PAIRED = ("p-MRR", "SICR", "WISE", "ideal WISE", "Robustness@10", "both views")


def us_a_request(requests: int) -> float:
    """Microseconds of all that a request records from its send to its end."""
    endpoint = Endpoint("benchmark", 1, 64, None, None, label="1a2b3c4d")
    began = time.perf_counter()
    for _ in range(requests):
        REQUESTS_IN_FLIGHT.record(1, endpoint.label)
        endpoint.record_end("worked", 0.3)
    return (time.perf_counter() - began) / requests * 1e6


def request_costs(requests: int) -> dict[str, float]:
    off, on = [], []
    for _ in range(5):
        off.append(us_a_request(requests))
        with serve_metrics("127.0.0.1", ANY_PORT, "bench"):
            on.append(us_a_request(requests))
    figures = {"off_us_a_request": statistics.median(off), "on_us_a_request": statistics.median(on)}
    return {**figures, "ratio_on_off": figures["on_us_a_request"] / figures["off_us_a_request"]}


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure_costs(count: int, rounds: int) -> dict[str, float]:
    """Medians over interleaved rounds: ours and pytrec_eval's, without ties and with many."""
    return {**one_kind("no_ties", count, 1 << 24, rounds), **one_kind("ties", count, 50, rounds)}


def one_kind(kind: str, count: int, distinct_scores: int, rounds: int) -> dict[str, float]:
    queries, qrels, run = made_benchmark(count, distinct_scores)
    ranking = [measure_named(name) for name in RANKING]
    oracle = pytrec_eval.RelevanceEvaluator(qrels, set(RANKING.values()))
    rows = [
        (
            seconds(lambda: measure_all(ranking, queries, qrels, run)),
            seconds(lambda: [measure.values(queries, qrels, run) for measure in ranking]),
            seconds(lambda: oracle.evaluate(run)),
        )
        for _ in range(rounds)
    ]
    together, apart, peer = (statistics.median(column) for column in zip(*rows, strict=True))
    figures = {f"{kind}_all_four_s": together, f"{kind}_one_by_one_s": apart, f"{kind}_pytrec_eval_s": peer}
    figures[f"ratio_{kind}_pytrec_eval_all_four"] = statistics.median(row[2] / row[0] for row in rows)
    figures[f"ratio_{kind}_pytrec_eval_one_by_one"] = statistics.median(row[2] / row[1] for row in rows)
    for measure in map(measure_named, PAIRED):
        figures[f"{kind}_{measure.name}_s"] = seconds(partial(measure.values, queries, qrels, run))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 requests a round, 1,000 queries")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--only", choices=["requests", "measures"], help="one of the two parts")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    if options.only != "measures":
        figures |= request_costs(2_000 if options.quick else 20_000)
    if options.only != "requests":
        figures |= measure_costs(1_000 if options.quick else 10_000, 3)
    for name, value in figures.items():
        print(f"{name:40} {value:10.2f}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
