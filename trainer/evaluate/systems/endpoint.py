"""An embedder behind an OpenAI-compatible /embeddings: in batches, several in flight, with Foil's keys and retries.

Its weights are unknown, so its digest is that of the model's name and URL: vectors stay in the cache when a provider
changes the model behind a name. Price: a request for `batch` texts; nothing is counted in money.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from foil.engine.errors import TransientModelError
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.models.retry import with_patience
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.trainer.evaluate.systems.dense import DenseSystem, Floats, VectorCache
from foil.trainer.evaluate.systems.llm_replies import hosted_settings
from foil.trainer.evaluate.systems.system import Progress, SystemSettings, quiet
from foil.trainer.text_templates import QueryPair, template_named

MOST_REPLY_BYTES = 64 << 20


class EndpointEncoder:
    """`MODEL@URL`."""

    def __init__(self, name: str, settings: SystemSettings) -> None:
        self._name, self._model, self._settings = f"openai:{name}", name.partition("@")[0], settings
        self.template = template_named(settings.template or "query_instruction")
        hosted = hosted_settings("openai:", name, settings)
        self._hosted = hosted.model_copy(update={"most_reply_bytes": MOST_REPLY_BYTES})

    def facts(self) -> dict[str, str | float]:
        """Where the vectors come from."""
        identity = [self._model, self._hosted.url, self.template.pair, self.template.passage]
        return {"system": self._name, "digest": sha256_hex(canonical_json(identity)), "template": self.template.name}

    def encode(self, passages: Sequence[str], pairs: Sequence[QueryPair]) -> Floats:
        """Unit vectors, [passages + pairs, D]. Raises an error of engine.errors after as many tries as are allowed."""
        texts = [*passages, *(self.template.format_pair(*pair) for pair in pairs)]
        vectors: Floats = np.concatenate(asyncio.run(self._ask(texts)))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    async def _ask(self, texts: Sequence[str]) -> list[Floats]:
        client = EndpointClient(self._hosted.all_endpoints()[0], self._hosted)
        free = asyncio.Semaphore(self._settings.concurrency)

        async def ask(batch: Sequence[str]) -> Floats:
            async with free:
                return await with_patience(partial(self._send, client, batch), self._settings.patience)

        size = self._settings.batch
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        try:
            return await asyncio.gather(*map(ask, batches))
        finally:
            await client.close()

    async def _send(self, client: EndpointClient, batch: Sequence[str]) -> Floats:
        create = client.client().embeddings.create
        try:
            async with asyncio.timeout(self._settings.patience.send_s):
                answer = await client.call(create(model=self._model, input=list(batch), encoding_format="float"))
            rows = sorted(answer.data, key=lambda row: row.index)
            vectors = np.array([row.embedding for row in rows], dtype=np.float32)
        except (TimeoutError, AttributeError, TypeError, ValueError) as error:
            raise TransientModelError(f"{client.url} gave no vectors ({error!r})", unsure=True) from None
        if vectors.ndim != 2 or len(vectors) != len(batch) or not np.linalg.norm(vectors, axis=1).all():
            raise TransientModelError(f"{client.url} answered {vectors.shape} to {len(batch)} texts", unsure=True)
        return vectors


def endpoint(name: str, settings: SystemSettings, cache: Path, on_progress: Progress = quiet) -> DenseSystem:
    """The system of an endpoint."""
    encoder = EndpointEncoder(name, settings)
    return DenseSystem(f"openai:{name}", encoder, VectorCache(cache, str(encoder.facts()["digest"])), on_progress)
