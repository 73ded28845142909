"""A model that vLLM runs on this machine: its engine inside this process, or a server of ours on loopback.

    LocalVllm     vLLM's async engine, made by the first request; the weights live in a process of the engine's own
    VllmServer    the OpenAI-compatible server of the same engine, started, watched, and ended with this process

Promise: an engine or server that dies is made anew, at most `restarts` times, and what was in flight may be sent again;
nothing of it outlives this process. What the job says is what is sampled: the sampling defaults that come with a model
are not used. JSON that a schema asks for comes without blanks between its parts, so that no reply ends in them.
Price: seconds to minutes until the first reply. vLLM is imported by the first request (`pip install 'foil-ir[vllm]'`).
"""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.errors import ModelError, ModelOutageError, RefusedRequestError, TransientModelError, UsageError
from engine.models.params import Params
from engine.settings import Settings
from engine.topic import Reply, Request

LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_HEALTH_S = 5.0
_STOP_S = 15.0
_LAST_LINES = 30


class LocalVllmSettings(Settings):
    """A model run by vLLM on the machine of the worker that asks it."""

    kind: Literal["local_vllm"]
    model: str = Field(description="a folder of weights, or the name of a model on the hub")
    revision: str | None = Field(default=None, description="a commit, branch or tag of the model on the hub")
    tokenizer: str | None = Field(default=None, description="a folder or hub name, where it is not the model's own")
    serve: bool = Field(default=False, description="run vLLM's server beside this process, not the engine inside it")
    tensor_parallel_size: int = Field(default=1, ge=1, description="GPUs that share each layer")
    pipeline_parallel_size: int = Field(default=1, ge=1, description="stages of layers, each on GPUs of its own")
    quantization: str | None = Field(default=None, description="as vLLM names it; else what the weights say")
    dtype: str = Field(default="auto", description="number format of the weights, e.g. `bfloat16`")
    max_model_len: int | None = Field(default=None, ge=1, description="tokens of prompt and reply; else the model's")
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1, description="share of each GPU's memory to take")
    lora: str | None = Field(default=None, description="a folder with a LoRA adapter to answer with")
    enable_prefix_caching: bool = Field(default=True, description="keep the work for prompts that begin alike")
    enforce_eager: bool = Field(default=False, description="start sooner and run slower: no CUDA graphs, no compiling")
    engine_args: dict[str, Any] = Field(
        default_factory=dict, description="further engine arguments, under vLLM's names, e.g. `max_num_seqs`"
    )
    params: Params = Field(default=Params(), description="sampling parameters of every request")
    startup_s: float = Field(default=900.0, gt=0, description="seconds until the engine must answer")
    timeout_s: float = Field(default=600.0, gt=0, description="seconds that one request may take in the engine")
    restarts: int = Field(default=5, ge=0, description="times that a dead engine is started again, in all")

    def identity(self) -> dict[str, Any]:
        """What decides the replies: the weights, their number format, and how they are sampled."""
        names = {"kind", "model", "revision", "tokenizer", "quantization", "dtype", "lora", "max_model_len"}
        return {**self.model_dump(mode="json", include=names), "params": self.params.plain()}


def model_name(settings: LocalVllmSettings) -> str:
    """What names the weights in a request's id: the model, its revision and adapter."""
    revision = f"@{settings.revision}" if settings.revision else ""
    adapter = f"+{settings.lora}" if settings.lora else ""
    return settings.model + revision + adapter


def engine_arguments(settings: LocalVllmSettings) -> dict[str, Any]:
    """The settings under vLLM's names, for the engine and for the server alike; `engine_args` has the last word."""
    named = settings.model_dump(
        include={
            "model", "revision", "tokenizer", "tensor_parallel_size", "pipeline_parallel_size", "quantization", "dtype",
            "max_model_len", "gpu_memory_utilization", "enable_prefix_caching", "enforce_eager",
        }
    )  # fmt: skip
    ours = {
        "generation_config": "vllm",
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        "enable_lora": True if settings.lora else None,
    }
    every = {**named, **ours, **settings.engine_args}
    return {name: value for name, value in every.items() if value is not None}


@dataclass
class _Engine:
    """A running engine, and the process that ends the engine's own if this one is killed."""

    llm: Any
    leash: subprocess.Popen[bytes]

    def shut(self) -> None:
        self.llm.shutdown(_STOP_S)
        self.llm = None  # else it lives until Python ends, and complains then
        self.leash.kill()
        self.leash.wait()
        multiprocessing.active_children()  # reaps the engine's processes


class LocalVllm:
    """vLLM's engine in this process (engine.protocols.Model)."""

    def __init__(self, settings: LocalVllmSettings) -> None:
        self.name = model_name(settings)
        self.params = settings.params.plain()
        self._settings = settings
        self._starting = asyncio.Lock()
        self._engine: _Engine | None = None
        self._starts = self._sends = 0

    async def complete(self, request: Request) -> Reply:
        began = time.monotonic()
        engine = await self._running()
        llm = engine.llm
        try:
            output = await self._generated(llm, request)
        except Exception as error:
            if llm.errored:
                await self._bury(engine)
                raise TransientModelError(f"{self.name}: the engine died ({_said(error)}); it is made anew") from error
            raise _named(self.name, error) from error
        return self._reply(request, output, time.monotonic() - began)

    async def close(self) -> None:
        async with self._starting:
            engine, self._engine = self._engine, None
            if engine is not None:
                if engine.llm.output_handler:
                    engine.llm.output_handler.cancel()  # else it takes the end for a death, and says so
                await asyncio.to_thread(engine.shut)

    async def _running(self) -> _Engine:
        """The engine, made by whoever asks first. What vLLM has to say of a failed start is on stderr."""
        async with self._starting:
            if self._engine is not None:
                return self._engine
            if self._starts > self._settings.restarts:
                raise ModelOutageError(
                    f"{self.name}: the engine died {self._starts} times (restarts: {self._settings.restarts}); look "
                    "for its last words on stderr, and for the kernel's about memory; then run again"
                )
            _need_vllm()
            self._starts += 1
            try:
                self._engine = await asyncio.to_thread(_started, self._settings)
            except Exception as error:
                if self._starts > 1:
                    raise TransientModelError(f"{self.name}: the engine did not come back: {_said(error)}") from error
                raise ModelOutageError(
                    f"{self.name}: the engine did not start: {_said(error)}; its own words are on stderr: mend the "
                    "settings of this model"
                ) from error
            return self._engine

    async def _bury(self, engine: _Engine) -> None:
        """Clears away a dead engine, unless another of its requests did."""
        async with self._starting:
            if engine is self._engine:
                LOG.warning("%s: the engine died; %d starts so far", self.name, self._starts)
                self._engine = None
                await asyncio.to_thread(engine.shut)

    async def _generated(self, llm: Any, request: Request) -> Any:
        from vllm.lora.request import LoRARequest  # type: ignore[import-not-found]  # noqa: PLC0415
        from vllm.renderers.params import ChatParams  # type: ignore[import-not-found]  # noqa: PLC0415

        turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        chat = ChatParams(chat_template_kwargs=_template_values(request.params))
        _, (prompt,) = await llm.renderer.render_chat_async([turns], chat)
        lora = LoRARequest("adapter", 1, self._settings.lora) if self._settings.lora else None
        self._sends += 1
        sent = f"{request.id}-{self._sends}"
        outputs = [each async for each in llm.generate(prompt, _sampling(request), sent, lora_request=lora)]
        return outputs[-1]

    def _reply(self, request: Request, output: Any, latency_s: float) -> Reply:
        choices = sorted(output.outputs, key=lambda choice: choice.index)
        if broken := [choice for choice in choices if choice.finish_reason in {"abort", "error", None}]:
            raise TransientModelError(f"{self.name}: the engine gave up the request ({broken[0].finish_reason})")
        first, *others = choices
        return Reply(
            request.id,
            first.text,
            self.name,
            finish_reason=first.finish_reason,
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=sum(len(choice.token_ids) for choice in choices),
            latency_s=latency_s,
            others=tuple((choice.text, choice.finish_reason) for choice in others),
            logprobs=_logprobs(first, request.params.get("top_logprobs") or 0),
            cached_tokens=output.num_cached_tokens or 0,
            endpoint="local_vllm",
            revision=self._settings.revision or "",
        )


def _need_vllm() -> None:
    if importlib.util.find_spec("vllm") is None:
        raise UsageError(
            "kind: local_vllm needs vLLM, which is not installed; pip install 'foil-ir[vllm]' on a machine with GPUs, "
            "or run scripts/setup-vllm on one without"
        )


def _environment(settings: LocalVllmSettings) -> dict[str, str]:
    """What vLLM reads from the environment, under what the user has set there. It is quiet, and calls nobody."""
    ours = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork of a process with threads may hang
    }
    return {**ours, **os.environ, "VLLM_ENGINE_READY_TIMEOUT_S": str(int(settings.startup_s) + 1)}


def _started(settings: LocalVllmSettings) -> _Engine:
    """A new engine, whose processes are killed if this one is. Takes seconds to minutes: run it in a thread."""
    os.environ.update(_environment(settings))
    from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found]  # noqa: PLC0415
    from vllm.v1.engine.async_llm import AsyncLLM  # type: ignore[import-not-found]  # noqa: PLC0415

    leash = subprocess.Popen(_leash("follow"), stdin=subprocess.DEVNULL)
    try:
        named = {"disable_log_stats": True, **engine_arguments(settings)}
        return _Engine(AsyncLLM.from_engine_args(AsyncEngineArgs(**named)), leash)
    except BaseException:
        leash.kill()
        leash.wait()
        raise


def _leash(*words: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")), str(os.getpid()), *words]


def _template_values(params: Mapping[str, Any]) -> dict[str, Any]:
    effort = {"reasoning_effort": params["reasoning_effort"]} if "reasoning_effort" in params else {}
    told = params.get("chat_template_kwargs", {})
    return {"add_generation_prompt": True, **effort, **told}


def _sampling(request: Request) -> Any:
    from vllm.sampling_params import (  # type: ignore[import-not-found]  # noqa: PLC0415
        RequestOutputKind,
        SamplingParams,
        StructuredOutputsParams,
    )

    params = dict(request.params)
    wants, top = params.pop("logprobs", False), params.pop("top_logprobs", None)
    for name in ("chat_template_kwargs", "reasoning_effort"):
        params.pop(name, None)
    return SamplingParams(
        **params,
        logprobs=(top or 0) if wants else None,
        structured_outputs=StructuredOutputsParams(json=dict(request.schema)) if request.schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _logprobs(choice: Any, top: int) -> dict[str, Any] | None:
    """The log probabilities as the OpenAI chat API gives them; the likeliest token comes first."""
    if choice.logprobs is None:
        return None
    places = []
    for token, found in zip(choice.token_ids, choice.logprobs, strict=True):
        ranked = sorted(found.values(), key=lambda each: each.rank)[:top]
        tops = [{"token": each.decoded_token, "logprob": each.logprob} for each in ranked]
        places.append({"token": found[token].decoded_token, "logprob": found[token].logprob, "top_logprobs": tops})
    return {"content": places}


def _named(name: str, error: Exception) -> ModelError:
    """vLLM's error as one of ours: what the request is to blame for is refused, the rest may pass."""
    from vllm.exceptions import VLLMClientError  # type: ignore[import-not-found]  # noqa: PLC0415

    cause = error.__cause__ if isinstance(error.__cause__, ValueError | TypeError) else error
    if isinstance(cause, VLLMClientError | ValueError | TypeError):
        return RefusedRequestError(f"{name} refuses the request: {_said(cause)}; mend the prompt, schema or params")
    return TransientModelError(f"{name}: {_said(cause)}")


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


class VllmServer:
    """vLLM's OpenAI-compatible server on loopback, behind a key of this run's own.

    `start` returns when it answers. From then on it is watched and, where it dies, started again at the same address,
    at most `restarts` times. `alive` says whether it answers now; it raises ModelOutageError once it is given up.
    `folder` (a private one) takes its log. The key goes through the environment: arguments are for all to see.
    """

    def __init__(self, settings: LocalVllmSettings, folder: Path) -> None:
        self.model = model_name(settings)
        self.api_key = secrets.token_urlsafe(32)
        self.log = folder / "vllm.log"
        self._settings = settings
        self._port = _free_port()
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._given_up: ModelOutageError | None = None
        self.base_url = f"http://127.0.0.1:{self._port}/v1"

    async def start(self) -> None:
        """Raises ModelOutageError with the last words of a server that does not come up within `startup_s`."""
        _need_vllm()
        try:
            await self._rise()
        except BaseException:
            await self.close()
            raise
        self._watch = asyncio.create_task(self._watched())

    async def alive(self) -> bool:
        if self._given_up:
            raise self._given_up
        return await asyncio.to_thread(_healthy, self._port)

    async def close(self) -> None:
        if self._watch:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self._end()

    async def _rise(self) -> None:
        self._process = process = await self._launched()
        until = time.monotonic() + self._settings.startup_s
        while not await asyncio.to_thread(_healthy, self._port):
            if process.returncode is not None:
                raise ModelOutageError(f"{self.model}: the vLLM server ended while it started; {self._last_words()}")
            if time.monotonic() > until:
                raise ModelOutageError(
                    f"{self.model}: the vLLM server does not answer after startup_s: {self._settings.startup_s:g} "
                    f"seconds; raise it if the weights are large; {self._last_words()}"
                )
            await asyncio.sleep(_LOOK_S)

    async def _launched(self) -> asyncio.subprocess.Process:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *_leash("run"),
                *(
                    sys.executable,
                    "-m",
                    "vllm.entrypoints.openai.api_server",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(self._port),
                ),
                *server_flags(self._settings),
                env={**_environment(self._settings), "VLLM_API_KEY": self.api_key, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def _watched(self) -> None:
        """Starts the server again whenever it has ended, until `restarts` are used up."""
        assert self._process
        for start in range(1, self._settings.restarts + 1):
            await self._process.wait()
            LOG.warning("%s: the vLLM server died; restart %d of %d", self.model, start, self._settings.restarts)
            await self._end()
            try:
                await self._rise()
            except ModelError as error:
                LOG.warning("%s", error)
        await self._process.wait()
        self._given_up = ModelOutageError(
            f"{self.model}: the vLLM server died more than restarts: {self._settings.restarts} times; "
            f"{self._last_words()}"
        )

    async def _end(self) -> None:
        """Ends the server and all that it started: asked first, then killed."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _STOP_S)
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"the end of its log {self.log}:", *lines[-_LAST_LINES:]])


def server_flags(settings: LocalVllmSettings) -> list[str]:
    """The settings as flags of vLLM's server. It tells how much of a prompt was cached, and logs no requests."""
    name = model_name(settings)
    flags = {**engine_arguments(settings), "enable_prompt_tokens_details": True, "disable_uvicorn_access_log": True}
    if settings.lora:
        flags["lora_modules"] = {"name": name, "path": settings.lora}
    else:
        flags["served_model_name"] = name
    return [word for key, value in flags.items() for word in _flag(key.replace("_", "-"), value)]


def _flag(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict | list) else str(value)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_HEALTH_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
