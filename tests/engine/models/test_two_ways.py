"""The two ways that a request for a reply goes out by, beside each other: what is sent, read and raised is the same."""

import asyncio
import traceback

import openai
import pytest

from foil.engine.errors import ModelError
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.engine.requests import Message, Request
from tests.support.models.raw_server import answering, http
from tests.support.models.scripted_server import answered, scripted

KEY = "sk-canary-77b0c1d2e3"
WAYS = ["openai", "aiohttp"]


def ask(url, way, times=1):
    """What so many sends at once end in."""

    async def send():
        hosted = Hosted(
            HostedSettings.model_validate({"model": "m", "url": url, "client": way, "api_key": "${FOIL_TEST_KEY}"})
        )
        asked = [Request("m", (Message("user", f"a t\u00e4sk \ud800 {number}"),)) for number in range(times)]
        try:
            return await asyncio.gather(*map(hosted.complete, asked), return_exceptions=True)
        finally:
            await hosted.close()

    return asyncio.run(send())


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-7")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer of-a-gateway\nX-Gateway: secret-of-a-gateway")


def by_client(headers):
    return any(name.lower().startswith("x-stainless") for name in headers)


def test_both_send_the_same_body_under_the_same_key_and_nothing_of_the_environment():
    sent = []
    for way in WAYS:
        with scripted(lambda _, __: answered()) as server:
            ask(server.url, way)
            (body,), (headers,) = [body for _, body in server.sends], server.headers
        assert by_client(headers) is (way == "openai")
        told = {name.lower(): value for name, value in headers.items()}
        sent.append((body, {name: told[name] for name in told if not name.startswith(("x-stainless", "host"))}))
    assert sent[0] == sent[1]
    assert sent[0][1]["authorization"] == f"Bearer {KEY}"
    assert sent[0][1].keys().isdisjoint({"openai-organization", "x-gateway"})
    assert "gateway" not in str(sent)


@pytest.mark.parametrize(
    ("url", "organization"),
    [
        ("https://api.openai.com/v1", "org-7"),
        ("https://eu.api.openai.com/v1", "org-7"),
        ("https://api.notopenai.com/v1", None),
        ("https://openai.com.example/v1", None),
    ],
)
def test_ids_of_the_account_go_to_its_own_provider_alone(url, organization):
    async def headers():
        settings = HostedSettings.model_validate({"model": "m", "url": url, "api_key": "${FOIL_TEST_KEY}"})
        client = EndpointClient(settings.all_endpoints()[0], settings)
        try:
            return client.client().default_headers
        finally:
            await client.close()

    found = asyncio.run(headers())
    assert (found.get("OpenAI-Organization"), found["Authorization"]) == (organization, f"Bearer {KEY}")
    assert "X-Gateway" not in found


@pytest.mark.parametrize(("at_once", "expected"), [(8, 8), (100, 63)])
def test_the_client_sends_while_few_requests_are_in_flight(at_once, expected):
    async def send(url):
        settings = HostedSettings.model_validate({"model": "m", "url": url})
        client = EndpointClient(settings.all_endpoints()[0], settings)
        body = b'{"messages": [{"content": "a task"}]}'
        try:
            return await asyncio.gather(*(client.fetch(body) for _ in range(at_once)))
        finally:
            await client.close()

    with scripted(lambda _, __: answered(seconds=0.1)) as server:
        answers = asyncio.run(send(server.url))
        assert sum(map(by_client, server.headers)) == expected
    assert {answer.status for answer in answers} == {200}


REFUSALS = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    418: openai.APIStatusError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    503: openai.InternalServerError,
}


@pytest.mark.parametrize("status", REFUSALS)
def test_both_raise_the_same_error_with_the_clients_own_as_its_cause_and_no_key(status):
    body = f'{{"error": {{"message": "no, {KEY}!"}}}}'.encode()
    ends = []
    for way in WAYS:
        answer = http(body, f"{status} No", retry_after="7", x_request_id=f"req-{KEY}-1")
        with answering(lambda _, answer=answer: answer) as server:
            (error,) = ask(server.url, way)
        assert isinstance(error, ModelError)
        cause = error.__cause__
        assert type(cause) is REFUSALS[status]
        assert KEY not in "".join(traceback.format_exception(error)) + repr(vars(cause.response)) + repr(cause)
        pause = getattr(error, "retry_after_s", None)
        ends.append((type(error), str(error).replace(server.url, "URL"), error.unsure, pause, cause.request_id))
    assert ends[0] == ends[1]
    assert ends[0][-1] == "req-***-1"


def test_nobody_at_home_is_a_connection_error_on_both_ways():
    ends = []
    for way in WAYS:
        (error,) = ask("http://127.0.0.1:9/v1", way)
        assert type(error.__cause__) is openai.APIConnectionError
        ends.append((type(error), str(error), error.unsure, error.reached))
    assert ends[0] == ends[1]
    assert ends[0][2:] == (False, False)
