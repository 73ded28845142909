"""All checks of Foil's trainer on a GPU, in one command: `scripts/gpu_checks [--small] [--only NAME ...]`.

Nothing is fetched: weights and texts are random. stdout has one JSON document, stderr a line a check as it ends. The
exit code is 0 if nothing failed; what cannot run here is skipped, with its reason. `--small` runs everything on the CPU
with tiny shapes, as a rehearsal: its figures mean nothing.
"""

import argparse
import json
import os
import sys
from typing import Any

from benchmarks.gpu import machine
from benchmarks.gpu.check import Check, Result
from benchmarks.gpu.runner import run_checks
from benchmarks.gpu.sizes import FULL, SMALL

LIMIT_S = 470.0
"""Of all checks together."""

CHECKS = tuple(
    Check(name, f"benchmarks.gpu.checks.{function}", limit_s)
    for name, function, limit_s in (
        ("equal_losses", "equal_losses:check", 100.0),
        ("train_minilm", "training:check_minilm", 60.0),
        ("train_base", "training:check_base", 60.0),
        ("train_decoder", "training:check_decoder", 120.0),
        ("gradient_cache", "gradient_cache:check", 150.0),
        ("packing", "packing:check", 100.0),
        ("attention", "attention:check", 60.0),
        ("encode", "encoding:check", 60.0),
        ("ready_jobs", "ready_jobs:check", 150.0),
        ("distributed", "distributed:check", 90.0),
        ("vllm", "generation:check", 150.0),
    )
)


def main() -> int:
    """Runs the checks, prints what they found, and returns the exit code."""
    options = _options()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    if options.small:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    facts = machine.facts()
    if not (options.small or facts["gpus"]):
        print("gpu_checks: torch sees no CUDA device here; --small rehearses the checks on the CPU", file=sys.stderr)
        return 2
    checks = [check for check in CHECKS if check.name in options.only]
    sizes, start = (SMALL, "forkserver") if options.small else (FULL, "spawn")
    results = list(map(_show, run_checks(checks, sizes, options.limit, start)))
    print(json.dumps({**facts, "small": options.small, "checks": [result.plain() for result in results]}, indent=1))
    return int(any(result.failed for result in results))


def _options() -> argparse.Namespace:
    names = [check.name for check in CHECKS]
    parser = argparse.ArgumentParser(
        prog="gpu_checks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="on the CPU, with tiny shapes")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="of all together; %(default)g")
    parser.add_argument("--json", action="store_true", help="stdout has JSON with or without it")
    return parser.parse_args()


def _show(result: Result) -> Result:
    """Writes a result to stderr as it comes, and passes it on."""
    word = "ok" if result.ok else "skipped" if result.skipped else "FAILED"
    print(f"{result.name:16} {word:8} {result.seconds:7.1f} s  {result.reason}", file=sys.stderr, flush=True)
    for name, value in result.plain()["figures"].items():
        print(f"    {name:28} {_text(value)}", file=sys.stderr)
    return result


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
