"""The variables that every Ray process of a cluster is started with, and why: one table for code, manifests and tests.

A cable that is cut without a reset freezes Ray 2.60 for 426 s: gRPC keeps a dead connection for 300 + 120 s. With the
five variables of `NETWORK` on every node and in the driver, the same cut costs 21 s. With `HEAD`, a head that dies
and comes back finds the actors of drivers on other nodes again; without, the other nodes end too, unless a Redis keeps
the records. What belongs to the head's own node is lost either way, a driver there among it.

Ray reads each of them once, when a process starts; the letters after `RAY_` are small, else Ray ignores the variable.
"""

import math
import os
from collections.abc import Mapping, MutableMapping

NETWORK: Mapping[str, str] = {
    "RAY_grpc_client_keepalive_time_ms": "10000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}
"""What every node and the driver need."""

HEAD: Mapping[str, str] = {"RAY_gcs_storage": "rocksdb"}
"""What the head also needs, and a folder on a volume that outlives the head, in `HEAD_PATH`."""

HEAD_PATH = "RAY_gcs_storage_path"
HEAD_REDIS = "RAY_REDIS_ADDRESS"
"""Where it is set, a Redis keeps the head's records instead."""

WORKER: Mapping[str, str] = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""What the other nodes and the driver also need: how long they wait for a head that comes back; Ray's own is 60 s."""

ADDRESS = "RAY_ADDRESS"
"""Where a running cluster is, if the job does not say so."""

STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
"""Seconds from Ray's SIGTERM to its SIGKILL, read in the environment of a submitted job."""
_STOP_WAIT_S = 3
_AFTER_DRAIN_S = 2.0
_UV_HOOK = "RAY_ENABLE_UV_RUN_RUNTIME_ENV"
_IN_A_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def set_driver_defaults(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets what a driver needs and is not set. Only what starts or imports Ray afterwards sees it."""
    for name, value in {**NETWORK, **WORKER}.items():
        environment.setdefault(name, value)


def no_copies_of_this_folder(address: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Keeps Ray, under `uv run`, from copying this folder and starting workers anew by uv in the copy: workers of a Ray
    of our own are on this machine. Only an import of Ray afterwards sees it.
    """
    if not address and not environment.get(ADDRESS):
        environment.setdefault(_UV_HOOK, "0")


def differing(environment: Mapping[str, str], expected: Mapping[str, str] = NETWORK) -> dict[str, str]:
    """The expected variables that this environment lacks or sets otherwise -> what it has, "" for nothing."""
    return {name: environment.get(name, "") for name, value in expected.items() if environment.get(name) != value}


def stop_wait_s(drain_s: float) -> int:
    """The wait that a submitted job asks of Ray, so that its own drain has time to end: seconds."""
    return math.ceil(drain_s + _AFTER_DRAIN_S)


def drain_within_stop_wait(drain_s: float, environment: Mapping[str, str] = os.environ) -> float:
    """The seconds that a run may drain: inside of a Ray job, two fewer than Ray waits before it kills."""
    if _IN_A_RAY_JOB not in environment:
        return drain_s
    wait = environment.get(STOP_WAIT, "")
    wait_s = int(wait) if wait.isdecimal() else _STOP_WAIT_S
    return min(drain_s, max(0.0, wait_s - _AFTER_DRAIN_S))
