"""A vLLM server of this run's own, asked as a hosted model (`serve: true`).

ServedVllm    the model: its first request starts a server, its requests go there over HTTP
VllmServer    the server: started on loopback, watched, started again where it dies, ended with this process
"""

import asyncio
import http.client
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from foil.engine.errors import ModelError, ModelOutageError, TransientModelError
from foil.engine.model_traits import ModelTraits, Patience
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.local.local_vllm import (
    LocalVllmSettings,
    engine_arguments,
    environment,
    model_name,
    need_vllm,
    reaper_command,
)
from foil.engine.protocols import Model
from foil.engine.requests import Reply, Request

LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_HEALTH_S = 5.0
_STOP_S = 15.0
_LAST_LINES = 30
_MOST_REPLY_BYTES = 64 << 20
"""The server is ours; only a runaway reply is this long."""


class ServedVllm(Model):
    """The server starts with the first request and ends with the run.

    Promise: its key is in a private file for as long as it runs, and nowhere else. Price: see VllmServer.
    """

    def __init__(self, settings: LocalVllmSettings) -> None:
        patience = Patience(outage_s=settings.startup_s, timeout_s=settings.timeout_s)
        self.name, self.traits = (
            model_name(settings),
            ModelTraits(settings.params.plain(), patience, provider="vllm", samples=True),
        )
        self._settings = settings
        self._starting = asyncio.Lock()
        self._folder: Path | None = None
        self._server: VllmServer | None = None
        self._hosted: Hosted | None = None

    async def start(self) -> None:
        """Starts the server, if it is not up. Raises ModelOutageError where it does not come up."""
        await self._up()

    async def complete(self, request: Request) -> Reply:
        """One send. A server that died is started again meanwhile; once it is given up, raises ModelOutageError."""
        hosted = await self._up()
        try:
            return await hosted.complete(request)
        except TransientModelError:
            assert self._server
            await self._server.alive()
            raise

    def unasked_replies(self) -> list[Reply]:
        return self._hosted.unasked_replies() if self._hosted else []

    async def close(self) -> None:
        """Ends the server and removes its key."""
        if self._hosted:
            await self._hosted.close()
        if self._server:
            await self._server.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _up(self) -> Hosted:
        async with self._starting:
            if self._hosted is None:
                self._folder = Path(tempfile.mkdtemp(prefix="foil-vllm-"))
                self._server = VllmServer(self._settings, self._folder)
                try:
                    await self._server.start()
                except BaseException:
                    shutil.rmtree(self._folder, ignore_errors=True)
                    raise
                key = self._folder / "key"
                with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                    file.write(self._server.api_key)
                self._hosted = Hosted(
                    HostedSettings(
                        model=self.name,
                        url=self._server.base_url,
                        api_key=f"file:{key}",
                        params=self._settings.params,
                        structured=self._settings.structured,
                        most_reply_bytes=_MOST_REPLY_BYTES,
                        patience=self.traits.patience,
                    )
                )
            return self._hosted


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
        need_vllm()
        try:
            await self._start_process()
        except BaseException:
            await self.close()
            raise
        self._watch = asyncio.create_task(self._restart_on_exit())

    async def alive(self) -> bool:
        if self._given_up:
            raise self._given_up
        return await asyncio.to_thread(_healthy, self._port)

    async def close(self) -> None:
        if self._watch:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self._end()

    async def _start_process(self) -> None:
        self._process = process = await self._launch()
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

    async def _launch(self) -> asyncio.subprocess.Process:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *reaper_command("run"),
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
                env={**environment(self._settings), "VLLM_API_KEY": self.api_key, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def _restart_on_exit(self) -> None:
        """Starts the server again whenever it has ended, until `restarts` are used up."""
        assert self._process
        for start in range(1, self._settings.restarts + 1):
            await self._process.wait()
            LOG.warning("%s: the vLLM server died; restart %d of %d", self.model, start, self._settings.restarts)
            await self._end()
            try:
                await self._start_process()
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
