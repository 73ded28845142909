"""What goes wrong with a send, as the errors of the openai client, however it was sent; no key is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import aiohttp
import httpx2
import openai

from foil.engine.keys import scrub
from foil.engine.models.sending.bounded_http import ABOUT_BYTES

_OF_STATUS: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
}


def status_error(url: str, status: int, message: str, headers: Mapping[str, str]) -> openai.APIStatusError:
    """The client's error for a status other than 200; `response` has the status and the headers."""
    kind = _OF_STATUS.get(status, openai.InternalServerError if status >= 500 else openai.APIStatusError)
    of_answer = {name: scrub(value) for name, value in headers.items() if name.lower() not in ABOUT_BYTES}
    plain = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in of_answer.items()]
    response = httpx2.Response(status, headers=plain, request=httpx2.Request("POST", url))
    return kind(message, response=response, body=None)


def connection_error(url: str, error: BaseException, message: str) -> openai.APIConnectionError:
    """The client's error for a send that no whole answer came to."""
    request = httpx2.Request("POST", url)
    if any(isinstance(cause, TimeoutError | openai.APITimeoutError) for cause in _causes(error)):
        return openai.APITimeoutError(request)
    return openai.APIConnectionError(message=message, request=request)


def shape_error(url: str, message: str) -> openai.APIResponseValidationError:
    """The client's error for a 200 that is no reply."""
    response = httpx2.Response(200, request=httpx2.Request("POST", url))
    return openai.APIResponseValidationError(response=response, body=None, message=message)


def root_of(error: BaseException) -> str:
    """What a connection said, or the error itself."""
    own = (cause for cause in _causes(error) if isinstance(cause, aiohttp.ClientError | OSError))
    cause = next(own, error)
    return f"{type(cause).__name__}: {cause}"


def never_connected(error: BaseException) -> bool:
    """Whether nothing can have been sent."""
    return any(isinstance(cause, aiohttp.ClientConnectorError) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
