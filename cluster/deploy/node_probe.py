"""What every node of a Ray cluster sees, as one JSON document on the last line. `foil doctor --address` submits it.

    python node_probe.py OUT NONCE      inside of a Ray job; needs Python and Ray, and nothing of Foil

Each node says its name, its clock against the driver's, its versions, GPUs and Ray variables, and races the others for
one new name in OUT: exactly one may win, and all must read the winner's bytes.
"""

import importlib.util
import json
import os
import platform
import socket
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

MARK = "foil-node-probe "
_NEEDED = ("pydantic", "pyarrow", "duckdb", "aiohttp")
_ANSWER_S = 60.0


def look(folder: str, names: list[str], node: str, prize: str) -> dict[str, Any]:
    """What one node sees. `names`: the Ray variables to report."""
    return {
        "clock_s": time.time(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "ray": ray.__version__,
        "missing": [name for name in _NEEDED if importlib.util.find_spec(name) is None],
        "variables": {name: os.environ[name] for name in names if name in os.environ},
        **race(Path(folder), node, prize),
    }


def race(folder: Path, node: str, prize: str) -> dict[str, Any]:
    """Links an own file to the name `prize`; the driver compares who won."""
    try:
        own = folder / f"{node}.{prize}"
        own.write_text(node)
        try:
            (folder / prize).hardlink_to(own)
        except FileExistsError:
            won = False
        else:
            won = True
        return {"won": won, "winner": (folder / prize).read_text(), "problem": ""}
    except OSError as error:
        return {"won": False, "winner": "", "problem": f"{type(error).__name__}: {error}"}


def probe(folder: str, names: list[str]) -> list[dict[str, Any]]:
    """One look from each living node. `skew_s` is a node's clock less the driver's, known to `skew_within_s`."""
    all_nodes: Any = ray.nodes
    nodes = [node for node in all_nodes() if node["Alive"]]
    seen = []
    for node in nodes:
        here = {"node": node["NodeID"], "gpus": node["Resources"].get("GPU", 0.0)}
        place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task: Any = ray.remote(look).options(num_cpus=0, scheduling_strategy=place, max_retries=0)
        try:
            ray.get(task.remote(folder, names, node["NodeID"], node["NodeID"]), timeout=_ANSWER_S)  # starts a process
            before = time.time()
            facts = ray.get(task.remote(folder, names, node["NodeID"], "winner"), timeout=_ANSWER_S)
            after = time.time()
        except (ray.exceptions.RayError, TimeoutError) as error:
            seen.append({**here, "problem": f"the node did not answer: {type(error).__name__}"})
            continue
        skew = {"skew_s": facts["clock_s"] - (before + after) / 2, "skew_within_s": (after - before) / 2}
        seen.append({**here, **facts, **skew})
    return seen


def main() -> None:
    """Probes and prints."""
    folder, *names = sys.argv[1:]
    ray.init(log_to_driver=False)
    sys.stdout.write(f"\n{MARK}{json.dumps(probe(folder, names))}\n")


if __name__ == "__main__":
    main()
