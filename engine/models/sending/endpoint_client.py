"""One endpoint of hosted models: a request becomes a body, and what comes back a reply or an error of engine.errors.

All goes out by the connections of an EndpointClient, most by the openai client. It costs 0.5 ms more CPU a request (it
builds options, headers and URL anew), so that while many requests for replies are in flight, further ones skip it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import aiohttp
import httpx2
import openai

from foil.engine.answer_forms import AnswerForm, Structured, body_of, is_local
from foil.engine.errors import (
    DiscardedReplyError,
    FilteredRequestError,
    ModelError,
    ModelOutageError,
    OversizeReplyError,
    RateLimitedError,
    RefusedRequestError,
    TransientModelError,
    UsageError,
)
from foil.engine.keys import know_key, read_key, scrub
from foil.engine.models.endpoints import EndpointSettings, HostedSettings
from foil.engine.models.params import Dialect, dialect_of
from foil.engine.models.reading import Answer, Usage, UselessReplies, read_answer, retry_after
from foil.engine.models.sending.blame import ACCOUNT, Blame, is_of_account, is_of_filter, is_of_sample
from foil.engine.models.sending.bounded_http import (
    CONNECT_S,
    KEEPALIVE_S,
    BoundedClient,
    Connections,
    JobsClient,
    RawAnswer,
    timeouts,
)
from foil.engine.models.sending.client_errors import (
    connection_error,
    never_connected,
    root_of,
    shape_error,
    status_error,
)
from foil.engine.models.sending.prompt_cuts import PromptCeiling
from foil.engine.requests import Reply, Request, fewest_tokens, is_prompt_cut
from foil.engine.storage.lease import check_fence

LOG = logging.getLogger(__name__)
_WRONG_SHAPE = (ValueError, AttributeError, LookupError, TypeError, RecursionError)
"""What the client's own reading of an answer may end in, which trusts its shape."""
_BROKEN = (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, OSError, *_WRONG_SHAPE)
_NO_SCHEMA = ("response_format", "json_schema", "structured", "guided", "grammar")
_MESSAGE_CHARACTERS = 500
_MOST_LESSONS = 6
"""Refusals of one request that may each teach something about its endpoint."""
_EXCERPT_BYTES = 65_536
FEW_IN_FLIGHT = 64
"""So many requests for replies leave a processor time for the openai client."""

T = TypeVar("T")


class EndpointClient:
    """Talks to one endpoint: sends bodies, returns replies or typed errors. `structured` is how it takes a schema,
    `dialect` how it takes parameters."""

    def __init__(self, endpoint: EndpointSettings, settings: HostedSettings) -> None:
        self.url, self._settings = endpoint.url, settings
        self._key_source, self._guessed, self._cut, self._gives_one = endpoint.api_key, False, False, False
        self._ceiling = PromptCeiling()
        know_key(endpoint.api_key)
        self._most_connections = settings.max_concurrency + 8  # None would mean aiohttp's own 100
        self._connections = Connections(endpoint.url, self._most_connections, settings.most_reply_bytes)
        self._client: openai.AsyncOpenAI | None = None
        self._headers: dict[str, str] = {}
        self._in_flight = 0
        self._chat = endpoint.url.rstrip("/") + "/chat/completions"
        self.form = AnswerForm(settings.structured, local=is_local(endpoint.url))
        self.dialect, self.blame = dialect_of(settings.model), Blame()
        self.useless = UselessReplies(endpoint.url)
        self._schemas_taken: set[tuple[str, ...]] = set()

    async def post(self, request: Request) -> RawAnswer:
        """The answer to one send, 200 or an error of engine.errors. What a refusal teaches holds from then on."""
        self.useless.check()
        for _ in range(_MOST_LESSONS):
            structured, dialect = self.form.structured, self.dialect
            try:
                answer = await self._post(request, structured)
            except RefusedRequestError as error:
                # First of all the choices: what it says of them may name the schema as well.
                single = await self._post_for_one(request, structured, error)
                if single is None:
                    taught = self._learn_schema(request, structured, str(error))
                    if taught or self._learn_dialect(request, dialect, str(error)):
                        continue
                    raise
                answer = single
            if request.schema is not None:
                self._schemas_taken.add(_names_of(request.schema, structured))
            return answer
        return await self._post(request, self.form.structured)

    def _may_refuse_choices(self, request: Request, refusal: RefusedRequestError) -> bool:
        """Whether a refusal may be about the several choices that were asked for; providers name that in many words."""
        is_other = refusal.of_account or isinstance(refusal, FilteredRequestError)
        return not is_other and request.params.get("n", 1) > 1 and "n" not in self.dialect.dropped

    async def _post_for_one(
        self, request: Request, structured: Structured, refusal: RefusedRequestError
    ) -> RawAnswer | None:
        """The answer with one choice to a request for several; None if the refusal cannot have been for the choices."""
        if not self._may_refuse_choices(request, refusal):
            return None
        params = {name: value for name, value in request.params.items() if name != "n"}
        try:
            answer = await self._post(replace(request, params=params), structured)
        except RefusedRequestError:
            return None
        if "n" not in self.dialect.dropped:
            LOG.warning("%s refuses several choices (%s); from now on they are asked for one by one", self.url, refusal)
            self.dialect = replace(self.dialect, dropped=self.dialect.dropped | {"n"})
        return answer

    def _learn_schema(self, request: Request, tried: Structured, refusal: str) -> bool:
        """Whether the endpoint takes a schema otherwise than was tried. One that it took once, it does take."""
        if request.schema is None or not any(word in refusal.lower() for word in _NO_SCHEMA):
            return False
        if _names_of(request.schema, tried) in self._schemas_taken:
            raise DiscardedReplyError(refusal, unsure=True)
        return self.form.refused(tried, self.url)

    def _learn_dialect(self, request: Request, tried: Dialect, refusal: str) -> bool:
        """Whether the endpoint takes parameters otherwise than was tried."""
        learnt = tried.after(refusal, request.params)
        if learnt is not None and self.dialect == tried:
            LOG.warning("%s takes not every parameter; from now on it is asked with %s", self.url, learnt)
            self.dialect = learnt
        return learnt is not None

    def body(self, request: Request, structured: Structured) -> dict[str, Any]:
        return self.dialect.applied(body_of(request, structured))

    async def _post(self, request: Request, structured: Structured) -> RawAnswer:
        await check_fence()  # it may have waited for long
        body = json.dumps(self.body(request, structured), ensure_ascii=False).encode("utf-8", "surrogatepass")
        answer = await self.call(self.fetch(body))
        if 200 <= answer.status < 300:
            return answer
        raise self.error_of(answer.status, answer.content.decode("utf-8", "replace"), answer.headers)

    async def fetch(self, body: bytes) -> RawAnswer:
        """The answer to a request for a reply, of any status, read as far as is allowed."""
        way, client = self._settings.client, self.client()
        self._in_flight += 1
        try:
            if way == "openai" or (way == "auto" and self._in_flight < FEW_IN_FLIGHT):
                return await self._fetch_by_client(client, body)
            timeout = aiohttp.ClientTimeout(sock_connect=self._connect_s())
            return await self._connections.exchange("POST", self._chat, self._headers, body, timeout)
        finally:
            self._in_flight -= 1

    async def _fetch_by_client(self, client: openai.AsyncOpenAI, body: bytes) -> RawAnswer:
        unhurried = httpx2.Timeout(None, connect=self._connect_s())
        try:
            response = await client.post(
                "/chat/completions", content=body, cast_to=httpx2.Response, options={"timeout": unhurried}
            )
        except openai.APIStatusError as error:
            response = error.response
        return RawAnswer(response.status_code, response.headers, response.content)

    async def call(self, sending: Awaitable[T]) -> T:
        """What the client sends, with its errors as those of engine.errors; a TimeoutError passes."""
        try:
            return await sending
        except openai.APIStatusError as error:
            failure = self.error_of(error.status_code, error.message, error.response.headers)
            raise failure from failure.__cause__
        except _BROKEN as error:
            if type(error) is TimeoutError:
                raise
            message = scrub(f"{self.url}: {root_of(error)}")[:_MESSAGE_CHARACTERS]
            failure = TransientModelError(message, unsure=not never_connected(error))
            failure.reached = failure.unsure
            raise failure from connection_error(self._chat, error, message)

    def client(self) -> openai.AsyncOpenAI:
        """The openai client of the running event loop, made at its first use."""
        if self._client is None:
            most = self._most_connections
            limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEPALIVE_S)
            # A proxy would read what goes over plain http, the key too.
            over_tls = self.url.startswith("https:")
            self._client = JobsClient(
                base_url=self.url,
                api_key=self._read_key() or "none",
                max_retries=0,
                timeout=timeouts(self._settings.patience.send_s),
                http_client=BoundedClient(
                    self._connections, self._settings.most_reply_bytes, limits=limits, trust_env=over_tls
                ),
            )
            self._headers = _headers_of(self._client)
        return self._client

    def _connect_s(self) -> float:
        return min(CONNECT_S, self._settings.patience.send_s)

    def _read_key(self) -> str:
        try:
            return read_key(self._key_source)
        except UsageError as error:  # no seed is to blame
            raise ModelOutageError(str(error)) from None

    async def up(self) -> bool:
        """Whether the endpoint answers something else than a request for a reply."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self.client().get("/models", cast_to=httpx2.Response)
        except openai.APIStatusError as error:
            return error.status_code < 500
        except OversizeReplyError:
            return True
        except _BROKEN:
            return False
        return True

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        self._client = None
        await self._connections.close()

    def reply(self, content: bytes, request: Request, latency_s: float) -> Reply:
        """The reply in the body of a 200. Raises TransientModelError for one that is none."""
        try:
            answer = read_answer(content, request)
        except ValueError:
            excerpt = scrub(content[:_EXCERPT_BYTES].decode("utf-8", "replace"))[:_MESSAGE_CHARACTERS]
            failure = TransientModelError(f"{self.url} answered 200 with {excerpt!r}", unsure=True)
            raise failure from shape_error(self.url, str(failure))
        self._warn(answer, request)
        usage, ((text, reason), *other_choices) = answer.usage, answer.choices
        return Reply(
            request_id=request.id,
            text=text,
            model=answer.model,
            finish_reason=reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=self._settings.price.of(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens),
            latency_s=round(max(latency_s, 0.0), 4),
            others=tuple(other_choices),
            logprobs=answer.logprobs,
            cached_tokens=usage.cached_tokens,
            endpoint=self.url,
            revision=answer.revision,
            guessed=usage.guessed,
            elsewhere=answer.elsewhere,
            cut=self._is_cut(request, usage),
        )

    def _warn(self, answer: Answer, request: Request) -> None:
        """Says once of each thing that it is wrong with the replies of this endpoint."""
        usage = answer.usage
        if usage.guessed and not self._guessed:
            self._guessed = True
            LOG.warning(
                "%s tells no usage, or one that cannot be or does not add up; tokens and cost of such replies are "
                "guessed from their characters, or the higher of two sums",
                self.url,
            )
        if is_prompt_cut(request, usage.prompt_tokens):
            words = 2 * fewest_tokens(request)
            self._warn_of_cut(f"read {usage.prompt_tokens:,} tokens of a prompt of {words:,} words")
        if len(answer.choices) < request.params.get("n", 1) and not self._gives_one and "n" not in self.dialect.dropped:
            self._gives_one = True
            LOG.warning("%s gives fewer choices than it is asked for; the others are asked for one by one", self.url)

    def _is_cut(self, request: Request, usage: Usage) -> bool:
        """Whether the prompt was cut as others were, which their counts of tokens alone tell."""
        characters = sum(len(message.content) for message in request.messages)
        if usage.guessed or not self._ceiling.is_cut(characters, usage.prompt_tokens):
            return False
        self._warn_of_cut(f"counts {usage.prompt_tokens:,} tokens for prompts of {self._ceiling.lengths()} characters")
        return True

    def _warn_of_cut(self, sign: str) -> None:
        if not self._cut:
            self._cut = True
            LOG.error(
                "%s (%s) %s: it cuts what does not fit its context, perhaps the instruction; no such reply is taken. "
                "Give the server a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)",
                self.url,
                self._settings.model,
                sign,
            )

    def error_of(self, status: int, message: str, headers: Mapping[str, str]) -> ModelError:
        """The error of engine.errors that a status other than 200 means, with the openai client's as its cause."""
        failure = self._meaning(status, message, headers)
        failure.__cause__ = status_error(self._chat, status, str(failure), headers)
        return failure

    def _meaning(self, status: int, message: str, headers: Mapping[str, str]) -> ModelError:
        text = f"{self.url} answered {status}: {scrub(message)[:_MESSAGE_CHARACTERS]}"
        if status == 429 and "insufficient_quota" not in message:
            return RateLimitedError(text, retry_after(headers))
        if status in {408, 409} or status >= 500 or 300 <= status < 400:
            return TransientModelError(text, retry_after(headers), unsure=status in {500, 502, 504})
        key = f", its key is from {self._key_source}" if self._key_source else ""
        if status == 429:
            return ModelOutageError(f"{text}; it has no credit left{key}: mend the account, and run again")
        if is_of_sample(message):
            return DiscardedReplyError(text, unsure=True)
        of_account = is_of_account(status, message)
        why = f"; it {ACCOUNT.get(status, 'refuses this')}{key}" if of_account else ""
        kind = FilteredRequestError if is_of_filter(message) else RefusedRequestError
        refusal = kind(f"{text}{why}")
        refusal.of_account = of_account
        return refusal


def _names_of(schema: Mapping[str, Any], structured: Structured) -> tuple[str, ...]:
    """What tells an answer's schema, and how it was asked for, from others."""
    return structured, str(schema.get("title")), *schema.get("properties", ())


def _headers_of(client: openai.AsyncOpenAI) -> dict[str, str]:
    """What the client tells of itself and of its user with each request, less the machine that it runs on."""
    headers = {**client.default_headers, **client.auth_headers}
    return {
        name: value
        for name, value in headers.items()
        if isinstance(value, str) and not name.lower().startswith("x-stainless")
    }
