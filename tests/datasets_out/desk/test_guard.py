"""The guard before the desk's server, request by request, without a network."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse

from foil.datasets_out.desk.guard import HEADERS, MOST_BODY_BYTES, Guard

TOKEN = "right-token"
COOKIE = {"cookie": f"foil-desk-80={TOKEN}"}


def answer(method="GET", path="/", query="", host="127.0.0.1:80", **headers):
    """Status, headers and body of a request that passes the guard, or not."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in {"host": host, **headers}.items()]
    scope = {
        "type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": named,
    }  # fmt: skip
    asyncio.run(Guard(PlainTextResponse("secret"), 80, TOKEN)(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize(
    "request_facts",
    [
        {},
        {"query": "token=wrong"},
        {"query": "token="},
        {"cookie": "foil-desk-80=wrong"},
        {"cookie": f"foil-desk-81={TOKEN}"},
        {**COOKIE, "host": "evil.test"},
        {**COOKIE, "host": "127.0.0.1:81"},
        {**COOKIE, "host": ""},
        {"query": f"token={TOKEN}", "host": "evil.test:80"},
        {**COOKIE, "method": "POST"},
        {**COOKIE, "method": "POST", "origin": "http://evil.test"},
        {**COOKIE, "method": "POST", "origin": "null"},
        {**COOKIE, "method": "DELETE"},
        {"method": "POST", "query": f"token={TOKEN}", "origin": "http://127.0.0.1:80"},
        {
            **COOKIE,
            "method": "POST",
            "origin": "http://127.0.0.1:80",
            "content_length": str(MOST_BODY_BYTES + 1),
        },
        {**COOKIE, "method": "POST", "origin": "http://127.0.0.1:80", "transfer_encoding": "chunked"},
        {**COOKIE, "method": "POST", "origin": "http://127.0.0.1:80", "content_length": "-1"},
    ],
)
def test_what_is_refused_learns_nothing(request_facts):
    status, headers, body = answer(**request_facts)
    assert status == 403
    assert b"secret" not in body
    assert HEADERS.items() <= headers.items()


def test_the_cookie_opens_every_page():
    status, headers, body = answer(**COOKIE)
    assert (status, body) == (200, b"secret")
    assert HEADERS.items() <= headers.items()
    assert answer(method="POST", origin="http://127.0.0.1:80", content_length="9", **COOKIE)[0] == 200
    assert answer(host="localhost:80", **COOKIE)[0] == 200


@pytest.mark.parametrize(
    ("path", "query", "to"),
    [
        ("/topics", f"q=a+b&token={TOKEN}", "/topics?q=a+b"),
        ("/", f"token={TOKEN}", "/"),
        ("//evil.test/", f"token={TOKEN}", "/evil.test/"),
    ],
)
def test_the_token_in_the_url_becomes_a_cookie_and_leaves_the_address(path, query, to):
    status, headers, body = answer(path=path, query=query)
    assert (status, headers["location"], body) == (303, to, b"")
    assert headers["set-cookie"].startswith(f"foil-desk-80={TOKEN}; HttpOnly;")
    assert "SameSite=strict" in headers["set-cookie"]
