"""A cable cut without a reset, between two Ray nodes in network namespaces: our settings against Ray's own."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from foil.cluster.deploy.ray_environment import NETWORK
from tests.support.paths import REPO

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces need root and `ip`"),
]
HERE, FAR = "10.213.77.1", "10.213.77.2"
PATIENCE_S = 120
DRIVER = f"""
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=1, max_retries=3)
def work(begun):
    ray.get(begun.add.remote(ray.util.get_node_ip_address()))
    time.sleep(5)

@ray.remote(num_cpus=0, resources={{"here": 0.01}})
class Begun:
    def __init__(self): self.places = []
    def add(self, place): self.places.append(place)
    def all(self): return self.places

begun = Begun.remote()
tasks = [work.remote(begun) for _ in range(4)]
while "{FAR}" not in ray.get(begun.all.remote()):
    time.sleep(0.1)
print("running", flush=True)
cut = time.monotonic()
done, open_ = ray.wait(tasks, num_returns=4, timeout={PATIENCE_S})
print("open tasks and seconds:", len(open_), round(time.monotonic() - cut), flush=True)
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def namespace():
    name = f"foil{secrets.token_hex(3)}"
    ip("netns", "add", name)
    try:
        ip("link", "add", f"{name}h", "type", "veth", "peer", "name", f"{name}f", "netns", name)
        ip("addr", "add", f"{HERE}/24", "dev", f"{name}h")
        ip("link", "set", f"{name}h", "up")
        for command in (["addr", "add", f"{FAR}/24", "dev", f"{name}f"], ["link", "set", f"{name}f", "up"]):
            ip("-n", name, *command)
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "del", name)


def start(command: list[str], env: dict[str, str], log: Path) -> subprocess.Popen:
    with log.open("w") as file:
        return subprocess.Popen(command, env=env, stdout=file, stderr=file, start_new_session=True)


def await_text(log: Path, text: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)


@pytest.mark.parametrize("settings", [dict(NETWORK), {}], ids=["our settings", "Ray's own"])
def test_our_settings_free_the_tasks_of_a_node_that_was_cut_off(namespace, settings):
    ray = str(Path(sys.executable).with_name("ray"))
    with socket.create_server((HERE, 0)) as free:
        address = f"{HERE}:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="fn", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home, running = Path(folder), []
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        env |= settings | {
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(REPO), "RAY_worker_niceness": "0",
        }  # fmt: skip
        node = [ray, "start", "--block", "--num-cpus=1", "--dashboard-agent-listen-port=0", "--metrics-export-port=0"]
        try:
            head = [*node, "--head", f"--node-ip-address={HERE}", f"--port={address.split(':')[1]}", "--resources"]
            head += ['{"here": 1}', f"--temp-dir={home}", "--include-dashboard=false"]
            running.append(start(head, env, home / "head.log"))
            await_text(home / "head.log", "Ray runtime started", running[-1])
            far = ["ip", "netns", "exec", namespace, *node, f"--address={address}", f"--node-ip-address={FAR}"]
            running.append(start(far, env, home / "far.log"))
            await_text(home / "far.log", "Ray runtime started", running[-1])
            driver = [sys.executable, "-c", DRIVER, address]
            with subprocess.Popen(
                driver, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
            ) as driving:
                running.append(driving)
                assert driving.stdout.readline() == "running\n"
                ip("-n", namespace, "link", "set", f"{namespace}f", "down")
                answer = next(line for line in driving.stdout if line.startswith("open tasks and seconds: "))
                left, seconds = map(int, answer.split()[-2:])
        finally:
            for process in reversed(running):
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    if settings:
        assert (left, seconds < PATIENCE_S) == (0, True), f"{left} tasks still wait after {seconds} s"
    else:
        assert left > 0, f"Ray's own settings freed the tasks after {seconds} s: ours may no longer be needed"
