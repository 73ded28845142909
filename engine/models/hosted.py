"""Any OpenAI-compatible endpoint, or several that serve one model.

    Request -> EndpointPool.acquire (pacing) -> POST /chat/completions -> Reply, or an error of engine.errors

    429                                   RateLimitedError, with the pause that it asks for
    408, 409, 5xx, timeout, reset,        TransientModelError; `unsure` where the provider may have done the work
      broken body, an error with 200
    400s                                  RefusedRequestError; one that names a parameter is learnt from first
    one that names a content filter       FilteredRequestError
    one that another prompt meets too     ModelOutageError: the job or the account is to blame (see sending.blame)
    a reply that fitted no schema         DiscardedReplyError: another may fit
    more than `most_reply_bytes`          OversizeReplyError: not sent again, since it was paid and would be as long

Promise: one call of `complete` is one send (more only where an endpoint turns out to refuse response_format or a
parameter, or as a probe of a broken endpoint, which is counted); the key is in no message, reply or repr. Errors of a
send have the openai client's own as their cause.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from foil.engine.errors import (
    DiscardedReplyError,
    ModelError,
    ModelOutageError,
    OversizeReplyError,
    RateLimitedError,
    RefusedRequestError,
    TransientModelError,
)
from foil.engine.ids import sha256_hex
from foil.engine.model_traits import ModelTraits
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.pacing import Endpoint, EndpointPool, FewAreStuckError, RequestSlot
from foil.engine.models.params import thinking_tokens
from foil.engine.models.sending.blame import harmless
from foil.engine.models.sending.client_errors import connection_error
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.engine.protocols import Model
from foil.engine.rates.book import RateAsk, rate_key
from foil.engine.rates.client import AskForRates, RateClient
from foil.engine.requests import Reply, Request, estimate_tokens
from foil.engine.telemetry.spans import note_server

_LOOK_S = 10.0


class Hosted(Model):
    """`share` is this process's part of the rates that the settings give for all workers, unless they are leased."""

    def __init__(self, settings: HostedSettings, share: float = 1.0) -> None:
        self._settings, self._share = settings, share
        self.name, self._patience = settings.model, settings.patience
        self.traits = traits_of(settings)
        self._clients = {endpoint.url: EndpointClient(endpoint, settings) for endpoint in settings.all_endpoints()}
        rates = [share * rate if rate else None for rate in (settings.rpm, settings.tpm)]
        most, failures = settings.max_concurrency, settings.patience.attempts - 1
        endpoints = [
            Endpoint(e.url, e.weight, most, *rates, failures=failures, label=endpoint_label(settings.model, e.url))
            for e in settings.all_endpoints()
        ]
        self.pool = EndpointPool(endpoints, settings.patience.outage_s)
        self._rate_clients: list[RateClient] = []
        self._looking, self._looked = asyncio.Lock(), (0.0, False)
        self._failed_at: dict[str, str] = {}
        self._unasked: list[Reply] = []

    def lease_rates(self, ask: AskForRates) -> None:
        """Shares the rates that the settings name with all workers who ask there; before the first request."""
        per_minute = {"requests": self._settings.rpm, "tokens": self._settings.tpm}
        quotas = {unit: rate / 60 for unit, rate in per_minute.items() if rate}
        keys = {e.url: rate_key(e.url, self.name, e.api_key) for e in self._settings.all_endpoints()}
        for endpoint in self.pool.endpoints if quotas else ():
            about = RateAsk(keys[endpoint.name], secrets.token_hex(8), quotas, self._share)
            client = RateClient(about, ask, self.pool.backlog, self.pool.serve)
            endpoint.requests = client.rates.get("requests", endpoint.requests)
            endpoint.tokens = client.rates.get("tokens", endpoint.tokens)
            self._rate_clients.append(client)

    def heard(self, *, readable: bool) -> None:
        """Notes whether a reply that should be JSON could be read."""
        for client in self._clients.values():
            client.form.heard(client.url, readable=readable)

    async def complete(self, request: Request) -> Reply:
        """One send. Raises an error of engine.errors, after the place at the endpoint is given back."""
        tokens = sum(estimate_tokens(request))
        avoid = self._failed_at.pop(request.id, "")
        probes = unsure = 0
        while True:
            try:
                slot = await self.pool.acquire(tokens, request.affinity, avoid)
                reply = await self._send(slot, request)
            except TransientModelError as error:
                if slot.probe and not isinstance(error, DiscardedReplyError):
                    probes, unsure = probes + 1, unsure + error.unsure
                    continue
                if len(self._clients) > 1:
                    self._failed_at[request.id] = slot.endpoint.name
                error.unsure = error.unsure or unsure > 0
                error.silent_s = self.pool.silent_s()
                raise
            except ModelError as error:
                error.unsure = error.unsure or unsure > 0
                if isinstance(error, FewAreStuckError) and await self._others_pass(request):
                    blamed = ModelError(f"{error}; another prompt passes, so this request is to blame")
                    blamed.unsure = error.unsure
                    raise blamed from error.__cause__
                raise
            return replace(reply, attempts=1 + probes, unsure=unsure) if probes else reply

    async def _others_pass(self, request: Request) -> bool:
        """Whether any endpoint answers another prompt."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._looking:
            if self._looked[0] < began:  # else another has looked meanwhile
                passed = [await self._passes(endpoint, request) for endpoint in self.pool.endpoints]
                self._looked = loop.time(), any(passed)
            return self._looked[1]

    async def _passes(self, endpoint: Endpoint, request: Request) -> bool:
        """Whether an endpoint answers another prompt; then it is up again."""
        if not await self._clients[endpoint.name].up():
            return False
        try:
            await self._ask(endpoint, harmless(request))
        except ModelError:
            return False
        endpoint.revive(asyncio.get_running_loop().time())
        return True

    def unasked_replies(self) -> list[Reply]:
        """The paid replies to prompts of our own; each is handed over once."""
        unasked, self._unasked = self._unasked, []
        return unasked

    async def _ask(self, endpoint: Endpoint, request: Request) -> None:
        """Asks an endpoint for what no seed needs."""
        client, loop = self._clients[endpoint.name], asyncio.get_running_loop()
        endpoint.requests.take(1)
        began = loop.time()
        try:
            async with asyncio.timeout(self._patience.send_s):
                response = await client.post(request)
        except TimeoutError:
            raise TransientModelError(f"{client.url} did not answer another prompt either", unsure=True) from None
        self._unasked.append(client.reply(response.content, request, loop.time() - began))

    async def close(self) -> None:
        """Closes the connections, and gives leased rates back."""
        await asyncio.gather(*(client.close() for client in self._rate_clients))
        for endpoint in self._clients.values():
            await endpoint.close()

    async def _send(self, slot: RequestSlot, request: Request) -> Reply:
        client, loop = self._clients[slot.endpoint.name], asyncio.get_running_loop()
        note_server(client.url)
        try:
            async with self._in_time(slot):
                response = await client.post(request)
            slot.endpoint.learn(response.headers, loop.time())
            reply = client.reply(response.content, request, loop.time() - slot.since)
        except RateLimitedError as error:
            slot.leave("limited", 0, error)
            raise
        except RefusedRequestError as error:
            slot.leave("worked", 0)
            raise await client.blame.of(
                error, request, slot.since, partial(self._ask, slot.endpoint)
            ) from error.__cause__
        except (DiscardedReplyError, ModelOutageError, OversizeReplyError):
            slot.leave("worked", 0)
            raise
        except TransientModelError as error:
            slot.leave("failed", failure=error)
            raise
        except TimeoutError:
            waited_s = loop.time() - slot.since
            allowed = f"{waited_s:.0f} s (patience.timeout_s, deadline_s)"
            late = TransientModelError(f"{client.url} is connected, and did not answer within {allowed}", unsure=True)
            slot.leave("failed", failure=late)
            raise late from connection_error(client.url, TimeoutError(), str(late))
        except BaseException:
            slot.leave(None)
            raise
        client.useless.heard(reply)
        client.blame.passed(slot.since)
        slot.leave("worked", reply.prompt_tokens + reply.completion_tokens)
        return reply

    @asynccontextmanager
    async def _in_time(self, slot: RequestSlot) -> AsyncIterator[None]:
        """Raises TimeoutError inside once the send has taken too long. See Patience.longest_s."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        async with asyncio.timeout(None) as limit:

            def look() -> None:
                nonlocal timer
                endpoint = slot.endpoint
                at = slot.since + self._patience.longest_s(endpoint.slowest_s, alone=endpoint.worked_at <= slot.since)
                if at <= loop.time():
                    limit.reschedule(loop.time())
                else:
                    timer = loop.call_at(min(at, loop.time() + _LOOK_S), look)

            timer = loop.call_at(slot.since + self._patience.send_s, look)
            try:
                yield
            finally:
                if timer:
                    timer.cancel()


def traits_of(settings: HostedSettings) -> ModelTraits:
    """What the engine must know of a hosted model."""
    thinking = thinking_tokens(settings.model, settings.params.reasoning_effort)
    params, price = settings.params.plain(), settings.price.of
    return ModelTraits(params, settings.patience, price, provider="openai", thinking_tokens=thinking, samples=True)


def endpoint_label(model: str, url: str) -> str:
    """What names a model at an endpoint in metrics: 8 hexadecimal digits, so that no part of a URL is shown."""
    return sha256_hex(f"{model} {url}")[:8]
