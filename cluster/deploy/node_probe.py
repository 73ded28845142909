"""What every node of a Ray cluster sees, as one JSON document on the last line. `foil doctor --address` submits it.

    python node_probe.py OUT NONCE      inside of a Ray job; needs Python and Ray, and nothing of Foil

Each node says its name, its clock against the driver's, its versions, GPUs and Ray variables, and races the others for
one new name in OUT: exactly one may win, and all must read the winner's bytes. It also connects to the ports that Ray
chose for the other nodes, and to the head's. The port of the dashboard is none of them: it stays closed.
"""

import importlib.util
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

MARK = "foil-node-probe "
_NEEDED = ("pydantic", "pyarrow", "duckdb", "aiohttp")
_ANSWER_S = 60.0
_CONNECT_S, _CONNECTS_AT_ONCE = 5.0, 64
_HEAD = "node:__internal_head__"
"""The resource by which Ray marks the head's node."""


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


def closed(ports: Sequence[tuple[str, int, str]]) -> list[str]:
    """Which of these (host, port, name) nobody can connect to from here."""
    with ThreadPoolExecutor(_CONNECTS_AT_ONCE) as pool:
        answers = list(pool.map(lambda port: _connects(port[0], port[1]), ports))
    return [f"{name}, {host}:{port}" for (host, port, name), ok in zip(ports, answers, strict=True) if not ok]


def _connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True


def ports_of(node: dict[str, Any]) -> list[tuple[str, int, str]]:
    """What other nodes of Ray connect to on this one."""
    services = (("NodeManagerPort", "node manager"), ("ObjectManagerPort", "object manager"))
    return [(node["NodeManagerAddress"], node[key], f"node {node['NodeID'][:8]}, {name}") for key, name in services]


def probe(folder: str, names: list[str]) -> list[dict[str, Any]]:
    """One look from each living node."""
    all_nodes: Any = ray.nodes
    nodes = [node for node in all_nodes() if node["Alive"]]
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    ports = [(host, int(port), "the head, GCS"), *(port for node in nodes for port in ports_of(node))]
    looks = []
    for node in nodes:
        gpus, is_head = node["Resources"].get("GPU", 0.0), _HEAD in node["Resources"]
        looked = look_from(node["NodeID"], folder, names, ports)
        looks.append({"node": node["NodeID"], "head": is_head, "gpus": gpus, **looked})
    return looks


def look_from(node: str, folder: str, names: list[str], ports: list[tuple[str, int, str]]) -> dict[str, Any]:
    """What a node sees. `skew_s` is its clock less the driver's, known to `skew_within_s`."""
    place = NodeAffinitySchedulingStrategy(node, soft=False)

    def there(work: Any) -> Any:
        return ray.remote(work).options(num_cpus=0, scheduling_strategy=place, max_retries=0)

    try:
        ray.get(there(look).remote(folder, names, node, node), timeout=_ANSWER_S)  # starts a process
        before = time.time()
        facts = ray.get(there(look).remote(folder, names, node, "winner"), timeout=_ANSWER_S)
        after = time.time()
        cannot_reach = ray.get(there(closed).remote(ports), timeout=_ANSWER_S)
    except (ray.exceptions.RayError, TimeoutError) as error:
        return {"problem": f"the node did not answer: {type(error).__name__}"}
    skew = {"skew_s": facts["clock_s"] - (before + after) / 2, "skew_within_s": (after - before) / 2}
    return {**facts, **skew, "cannot_reach": cannot_reach}


def main() -> None:
    """Probes and prints."""
    folder, *names = sys.argv[1:]
    ray.init(log_to_driver=False)
    sys.stdout.write(f"\n{MARK}{json.dumps(probe(folder, names))}\n")


if __name__ == "__main__":
    main()
