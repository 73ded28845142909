"""A Ray head and nodes as an operator starts them: `ray start --block`, each in a process group of its own."""

import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.commands import foil
from tests.support.drills.ports import free_ports
from tests.support.paths import REPO

CPUS = 2
_UP_S = 120.0


class Node:
    """One `ray start`. `kill` ends all its processes at once, as a lost pod does."""

    def __init__(self, log: Path, env: dict[str, str], **options: object) -> None:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block"]
        command += [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in options.items()
        ]
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(command, env=env, stdout=file, stderr=file, start_new_session=True)

    def await_start(self) -> None:
        deadline = time.monotonic() + _UP_S
        while "Ray runtime started" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Head:
    """A head with a token on free ports, which stay its own: after `kill`, `start` brings it back at its address.

    Each start has a temporary folder of its own, as a new pod has; in the old one Ray would take the other nodes on
    this machine for a head that still runs. `variables` are added to its environment.
    """

    def __init__(self, home: Path, cpus: int = CPUS, **variables: str) -> None:
        (home / "token").write_text(secrets.token_hex(32))
        self._home, self._cpus, self._variables, self._starts = home, cpus, variables, 0
        self.port, self.dashboard, agent, grpc, metrics, client = free_ports(6)
        self._ports = {
            "port": self.port, "dashboard_port": self.dashboard, "dashboard_agent_listen_port": agent,
            "dashboard_agent_grpc_port": grpc, "metrics_export_port": metrics, "ray_client_server_port": client,
        }  # fmt: skip
        self.address = f"http://127.0.0.1:{self.dashboard}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.env |= {
            "PYTHONPATH": str(REPO), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(home / "token"),
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0",
        }  # fmt: skip
        self.start()

    def start(self) -> None:
        """Returns once its dashboard answers and its node is up: the first goes before the second."""
        self._starts += 1
        options = {"num_cpus": self._cpus, "node_ip_address": "127.0.0.1", "temp_dir": self._home / str(self._starts)}
        log, env = self._home / f"head-{self._starts}.log", self.env | self._variables
        self.node = Node(log, env, head=True, **options, **self._ports)
        deadline = time.monotonic() + _UP_S
        while not self._answers():
            assert self.node.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        self.node.await_start()

    def _answers(self) -> bool:
        token = (self._home / "token").read_text()
        request = urllib.request.Request(f"{self.address}/api/version", headers={"Authorization": f"Bearer {token}"})
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except (urllib.error.URLError, OSError):
            return False
        return True

    def join(self, ip: str, cpus: int = 1, **variables: str) -> Node:
        """Another node of the cluster, at an address of its own on this machine."""
        ports = {"dashboard_agent_listen_port": 0, "dashboard_agent_grpc_port": 0, "metrics_export_port": 0}
        address = f"127.0.0.1:{self.port}"
        log, env = self._home / f"node-{ip}.log", self.env | variables
        node = Node(log, env, address=address, node_ip_address=ip, num_cpus=cpus, **ports)
        node.await_start()
        return node

    def kill(self) -> None:
        self.node.kill()

    def foil(self, *arguments: object, **env: str):
        return foil(*arguments, env={**self.env, "RAY_API_SERVER_ADDRESS": self.address, **env})
