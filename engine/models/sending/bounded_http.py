"""HTTP of which no more is read than was allowed, whatever a provider sends."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import openai

from foil.engine.errors import OversizeReplyError

CONNECT_S = 10.0
_ERROR_BYTES = 65_536
_ABOUT_BYTES = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers that say how an answer's bytes were sent; once read, they are plain bytes."""


class RawAnswer(NamedTuple):
    """What an endpoint answered: no more than the bytes that were allowed, decoded."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class BoundedClient(openai.DefaultAioHttpClient):
    """An HTTP client that reads no more than `most_bytes` of an answer, decoded; of an error, its beginning.

    A stream is its reader's to bound.
    """

    def __init__(self, most_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        self._most_bytes = most_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        response = await super().send(request, stream=True, **options)
        if stream and response.is_success:
            return response
        try:
            async with aclosing(response.aiter_bytes()) as parts:
                content = await read(parts, self._most_bytes if response.is_success else None, response.url.host)
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _ABOUT_BYTES]
        whole = httpx2.Response(response.status_code, headers=headers, content=content, request=request)
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
