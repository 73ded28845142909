"""Real vLLM, in this process and as a server, over a tiny model of random weights that is made here.

Where vLLM cannot be imported (the usual .venv) only what needs none runs; `make test-vllm` runs all.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import openai
import pytest
from pydantic import BaseModel, Field

from foil.cluster.job import load_job
from foil.datasets_out.commits.log import CommitLog
from foil.engine.answer_forms import body_of
from foil.engine.errors import ModelError, ModelOutageError, RefusedRequestError, TransientModelError, UsageError
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.models.local import local_vllm
from foil.engine.models.local.local_vllm import LocalVllm, LocalVllmSettings, engine_arguments
from foil.engine.models.local.served_vllm import ServedVllm, VllmServer, server_flags
from foil.engine.models.params import Params
from foil.engine.models.retry import complete
from foil.engine.protocols import SAMPLING, Model, Parts
from foil.engine.requests import Message, Reply, Request
from foil.engine.seeds.files.ledger import Ledger
from foil.prompts.parse import parse_reply
from foil.prompts.recipes.catalog import RECIPES
from foil.prompts.recipes.written_query import WrittenQuery
from foil.validators.catalog import VALIDATORS, validators_of
from tests.support.models.character import Character
from tests.support.paths import REPO
from tests.support.small_parts import opened, run_parts, topics
from tests.support.topics.trades import trade_seeds
from tests.support.vllm.processes import descendants, engine_processes, gone, spawned_processes
from tests.support.vllm.tiny_model import make_tiny_model

HAS_VLLM = importlib.util.find_spec("vllm") is not None
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCH_COMPILE_DISABLE": "1",  # compiling the sampler takes half a minute
}
IN_FLIGHT = 32
ROUNDS = 5  # one after the other, so that the server is busy when it is killed, however fast it is
PROMPT = "Which passage answers the question, and which one only looks as if it did?"


def needs_vllm(test):
    absent = pytest.mark.skipif(not HAS_VLLM, reason="vLLM is not installed here; run `make test-vllm`")
    return absent(pytest.mark.filterwarnings("ignore")(test))


class Judgement(BaseModel):
    relevant: bool
    reason: str = Field(pattern=r"^[a-z ]{0,20}$")  # a random model would write control characters
    grade: int = Field(ge=0, le=3)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A folder with a Qwen2 of two layers and random weights, and a byte-level BPE trained on our licence."""
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model(folder, [(REPO / "LICENSE").read_text()])
    return folder


@pytest.fixture(scope="session")
def settings(tiny_model):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield LocalVllmSettings(
            kind="local_vllm",
            structured="json_schema",
            model=str(tiny_model),
            enforce_eager=True,
            max_model_len=1024,
            params=Params(max_tokens=24),
            startup_s=240,
            restarts=1,
        )


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def local(loop, settings):
    model = LocalVllm(settings)
    yield model
    loop.run(model.close())


@pytest.fixture(scope="module")
def server(loop, settings, tmp_path_factory):
    server = VllmServer(settings, tmp_path_factory.mktemp("server"))
    loop.run(server.start())
    yield server
    loop.run(server.close())


@pytest.fixture
def client(loop, server):
    client = openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key, max_retries=0, timeout=60)
    yield client
    loop.run(client.close())


def asked(model, text=PROMPT, schema=None, **params):
    return Request(model.name, (Message("user", text),), {**SAMPLING, **model.traits.params, **params}, schema)


# what needs no vLLM


def test_without_vllm_a_request_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(local_vllm.importlib.util, "find_spec", lambda _: None)
    settings = LocalVllmSettings(kind="local_vllm", model="some/model")
    model = LocalVllm(settings)
    with pytest.raises(UsageError, match=r"pip install 'foil-ir\[vllm\]'"):
        asyncio.run(model.complete(asked(model)))
    with pytest.raises(UsageError, match="setup-vllm"):
        asyncio.run(VllmServer(settings, tmp_path).start())


def test_engine_args_have_the_last_word_and_unset_ones_are_left_to_vllm():
    settings = LocalVllmSettings(
        kind="local_vllm", model="m", tensor_parallel_size=4, engine_args={"max_num_seqs": 8, "dtype": "float16"}
    )
    arguments = engine_arguments(settings)
    assert arguments["tensor_parallel_size"] == 4
    assert arguments["max_num_seqs"] == 8
    assert arguments["dtype"] == "float16"
    assert not {"quantization", "max_model_len", "enable_lora", "params", "restarts"} & set(arguments)


def test_the_server_gets_the_settings_as_flags_and_no_key_among_them(tmp_path):
    settings = LocalVllmSettings(
        kind="local_vllm", model="m", revision="abc", enable_prefix_caching=False, engine_args={"max_num_seqs": 8}
    )
    flags = server_flags(settings)
    assert "--no-enable-prefix-caching" in flags
    assert flags[flags.index("--max-num-seqs") + 1] == "8"
    assert flags[flags.index("--served-model-name") + 1] == "m@abc"
    assert VllmServer(settings, tmp_path).api_key not in flags
    lora = server_flags(settings.model_copy(update={"lora": "/adapter"}))
    assert lora[lora.index("--lora-modules") + 1] == '{"name": "m@abc+/adapter", "path": "/adapter"}'
    assert "--enable-lora" in lora


def test_params_carry_what_is_set():
    assert Params().plain() == {}
    told = Params(temperature=0.0, max_tokens=64, top_p=0.5, stop=("\n",))
    assert told.plain() == {"temperature": 0.0, "max_tokens": 64, "top_p": 0.5, "stop": ["\n"]}


FAKE_SERVER = """
import http.server, os, sys, time
port = int(sys.argv[sys.argv.index("--port") + 1])
if "--break" in sys.argv:
    sys.exit("no such weights")
if "--load" in sys.argv:
    time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.environ["VLLM_API_KEY"] not in sys.argv else 500)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def fake_vllm(tmp_path, monkeypatch):
    """A package `vllm` whose server answers /health alone; settings for it."""
    module = tmp_path / "path" / "vllm" / "entrypoints" / "openai" / "api_server.py"
    module.parent.mkdir(parents=True)
    for folder in list(module.parents)[:3]:
        (folder / "__init__.py").touch()
    module.write_text(FAKE_SERVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setattr(local_vllm.importlib.util, "find_spec", lambda _: True)
    return LocalVllmSettings(kind="local_vllm", model="m", startup_s=60, restarts=1)


def test_a_server_is_started_again_until_its_restarts_are_used_up(fake_vllm, tmp_path):
    async def drill():
        server = VllmServer(fake_vllm, tmp_path)
        await server.start()
        for _ in range(2):
            assert await server.alive()
            started = children(server._process.pid)
            os.kill(started[0], signal.SIGKILL)
            await until_not(server.alive)
            if not server._given_up:
                await until(server.alive)
        assert not running(started[0])
        await server.close()

    with pytest.raises(ModelOutageError, match=r"more than restarts: 1 times(.|\n)*exit code -9"):
        asyncio.run(drill())


def test_a_server_that_does_not_start_leaves_its_last_words_and_no_process(fake_vllm, tmp_path):
    async def drill(**change):
        server = VllmServer(fake_vllm.model_copy(update=change), tmp_path)
        try:
            await server.start()
        finally:
            assert not running(server._process.pid)

    with pytest.raises(ModelError, match=r"ended while it started(.|\n)*no such weights"):
        asyncio.run(drill(engine_args={"break": True}))
    with pytest.raises(ModelError, match=r"does not answer after startup_s: 0.5"):
        asyncio.run(drill(startup_s=0.5, engine_args={"load": True}))


def test_close_of_a_server_ends_it_and_its_watch(fake_vllm, tmp_path):
    async def drill():
        server = VllmServer(fake_vllm, tmp_path)
        await server.start()
        pids = [server._process.pid, *children(server._process.pid)]
        assert len(pids) == 2
        await server.close()
        assert not [pid for pid in pids if running(pid)]
        assert not await server.alive()

    asyncio.run(drill())


async def until(true, within_s=60.0):
    async with asyncio.timeout(within_s):
        while not await true():  # noqa: ASYNC110 - it has no event to wait for
            await asyncio.sleep(0.05)


async def until_not(true):
    async def false():
        return not await true()

    await until(false)


class DeadEngine:
    """An engine that dies of its first request."""

    errored, shutdowns = True, 0

    def shutdown(self, *_):
        DeadEngine.shutdowns += 1

    kill = wait = shutdown


def test_an_engine_that_dies_too_often_ends_the_run(monkeypatch):
    async def drill():
        model = LocalVllm(LocalVllmSettings(kind="local_vllm", model="m", restarts=2))
        for _ in range(3):
            with pytest.raises(TransientModelError, match="the engine died") as caught:
                await model.complete(asked(model))
            assert not caught.value.unsure
        await model.complete(asked(model))

    monkeypatch.setattr(local_vllm.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(local_vllm, "_start_engine", lambda _: local_vllm._Engine(DeadEngine(), DeadEngine()))
    monkeypatch.setattr(LocalVllm, "_generate", failing)
    with pytest.raises(ModelOutageError, match=r"died 3 times \(restarts: 2\)"):
        asyncio.run(drill())


def test_an_engine_that_never_started_ends_the_run_at_once(monkeypatch):
    monkeypatch.setattr(local_vllm.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(local_vllm, "_start_engine", lambda _: 1 / 0)
    model = LocalVllm(LocalVllmSettings(kind="local_vllm", model="m"))
    with pytest.raises(ModelOutageError, match="did not start: ZeroDivisionError"):
        asyncio.run(model.complete(asked(model)))


async def failing(*_):
    raise RuntimeError("gone")


REAPER = REPO / "engine" / "models" / "local" / "orphan_reaper.py"
PARENT = """
import multiprocessing, os, subprocess, sys, time
if __name__ == "__main__":
    command = [sys.executable, {reaper!r}, str(os.getpid()), *{words!r}]
    reaper = subprocess.Popen(command, start_new_session=True)
    spawned = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    spawned.start()
    time.sleep({pause})
    print(spawned.pid, reaper.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [["follow"], ["run", "sleep", "600"]])
def test_a_killed_parent_takes_what_it_started_with_it(tmp_path, words):
    script = tmp_path / "parent.py"
    looks = 3.0  # seconds in which a reaper that follows has surely seen what it must end
    script.write_text(PARENT.format(reaper=str(REAPER), words=words, pause=looks if words == ["follow"] else 0))
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    spawned, reaper = (int(word) for word in parent.stdout.readline().split())
    if words != ["follow"]:
        eventually(lambda: children(reaper))
    watched = [spawned] if words == ["follow"] else [reaper, *children(reaper)]
    assert all(running(pid) for pid in watched)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    eventually(lambda: not any(running(pid) for pid in watched))
    left = [pid for pid in watched if running(pid)]
    if running(spawned):
        os.kill(spawned, signal.SIGKILL)
    assert not left


def test_a_command_under_the_reaper_ends_with_its_whole_group(tmp_path):
    pids = tmp_path / "pids"
    words = ["run", "bash", "-c", f"sleep 600 & echo $! > {pids}; exit 3"]
    reaper = subprocess.run(
        [sys.executable, REAPER, str(os.getpid()), *words], start_new_session=True, stderr=subprocess.PIPE, check=False
    )
    assert b"exit code 3" in reaper.stderr
    assert eventually(lambda: not running(int(pids.read_text())))


def eventually(true, within_s=20.0):
    """Whether it came true in time."""
    until = time.monotonic() + within_s
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    return true()


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


# the engine in this process


@needs_vllm
def test_a_chat_is_answered_with_its_counts(loop, local):
    first, again = (loop.run(local.complete(asked(local, PROMPT * 12, seed=1))) for _ in range(2))
    assert first.text
    assert first.text == again.text
    assert (first.model, first.endpoint, first.finish_reason) == (local.name, "local_vllm", "length")
    assert first.completion_tokens == 24
    assert first.prompt_tokens > 256
    assert first.latency_s > 0
    assert again.cached_tokens >= 128
    assert first.cached_tokens == 0


@needs_vllm
def test_n_choices_come_with_one_request(loop, local):
    reply = loop.run(local.complete(asked(local, n=3, temperature=1.0, seed=7)))
    assert len(reply.others) == 2
    assert len({reply.text, *(text for text, _ in reply.others)}) == 3
    assert all(reason == "length" for _, reason in reply.others)
    assert reply.completion_tokens == 3 * 24


@needs_vllm
def test_logprobs_have_the_shape_of_the_chat_api(loop, local):
    reply = loop.run(local.complete(asked(local, logprobs=True, top_logprobs=2)))
    places = reply.logprobs["content"]
    assert len(places) == 24
    for place in places:
        assert len(place["top_logprobs"]) == 2
        assert place["logprob"] == pytest.approx(place["top_logprobs"][0]["logprob"])  # temperature 0 takes the first
        assert place["logprob"] <= 0
    assert loop.run(local.complete(asked(local))).logprobs is None


@needs_vllm
def test_a_schema_is_kept(loop, local):
    schema = Judgement.model_json_schema()
    reply = loop.run(local.complete(asked(local, schema=schema, max_tokens=128, temperature=1.0, n=4, seed=3)))
    for text, reason in [(reply.text, reply.finish_reason), *reply.others]:
        assert reason == "stop"
        Judgement.model_validate_json(text)


@needs_vllm
def test_many_requests_are_in_flight_at_once(loop, local):
    async def all_of_them():
        return await asyncio.gather(*(local.complete(asked(local, f"{i}. {PROMPT}")) for i in range(IN_FLIGHT)))

    assert len({reply.request_id for reply in loop.run(all_of_them())}) == IN_FLIGHT


@needs_vllm
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"text": "word " * 2000}, "maximum context length is 1024 tokens"),
        ({"nonsense": 3}, "nonsense"),
        ({"schema": {"type": "integer", "multipleOf": 3}}, "not supported by xgrammar"),
    ],
)
def test_what_the_model_cannot_do_is_refused(loop, local, what, message):
    with pytest.raises(RefusedRequestError, match=message):
        loop.run(local.complete(asked(local, **what)))


@pytest.fixture
def adapter(tmp_path):
    """A LoRA adapter of random weights for the tiny model."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    place = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    sizes = {"A": (8, 64), "B": (64, 8)}
    weights = {place.format(layer, side): torch.randn(size) for layer in (0, 1) for side, size in sizes.items()}
    save_file(weights, tmp_path / "adapter_model.safetensors")
    told = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(told))
    return str(tmp_path)


@needs_vllm
def test_an_adapter_answers_in_place_of_the_model(loop, local, settings, adapter):
    adapted = LocalVllm(settings.model_copy(update={"lora": adapter}))
    try:
        texts = [loop.run(model.complete(asked(model))).text for model in (local, adapted)]
    finally:
        loop.run(adapted.close())
    assert texts[0] != texts[1]
    assert adapted.name == f"{local.name}+{adapter}"


@needs_vllm
def test_a_killed_engine_is_made_anew_and_every_request_is_answered(loop, local):
    async def drill():
        requests = [asked(local, f"{i}. {PROMPT}", max_tokens=700, ignore_eos=True) for i in range(IN_FLIGHT)]
        tasks = [asyncio.create_task(complete(local, request)) for request in requests]
        await asyncio.sleep(0.5)
        assert not any(task.done() for task in tasks)
        kill(*engine_processes())
        return await asyncio.gather(*tasks)

    replies = loop.run(drill())
    assert [reply.completion_tokens for reply in replies] == [700] * IN_FLIGHT
    assert all((reply.attempts, reply.unsure) == (2, 0) for reply in replies)


@needs_vllm
def test_close_leaves_no_process(loop, local):
    loop.run(local.complete(asked(local)))
    started = [*spawned_processes(), *descendants("orphan_reaper.py")]
    assert len(started) >= 2
    loop.run(local.close())
    assert gone(started)


# the server


@needs_vllm
def test_the_server_answers_those_who_have_the_key(loop, server, client):
    async def stranger():
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="wrong", max_retries=0) as other:
            await other.models.list()

    reply = loop.run(chat(client, server, n=2, temperature=1.0, seed=1, logprobs=True, top_logprobs=2))
    assert len(reply.choices) == 2
    assert len(reply.choices[0].logprobs.content[0].top_logprobs) == 2
    assert reply.model == server.model
    cached = [loop.run(chat(client, server, PROMPT * 12)).usage.prompt_tokens_details for _ in range(2)][1]
    assert cached.cached_tokens >= 128
    assert loop.run(server.alive())
    with pytest.raises(openai.AuthenticationError):
        loop.run(stranger())
    for process in descendants("vllm.entrypoints"):
        assert server.api_key not in " ".join(process.cmdline())


@needs_vllm
def test_the_server_keeps_a_schema_and_refuses_what_is_too_long(loop, server, client):
    schema = {"type": "json_schema", "json_schema": {"name": "j", "schema": Judgement.model_json_schema()}}
    reply = loop.run(chat(client, server, response_format=schema, max_tokens=128, temperature=1.0, seed=3))
    Judgement.model_validate_json(reply.choices[0].message.content)
    with pytest.raises(openai.BadRequestError, match="maximum context length is 1024 tokens"):
        loop.run(chat(client, server, "word " * 2000))


@needs_vllm
def test_a_killed_server_comes_back_and_every_request_is_answered(loop, server, client):
    async def persistent(text):
        for _ in range(240):
            try:
                return await chat(client, server, text, max_tokens=700, extra_body={"ignore_eos": True})
            except (openai.APIConnectionError, openai.InternalServerError):
                await asyncio.sleep(0.5)
        raise TimeoutError(text)

    async def several(number):
        return [await persistent(f"{number}. {PROMPT}") for _ in range(ROUNDS)]

    async def drill():
        tasks = [asyncio.create_task(several(i)) for i in range(IN_FLIGHT)]
        await asyncio.sleep(0.5)
        assert not any(task.done() for task in tasks)
        kill(*servers())
        return await asyncio.gather(*tasks)

    replies = list(chain.from_iterable(loop.run(drill())))
    assert [reply.usage.completion_tokens for reply in replies] == [700] * IN_FLIGHT * ROUNDS


@needs_vllm
def test_close_of_the_server_leaves_no_process(loop, server):
    started = [*spawned_processes(), *descendants("vllm.entrypoints")]
    assert len(started) >= 3
    loop.run(server.close())
    assert gone(started)
    assert not loop.run(server.alive())


async def chat(client, server, text=PROMPT, **params):
    told = {"max_tokens": 24, "temperature": 0.0, **params}
    return await client.chat.completions.create(
        model=server.model, messages=[{"role": "user", "content": text}], **told
    )


def kill(*processes, by=signal.SIGKILL):
    assert processes
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, by)


def servers():
    """Our vLLM servers, without the guards that would end them with us."""
    return {process for process in descendants("vllm.entrypoints") if "reaper" not in " ".join(process.cmdline())}


@pytest.mark.long
@needs_vllm
def test_serve_true_is_asked_as_a_hosted_model_and_survives_a_kill(loop, settings):
    before = {*descendants("vllm.entrypoints"), *descendants("orphan_reaper.py")}
    served = ServedVllm(settings.model_copy(update={"serve": True}))

    async def drill():
        first = await complete(served, asked(served, schema=Judgement.model_json_schema(), max_tokens=128, seed=3))
        ours = servers() - before
        kill(*ours, by=signal.SIGSTOP)  # so that no reply comes before the kill, however fast the machine
        tasks = [
            asyncio.create_task(complete(served, asked(served, f"{i}. {PROMPT}", max_tokens=700, ignore_eos=True)))
            for i in range(IN_FLIGHT)
        ]
        await asyncio.sleep(0.5)
        kill(*ours)
        return first, await asyncio.gather(*tasks)

    first, replies = loop.run(drill())
    Judgement.model_validate_json(first.text)
    assert [reply.completion_tokens for reply in replies] == [700] * IN_FLIGHT
    assert max(reply.attempts for reply in replies) >= 2
    started, folder = {*descendants("vllm.entrypoints"), *descendants("orphan_reaper.py")} - before, served._folder
    loop.run(served.close())
    assert gone(started)
    assert not folder.exists()


# every template


class HalfNonsense(Model):
    """Asks vLLM everything. Of each seed it hands on what vLLM says to the task that the seed's id names last, or to
    `all`; every other task is done in character, so that the flow comes to each template in its place.

    InfoSearch may end well all the same: where a writer declines, another dimension is tried.
    """

    def __init__(self, vllm):
        self.vllm, self.name, self.traits = vllm, vllm.name, vllm.traits
        self.character, self.asked, self.refused = Character(), Counter(), []

    async def complete(self, request):
        self.asked[request.task] += 1
        try:
            reply = await complete(self.vllm, request)
        except RefusedRequestError as error:
            self.refused.append(str(error))
            raise
        if request.affinity.split()[-1] in (request.task, "all"):
            return reply
        return Reply(request.id, self.character(body_of(request, "json_schema"), 0)[0], model=self.name)

    async def close(self):
        await self.vllm.close()


class Each:
    """Makes of a seed what the recipe that its id names first makes of it."""

    name, fingerprint = "each", "1"

    def __init__(self, recipes):
        self._recipes = recipes

    async def __call__(self, seed, ask):
        return await self._recipes[seed.id.split()[0]](seed, ask)


class Listed(list):
    """Seeds as a reader gives them."""

    ledger = Ledger()


CONTRAST = ("writing.questions", "writing.instruction", "writing.passage")
WRITERS = {
    "infir": (*CONTRAST, "writing.other_query"),
    "promptriever": CONTRAST,
    "dual_view": ("writing.pair_questions", *CONTRAST),
    "contrast": ("writing.pair_questions", "writing.instruction"),
    "infosearch": tuple(f"infosearch.{t}" for t in ("keywords", "rewrite", "question", "wording", "query_negative")),
    "documents": ("writing.query",),
}
JUDGES = {
    "infir": "judges.scenario",
    "promptriever": "judges.relevance",
    "dual_view": "judges.polarity",
    "contrast": "judges.demand",
    "infosearch": "judges.demand",
    "documents": "judges.demand",
}
"""Job -> tasks of its writer, and of the judge that its recipe is published with."""
CRASHES = {"recipe_error", "validator_error", "model_error", "model_unavailable", "timeout", "unstorable"}


def wide_settings(settings, folder):
    """A tiny model in which whole prompts fit. It likes to end a string, so that most of its nonsense can be read."""
    folder.mkdir()
    texts = [path.read_text() for path in (REPO / "prompts" / "templates").rglob("*.j2")]
    make_tiny_model(folder, texts, words=2048, context=8192)
    quote = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]['"']
    params = Params(max_tokens=160, temperature=1.0, extra={"logit_bias": {str(quote): 6.0}})
    return settings.model_copy(update={"model": str(folder), "max_model_len": 8192, "serve": True, "params": params})


@needs_vllm
def test_every_template_is_accepted_and_nonsense_ends_as_a_marked_reject(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(REPO)
    recipe, told = Each({name: recipe_of(name) for name in WRITERS}), wide_settings(settings, tmp_path / "model")
    ids = [f"{name} {task}" for name, tasks in WRITERS.items() for task in (*tasks, JUDGES[name], "all")]
    seeds = Listed(named(seed, name) for seed, name in zip(trade_seeds(), ids, strict=False))  # no request twice
    assert len(seeds) == len(ids)
    chosen = (
        "shape",
        "leak",
        "refusal",
        "injection",
        "constraint_check",
        "dimension_check",
        "judge_relevance",
        "judge_demands",
    )
    checks = [VALIDATORS[name][0]() for name in chosen]
    checks += [VALIDATORS[name][0](missing="skip") for name in ("judge_scenarios", "judge_polarity")]
    out, built = opened(tmp_path / "out"), []

    def build():
        built.append(HalfNonsense(ServedVllm(told)))
        models = dict.fromkeys(("writer", "judge"), built[-1])
        return Parts(recipe, validators_of(checks), models, parse_reply, CommitLog(out), str(out))

    summary = run_parts(seeds, build, Limits(), RuntimeSettings(window=32))
    [model], ended = built, {topic.seed_id: topic for topic in topics(out)}
    assert model.refused == []
    assert set(model.asked) == templates()
    assert summary.complete
    assert set(ended) == {seed.id for seed in seeds}
    assert summary.counts.seeds.total() == summary.planned == len(seeds)
    assert CRASHES.isdisjoint(summary.counts.reasons)
    assert all(topic.reason for topic in ended.values() if topic.status != "accepted")
    passed = {seed for seed, topic in ended.items() if topic.status == "accepted"}
    assert not any(seed.endswith(("questions", "wording")) for seed in passed)  # of plain text a judge decides


def templates():
    """The tasks of all templates that there are."""
    folder = REPO / "prompts" / "templates"
    return {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.j2")}


def recipe_of(name):
    """The recipe as its example job has it."""
    path = REPO / "examples" / "jobs" / f"{name}.yaml"
    every = ["recipe.query_negative=written", "recipe.dimensions=[keyword]"] if name == "infosearch" else []
    settings = load_job(path, every).recipe
    return WrittenQuery(RECIPES[settings.kind][1](settings))


def named(seed, name):
    """The seed under another id; one of documents has no query."""
    return replace(seed, id=name, query="" if name.startswith("documents") else seed.query)
