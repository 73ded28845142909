"""One endpoint under `foil doctor`'s questions: asks it by the client of a run, and counts what that took."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from foil.engine.errors import ModelError, RefusedRequestError
from foil.engine.model_traits import Patience
from foil.engine.models.endpoints import EndpointSettings, HostedSettings
from foil.engine.models.params import thinking_tokens
from foil.engine.models.reading import thoughts_in
from foil.engine.models.retry import with_patience
from foil.engine.models.sending.bounded_http import RawAnswer
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.engine.requests import Message, Reply, Request

_TINY = 64
"""Tokens of an answer."""
_OWN = {"n", "logprobs", "top_logprobs", "seed", "temperature", "max_tokens", "max_completion_tokens"}
"""Parameters that a question sets, or leaves out, whatever the job says."""
_ATTEMPTS, _DEADLINE_S = 3, 60.0
_SYSTEM = "You answer in as few words as you can."
_CONTEXTS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Names under which servers tell the context of a model in their list."""


@dataclass(frozen=True, slots=True)
class HeardReply:
    """A reply, the field that holds its thoughts ("" for none), and their tokens where they are counted."""

    reply: Reply
    thoughts: str
    thought_tokens: int


class _CountingClient(EndpointClient):
    sends = 0

    async def fetch(self, body: bytes) -> RawAnswer:
        self.sends += 1
        return await super().fetch(body)


class Examined:
    """`room` is the most tokens of an answer, `long_prompt` the words of the longest prompt."""

    def __init__(self, endpoint: EndpointSettings, settings: HostedSettings, long_prompt: int) -> None:
        self.settings, self.long_prompt = settings, long_prompt
        self.client = _CountingClient(endpoint, settings)
        self.thinking_tokens = thinking_tokens(settings.model, settings.params.reasoning_effort)
        self.room = _TINY + self.thinking_tokens
        self.tokens, self.usd = 0, 0.0
        own = settings.params.plain().items()
        self._params = {name: value for name, value in own if name not in _OWN}
        self._patience = Patience(attempts=_ATTEMPTS, deadline_s=_DEADLINE_S)

    async def ask(self, text: str, schema: Mapping[str, Any] | None = None, **params: Any) -> HeardReply:
        """The reply to a short question. Raises the ModelError of a send that fails three times, or is refused."""
        turns = (Message("system", _SYSTEM), Message("user", text))
        parameters = {"temperature": 0.0, "max_tokens": self.room, **self._params, **params}
        request = Request(self.settings.model, turns, parameters, schema)
        return await with_patience(lambda: self._send(request), self._patience)

    async def _send(self, request: Request) -> HeardReply:
        limit = self.settings.patience.longest_s(0.0, alone=True)
        try:
            async with asyncio.timeout(limit):
                answer = await self.client.post(request)
        except TimeoutError:
            raise ModelError(f"{self.client.url} did not answer within {limit:.0f} s; raise `patience`") from None
        reply = self.client.reply(answer.content, request, 0.0)
        self.tokens += reply.prompt_tokens + reply.completion_tokens
        self.usd += reply.cost_usd
        return HeardReply(reply, *thoughts_in(answer.content))

    async def told_context(self) -> int:
        """The context in tokens that the list of models tells, 0 where it tells none."""
        try:
            listed = [model for model in await self.listed_models() if model["id"] == self.settings.model]
            return next(int(model[name]) for model in listed for name in _CONTEXTS if model.get(name))
        except (ModelError, TimeoutError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
            return 0

    async def listed_models(self) -> list[dict[str, Any]]:
        """The list of models at the endpoint. Raises ModelError, or one of the list's form."""
        answer = await self.client.call(self.client.client().get("/models", cast_to=httpx2.Response))
        models: list[dict[str, Any]] = answer.json()["data"]
        return models

    async def has_batches(self) -> bool:
        """Whether the Batch API is there: its list of batches is looked at."""
        try:
            answer = await self.client.call(self.client.client().get("/batches?limit=1", cast_to=httpx2.Response))
            return isinstance(answer.json()["data"], list)
        except RefusedRequestError:
            return False
        except (ValueError, LookupError, TypeError):  # some answer 200 to what they do not know
            return False
