"""A vLLM server of this run's own, asked as a hosted model (`serve: true`)."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from engine.errors import TransientModelError
from engine.models.endpoints import HostedSettings
from engine.models.hosted import Hosted
from engine.models.local_vllm import LocalVllmSettings, VllmServer, model_name
from engine.models.retry import Patience
from engine.topic import Reply, Request


class ServedVllm:
    """An engine.protocols.Model: the server starts with the first request and ends with the run.

    Promise: its key is in a private file for as long as it runs, and nowhere else. Price: see VllmServer.
    """

    def __init__(self, settings: LocalVllmSettings) -> None:
        self.name, self.params = model_name(settings), settings.params.plain()
        self.patience = Patience(outage_s=settings.startup_s, timeout_s=settings.timeout_s)
        self._settings = settings
        self._starting = asyncio.Lock()
        self._folder: Path | None = None
        self._server: VllmServer | None = None
        self._hosted: Hosted | None = None

    async def complete(self, request: Request) -> Reply:
        """One send. A server that died is started again meanwhile; once it is given up, raises ModelOutageError."""
        hosted = await self._up()
        try:
            return await hosted.complete(request)
        except TransientModelError:
            assert self._server
            await self._server.alive()
            raise

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
                        structured="json_schema",
                        patience=self.patience,
                    )
                )
            return self._hosted
