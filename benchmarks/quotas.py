"""Quotas that no job names: how many requests are sent and how much of the quota is used, in virtual time.

The real queue, rates and pauses stand before simulated servers that accept so many requests a minute: token buckets
that hold 0.5, 10 and 60 seconds' worth, windows of a minute that are fixed or slide. 400 clients always want an answer;
who is refused waits 0.3 s. A minute is the server's own; the first one, in which nothing is known, is told apart.

    python -m benchmarks.quotas [--quick] [--json]
"""

import argparse
import json
from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.support.models.paced_server import QUOTAS, Quota, QuotaServer, simulate

MOST_IN_FLIGHT = 256
FIRST_S = 43  # when the second fixed window begins


def measure(kind: str, per_minute: int, latency: float, minutes: int) -> dict[str, str | float]:
    """Sends and accepted requests as shares of the quota: in all, and the most in one minute."""
    quota = Quota(per_minute, **QUOTAS[kind])
    server, _ = simulate(lambda: QuotaServer(quota, latency), FIRST_S + 60 * minutes, most=MOST_IN_FLIGHT)
    sends = Counter(quota.window(when) for when in server.arrivals)
    first = sum(count for window, count in sends.items() if window < FIRST_S)
    later = [count for window, count in sends.items() if window >= FIRST_S]
    accepted = sum(when >= FIRST_S for when in server.accepted)
    return {
        "quota": kind,
        "requests a minute": per_minute,
        "latency, s": latency,
        "first minute": round(first / per_minute, 2),
        "sends": round(sum(later) / minutes / per_minute, 2),
        "most in a minute": round(max(later) / per_minute, 2),
        "used": round(accepted / minutes / per_minute, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 minutes of virtual time in place of 14")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = [(120, 0.5), (120, 4.0), (600, 0.5), (600, 4.0), (6000, 0.5)]
    minutes = 5 if arguments.quick else 14
    rows = [measure(kind, per_minute, latency, minutes) for kind in QUOTAS for per_minute, latency in cases]
    if arguments.json:
        print(json.dumps(rows))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
