"""A model that vLLM runs on this machine, its engine driven from this process (its server: `served_vllm`; apart
from the workers: `engine.models.local`).

The first request makes the engine; the weights live in a process of the engine's own.

Promise: an engine that dies is made anew, at most `restarts` times, and what was in flight may be sent again;
nothing of it outlives this process. What the job says is what is sampled: the sampling defaults that come with a model
are not used. JSON that a schema asks for comes without blanks between its parts, so that no reply ends in them.
Price: seconds to minutes until the first reply. vLLM is imported by the first request (`pip install 'foil-ir[vllm]'`).
"""

import asyncio
import importlib.util
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foil.engine.answer_forms import AnswerForm, Structured, turns_of
from foil.engine.errors import ModelError, ModelOutageError, RefusedRequestError, TransientModelError, UsageError
from foil.engine.model_traits import ModelTraits
from foil.engine.models.params import Dialect, Params, PassedOn
from foil.engine.models.reading import read_logprobs
from foil.engine.protocols import Model
from foil.engine.requests import Reply, Request
from foil.engine.settings import Settings

LOG = logging.getLogger(__name__)
_STOP_S = 15.0


class LocalVllmSettings(Settings):
    """A model run by vLLM on the machine of the worker that asks it."""

    kind: Literal["local_vllm"]
    model: str = Field(description="a folder of weights, or the name of a model on the hub")
    revision: str | None = Field(None, description="a commit, branch or tag of the model on the hub")
    tokenizer: str | None = Field(None, description="a folder or hub name, where it is not the model's own")
    serve: bool = Field(False, description="run vLLM's server next to this process, not the engine inside it")
    tensor_parallel_size: int = Field(1, ge=1, le=1_024, description="GPUs that share each layer")
    engines: int = Field(
        0, ge=0, le=1_024, description="engines that are Ray actors of their own for all workers; 0: one a worker"
    )
    engine_cpus: int = Field(
        0, ge=0, le=1_024, description="CPUs that such an engine claims in place of GPUs (vLLM's CPU build)"
    )
    pipeline_parallel_size: int = Field(1, ge=1, le=1_024, description="stages of layers, each on GPUs of its own")
    quantization: str | None = Field(None, description="as vLLM names it; else what the weights say")
    dtype: str = Field("auto", description="number format of the weights, e.g. `bfloat16`")
    max_model_len: int | None = Field(None, ge=1, le=10**8, description="tokens of prompt and reply; else the model's")
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="share of each GPU's memory to take")
    lora: str | None = Field(None, description="a folder with a LoRA adapter to answer with")
    enable_prefix_caching: bool = Field(True, description="keep the work for prompts that begin alike")
    enforce_eager: bool = Field(False, description="start sooner and run slower: no CUDA graphs, no compiling")
    engine_args: PassedOn = Field(
        default_factory=dict, description="further engine arguments, under vLLM's names, e.g. `max_num_seqs`"
    )
    params: Params = Field(Params(), description="sampling parameters of every request")
    structured: Literal["auto", Structured] = Field(
        "auto", description="how a reply's JSON is asked for: in words, or by a grammar where few can be read"
    )
    startup_s: float = Field(900.0, gt=0, le=604_800, description="seconds until the engine must answer")
    timeout_s: float = Field(600.0, gt=0, le=604_800, description="seconds that one request may take in the engine")
    restarts: int = Field(5, ge=0, le=1_000, description="times that a dead engine is started again, in all")

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
    explicit = settings.model_dump(
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
    every = {**explicit, **ours, **settings.engine_args}
    return {name: value for name, value in every.items() if value is not None}


@dataclass
class _Engine:
    """A running engine, and the process that ends the engine's own if this one is killed."""

    llm: Any
    reaper: subprocess.Popen[bytes]

    def shut(self) -> None:
        self.llm.shutdown(_STOP_S)
        self.llm = None  # else it lives until Python ends, and complains then
        self.reaper.kill()
        self.reaper.wait()
        multiprocessing.active_children()  # reaps the engine's processes


class LocalVllm(Model):
    """vLLM's engine in this process."""

    def __init__(self, settings: LocalVllmSettings) -> None:
        self.name = model_name(settings)
        self.traits = ModelTraits(settings.params.plain(), provider="vllm", samples=True)
        self._settings = settings
        self._form = AnswerForm(settings.structured, local=True)
        self._starting = asyncio.Lock()
        self._engine: _Engine | None = None
        self._starts = self._sends = 0
        self._dialect = Dialect()

    async def start(self) -> None:
        """Makes the engine, if there is none. Raises ModelOutageError where it does not start."""
        await self._running_engine()

    async def complete(self, request: Request) -> Reply:
        began = time.monotonic()
        engine = await self._running_engine()
        llm, dialect = engine.llm, self._dialect
        try:
            output = await self._generate(llm, request, dialect)
        except Exception as error:
            if llm.errored:
                await self._discard(engine)
                raise TransientModelError(
                    f"{self.name}: the engine died ({_text_of(error)}); it is made anew"
                ) from error
            if not self._learns(dialect, str(error)):
                raise _as_model_error(self.name, error) from error
            return await self.complete(request)
        return self._reply(request, output, time.monotonic() - began)

    def _learns(self, tried: Dialect, refusal: str) -> bool:
        """Whether a refusal says that the model's chat template takes no system turn, and there was one."""
        learnt = tried.after(refusal, {})
        if learnt is None or learnt.system or not tried.system:
            return False
        if self._dialect.system:
            LOG.warning("%s takes no system turn; its text goes to the head of the user's from now on", self.name)
            self._dialect = Dialect(system=False)
        return True

    async def close(self) -> None:
        async with self._starting:
            engine, self._engine = self._engine, None
            if engine is not None:
                if engine.llm.output_handler:
                    engine.llm.output_handler.cancel()  # else it takes the end for a death, and says so
                await asyncio.to_thread(engine.shut)

    async def _running_engine(self) -> _Engine:
        """The engine, made by whoever asks first. What vLLM has to say of a failed start is on stderr."""
        async with self._starting:
            if self._engine is not None:
                return self._engine
            if self._starts > self._settings.restarts:
                raise ModelOutageError(
                    f"{self.name}: the engine died {self._starts} times (restarts: {self._settings.restarts}); look "
                    "for its last words on stderr, and for the kernel's about memory; then run again"
                )
            need_vllm()
            self._starts += 1
            try:
                self._engine = await asyncio.to_thread(_start_engine, self._settings)
            except Exception as error:
                if self._starts > 1:
                    raise TransientModelError(
                        f"{self.name}: the engine did not come back: {_text_of(error)}"
                    ) from error
                raise ModelOutageError(
                    f"{self.name}: the engine did not start: {_text_of(error)}; its own words are on stderr: mend the "
                    "settings of this model"
                ) from error
            return self._engine

    async def _discard(self, engine: _Engine) -> None:
        """Clears away a dead engine, unless another of its requests did."""
        async with self._starting:
            if engine is self._engine:
                LOG.warning("%s: the engine died; %d starts so far", self.name, self._starts)
                self._engine = None
                await asyncio.to_thread(engine.shut)

    def heard(self, *, readable: bool) -> None:
        """Notes whether a reply that should be JSON could be read."""
        self._form.heard(self.name, readable=readable)

    async def _generate(self, llm: Any, request: Request, dialect: Dialect) -> Any:
        from vllm.lora.request import LoRARequest
        from vllm.renderers.params import ChatParams

        structured = self._form.structured
        turns = dialect.applied({"messages": turns_of(request, structured)})["messages"]
        chat = ChatParams(chat_template_kwargs=_template_values(request.params))
        _, (prompt,) = await llm.renderer.render_chat_async([turns], chat)
        lora = LoRARequest("adapter", 1, self._settings.lora) if self._settings.lora else None
        self._sends += 1
        send_id = f"{request.id}-{self._sends}"
        outputs = [
            each async for each in llm.generate(prompt, _sampling(request, structured), send_id, lora_request=lora)
        ]
        return outputs[-1]

    def _reply(self, request: Request, output: Any, latency_s: float) -> Reply:
        choices = sorted(output.outputs, key=lambda choice: choice.index)
        if broken := [choice for choice in choices if choice.finish_reason in {"abort", "error", None}]:
            raise TransientModelError(f"{self.name}: the engine gave up the request ({broken[0].finish_reason})")
        first, *other_choices = choices
        return Reply(
            request.id,
            first.text,
            self.name,
            finish_reason=first.finish_reason,
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=sum(len(choice.token_ids) for choice in choices),
            latency_s=latency_s,
            others=tuple((choice.text, choice.finish_reason) for choice in other_choices),
            logprobs=read_logprobs(_logprobs(first, request.params.get("top_logprobs") or 0)),
            cached_tokens=output.num_cached_tokens or 0,
            endpoint="local_vllm",
            revision=self._settings.revision or "",
        )


def need_vllm() -> None:
    """Raises UsageError where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise UsageError(
            "kind: local_vllm needs vLLM, which is not installed; pip install 'foil-ir[vllm]' on a machine with GPUs, "
            "or run scripts/setup-vllm on one without"
        )


def environment(settings: LocalVllmSettings) -> dict[str, str]:
    """What vLLM reads from the environment, under what the user has set there. It is quiet, and calls nobody."""
    ours = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork of a process with threads may hang
    }
    return {**ours, **os.environ, "VLLM_ENGINE_READY_TIMEOUT_S": str(int(settings.startup_s) + 1)}


def _start_engine(settings: LocalVllmSettings) -> _Engine:
    """A new engine, whose processes are killed if this one is. Takes seconds to minutes: run it in a thread."""
    os.environ.update(environment(settings))
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    reaper = subprocess.Popen(reaper_command("follow"), stdin=subprocess.DEVNULL)
    try:
        arguments = AsyncEngineArgs(**{"disable_log_stats": True, **engine_arguments(settings)})
        return _Engine(AsyncLLM.from_engine_args(arguments), reaper)
    except BaseException:
        reaper.kill()
        reaper.wait()
        raise


def reaper_command(*words: str) -> list[str]:
    """The command that ends processes when this one has gone (engine/models/local/orphan_reaper.py)."""
    return [sys.executable, "-I", str(Path(__file__).with_name("orphan_reaper.py")), str(os.getpid()), *words]


def _template_values(params: Mapping[str, Any]) -> dict[str, Any]:
    effort = {"reasoning_effort": params["reasoning_effort"]} if "reasoning_effort" in params else {}
    return {"add_generation_prompt": True, **effort, **params.get("chat_template_kwargs", {})}


def _sampling(request: Request, structured: Structured) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    params = dict(request.params)
    wants, top = params.pop("logprobs", False), params.pop("top_logprobs", None)
    for name in ("chat_template_kwargs", "reasoning_effort"):
        params.pop(name, None)
    return SamplingParams(
        **params,
        logprobs=(top or 0) if wants else None,
        structured_outputs=_grammar(request, structured),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _grammar(request: Request, structured: Structured) -> Any:
    """What holds the reply to its schema, or to JSON of any kind; None where the prompt alone asks for it."""
    from vllm.sampling_params import StructuredOutputsParams

    if request.schema is None or structured in ("words", "prompt"):
        return None
    if structured == "json_object":
        return StructuredOutputsParams(json_object=True)
    return StructuredOutputsParams(json=dict(request.schema))


def _logprobs(choice: Any, top: int) -> dict[str, Any] | None:
    """The log probabilities as the OpenAI chat API gives them; the likeliest token comes first."""
    if choice.logprobs is None:
        return None
    content = []
    for token, candidates in zip(choice.token_ids, choice.logprobs, strict=True):
        ranked = sorted(candidates.values(), key=lambda candidate: candidate.rank)[:top]
        likeliest = [{"token": each.decoded_token, "logprob": each.logprob} for each in ranked]
        chosen = candidates[token]
        content.append({"token": chosen.decoded_token, "logprob": chosen.logprob, "top_logprobs": likeliest})
    return {"content": content}


def _as_model_error(name: str, error: Exception) -> ModelError:
    """vLLM's error as one of ours: what the request is to blame for is refused, the rest may pass."""
    from vllm.exceptions import VLLMClientError

    cause = error.__cause__ if isinstance(error.__cause__, ValueError | TypeError) else error
    if isinstance(cause, VLLMClientError | ValueError | TypeError):
        return RefusedRequestError(f"{name} refuses the request: {_text_of(cause)}; mend the prompt, schema or params")
    return TransientModelError(f"{name}: {_text_of(cause)}")


def _text_of(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
