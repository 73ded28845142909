"""Real vLLM on the CPU as two actors of a real Ray; `make test-vllm` runs it."""

import asyncio
import importlib.util
import os
import signal
import time

import pytest

from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings
from foil.engine.models.local.pooled_vllm import PooledVllm, engine_spec, use_engines
from foil.engine.models.params import Params
from foil.engine.models.retry import complete
from foil.engine.requests import Message, Request
from tests.support.paths import REPO
from tests.support.vllm.processes import engine_processes, gone, spawned_processes
from tests.support.vllm.tiny_model import make_tiny_model

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed; run `make test-vllm`"),
]
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCH_COMPILE_DISABLE": "1",  # compiling the sampler takes half a minute
}


@pytest.fixture
def settings(tmp_path, ray_home, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    make_tiny_model(tmp_path / "tiny", [(REPO / "LICENSE").read_text()])
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield LocalVllmSettings(
        kind="local_vllm",
        structured="json_schema", model=str(tmp_path / "tiny"), engines=2, engine_cpus=1, enforce_eager=True,
        max_model_len=1024, params=Params(max_tokens=24), startup_s=240,
    )  # fmt: skip
    ray.shutdown()


@pytest.mark.long
def test_two_engines_answer_one_dies_and_none_is_left(settings):
    from foil.engine.models.local.engine_actors import EngineCalls, EngineCrew

    async def ask_all(rounds):
        requests = [
            Request(model.name, (Message("user", f"Which passage answers {n} {rounds}?"),), model.traits.params,
                    affinity=f"s{n}")
            for n in range(24)
        ]  # fmt: skip
        return await asyncio.gather(*(complete(model, request) for request in requests))

    async def drill():
        first = await ask_all(0)
        actors = [place.actor for place in crew._places]
        until(lambda: len(engine_processes()) == len(actors))
        started.extend(spawned_processes())
        actor = engine_processes()[0].ppid()
        asking = asyncio.create_task(ask_all(1))
        await asyncio.sleep(0.1)
        os.kill(actor, signal.SIGKILL)
        return first, await asking

    crew = EngineCrew([engine_spec(settings, LocalVllm)], "text", "run1")
    model = PooledVllm(settings)
    started = []
    crew.start()
    use_engines(EngineCalls(crew.session))
    try:
        first, second = asyncio.run(drill())
        until(lambda: len(engine_processes()) == 2)
        started.extend(spawned_processes())
    finally:
        use_engines(None)
        crew.close()
    assert all(reply.completion_tokens == 24 for reply in (*first, *second))
    assert {reply.endpoint for reply in first} == {"local_vllm"}
    assert gone(started, within_s=60)


def until(true, within_s=120.0):
    over = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < over
        time.sleep(0.2)
