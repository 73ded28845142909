"""Who may ask the desk's server: one browser on this machine that was given the token, for pages of this server alone.

    request -> Host is ours? -> token in the cookie, or in the URL once -> a POST comes from our own page? -> the page

Promise: without the token no byte of a run leaves; a page of another site can neither read nor write here (Host, Origin
and SameSite are checked, so names that point to 127.0.0.1 do not help it); a page loads nothing from elsewhere and runs
no script but the server's own files.
"""

import hmac
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with `no-referrer` the forms of our own pages would have no Origin
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
MOST_BODY_BYTES = 1_000_000


class Guard:
    """An ASGI application before another: `port` is the server's own, `token` what was printed at its start."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app, self._token = app, token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"foil-desk-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, refuses it (403), or sends on to the same page without the token in its URL."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        if refusal:
            await PlainTextResponse(f"{refusal}\n", 403)(scope, receive, send_guarded)
        elif self._is_right(_token_in_url(scope)):
            await self._welcome(scope)(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> str:
        """Why the request is refused, in words; "" if it is not."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return "this server answers to 127.0.0.1 alone"
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        if not (self._is_right(cookie) or (scope["method"] == "GET" and self._is_right(_token_in_url(scope)))):
            return "no token, or the token of another start; open the URL that the command printed"
        writes = scope["method"] not in {"GET", "HEAD"}
        if writes and headers.get("origin") != f"http://{host}":
            return "a form of another page may not write here"
        length = headers.get("content-length", "" if writes else "0")
        chunked = "transfer-encoding" in headers  # whose length, where it is sent too, counts for nothing
        if chunked or not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return f"the request does not say its length, or has more than {MOST_BODY_BYTES:,} bytes"
        return ""

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _welcome(self, scope: Scope) -> RedirectResponse:
        """To the same page, with the token as a cookie: it stays out of the history and of links."""
        query = [(k, v) for k, values in _query(scope).items() if k != "token" for v in values]
        path = "/" + scope["path"].lstrip("/")
        answer = RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return answer


def _query(scope: Scope) -> dict[str, list[str]]:
    return parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _token_in_url(scope: Scope) -> str:
    return _query(scope).get("token", [""])[0]
