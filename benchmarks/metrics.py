"""What metrics cost: microseconds a hosted request, served to Prometheus and not, in one process, interleaved.

python benchmarks/metrics.py [--quick] [--json]
"""

import argparse
import json
import statistics
import time

from engine.models.pacing import Endpoint
from engine.telemetry.metrics import REQUESTS_IN_FLIGHT
from engine.telemetry.prometheus import serve_metrics

ANY_PORT = 0


def us_a_request(requests: int) -> float:
    """Microseconds of all that a request records from its send to its end."""
    endpoint = Endpoint("benchmark", 1, 64, None, None, label="1a2b3c4d")
    began = time.perf_counter()
    for _ in range(requests):
        REQUESTS_IN_FLIGHT.record(1, endpoint.label)
        endpoint.record_end("worked", 0.3)
    return (time.perf_counter() - began) / requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 requests a round")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    requests = 2_000 if options.quick else 20_000
    off, on = [], []
    for _ in range(5):
        off.append(us_a_request(requests))
        with serve_metrics("127.0.0.1", ANY_PORT):
            on.append(us_a_request(requests))
    found = {"off_us_a_request": statistics.median(off), "on_us_a_request": statistics.median(on)}
    found["ratio_on_off"] = found["on_us_a_request"] / found["off_us_a_request"]
    for name, value in found.items():
        print(f"{name:32} {value:10.2f}")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
