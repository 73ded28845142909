"""HTTP of which no more is read than was allowed, whatever a provider sends."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai

from foil.engine.errors import OversizeReplyError

CONNECT_S = 10.0
KEEPALIVE_S = 60.0
_ERROR_BYTES = 65_536
ABOUT_BYTES = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers that say how an answer's bytes were sent; once read, they are plain bytes."""
_OF_CONNECTION = {"accept-encoding", "connection", "content-length", "host"}
"""Headers that a connection writes itself."""

_OF_CLIENT = ("accept", "content-type", "user-agent", "x-stainless-")
_OF_ACCOUNT = ("openai-organization", "openai-project")


class RawAnswer(NamedTuple):
    """What an endpoint answered: no more than the bytes that were allowed, decoded."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Connections:
    """The connections to one endpoint, in the event loop that sends first; at most `most` of them."""

    def __init__(self, url: str, most: int, most_bytes: int) -> None:
        self._url, self._most, self._most_bytes = url, most, most_bytes
        self._session: aiohttp.ClientSession | None = None

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Which certificates are believed; reading them takes a tenth of a second."""
        return httpx2.create_ssl_context()

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, patience: aiohttp.ClientTimeout
    ) -> RawAnswer:
        """The answer to a request, of any status, read as far as is allowed; a redirect is not followed."""
        sending = self._opened().request(
            method, url, data=body or None, headers=headers, allow_redirects=False, timeout=patience
        )
        async with sending as response:
            most = self._most_bytes if 200 <= response.status < 300 else None
            content = await read(response.content.iter_any(), most, response.host)
            return RawAnswer(response.status, response.headers, content)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._most, keepalive_timeout=KEEPALIVE_S, ssl=self.tls),
                proxy=proxy_of(self._url),
            )
        return self._session

    async def close(self) -> None:
        """Closes them; the next request opens others."""
        if self._session is not None:
            await self._session.close()
        self._session = None


class JobsClient(openai.AsyncOpenAI):
    """The openai client with the headers of its job alone: what the environment says (OPENAI_CUSTOM_HEADERS, which may
    hold keys of others, and OPENAI_ORG_ID, OPENAI_PROJECT_ID) is not for every endpoint. The ids go to OpenAI's own."""

    @property
    def default_headers(self) -> dict[str, str | openai.Omit]:
        wanted: tuple[str, ...] = _OF_CLIENT
        if f".{self.base_url.host}".endswith(".openai.com"):
            wanted += _OF_ACCOUNT
        headers = {name: value for name, value in super().default_headers.items() if name.lower().startswith(wanted)}
        return {**headers, **self.auth_headers}


class BoundedClient(openai.DefaultAioHttpClient):
    """What the openai client sends by: the connections to its endpoint, which read no more than is allowed.

    A file goes up, and a stream comes down, by a connection of its own; a stream is its reader's to bound.
    """

    def __init__(self, connections: Connections, most_bytes: int, **options: Any) -> None:
        super().__init__(follow_redirects=False, verify=connections.tls, **options)
        self._connections, self._most_bytes = connections, most_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        body = None if stream else _read_body(request)
        if body is not None:
            return await self._exchange(request, body)
        response = await super().send(request, stream=True, **options)
        if stream and response.is_success:
            return response
        try:
            async with aclosing(response.aiter_bytes()) as parts:
                content = await read(parts, self._most_bytes if response.is_success else None, response.url.host)
        finally:
            await response.aclose()
        return _whole(request, RawAnswer(response.status_code, response.headers, content))

    async def _exchange(self, request: httpx2.Request, body: bytes) -> httpx2.Response:
        seconds = request.extensions.get("timeout", {})
        timeout = aiohttp.ClientTimeout(sock_connect=seconds.get("connect"), sock_read=seconds.get("read"))
        headers = {name: value for name, value in request.headers.items() if name not in _OF_CONNECTION}
        try:
            answer = await self._connections.exchange(request.method, str(request.url), headers, body, timeout)
        except (aiohttp.ClientError, OSError) as error:
            kind = httpx2.TimeoutException if isinstance(error, TimeoutError) else httpx2.TransportError
            raise kind(str(error), request=request) from error
        return _whole(request, answer)


def _read_body(request: httpx2.Request) -> bytes | None:
    """The body of a request, None for a file."""
    try:
        return request.content
    except httpx2.RequestNotRead:
        return None


def _whole(request: httpx2.Request, answer: RawAnswer) -> httpx2.Response:
    """The answer as the openai client takes it."""
    headers = [
        (name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
        for name, value in answer.headers.items()
        if name.lower() not in ABOUT_BYTES
    ]
    whole = httpx2.Response(answer.status, headers=headers, content=answer.content, request=request)
    whole.encoding = "utf-8"  # a charset such as zip would be unpacked
    return whole


async def read(parts: AsyncIterable[bytes], most: int | None, host: str) -> bytes:
    """The bytes of a reply, or with None the first of an error. Raises OversizeReplyError for more than `most`."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > (most or _ERROR_BYTES):
            break
    if most and len(content) > most:
        raise OversizeReplyError(
            f"{host} answered with more than {most:,} bytes (most_reply_bytes), which was cut off and may be billed; "
            "raise it if replies are that long"
        )
    return bytes(content[:_ERROR_BYTES] if most is None else content)


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an https URL; over plain http it would read the key too."""
    parts = urlsplit(url)
    if parts.scheme != "https" or proxy_bypass(parts.netloc):
        return None
    proxy = getproxies().get("https") or getproxies().get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def timeouts(seconds: float) -> httpx2.Timeout:
    """So many seconds for each step, and less for a connection."""
    return httpx2.Timeout(seconds, connect=min(CONNECT_S, seconds))
