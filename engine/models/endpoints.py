"""Where a hosted model is, and how it is to be used: the `models` section of a job."""

import ipaddress
import socket
from contextlib import suppress
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from engine.model_traits import Patience
from engine.models.params import Params, Price, SecretSource
from engine.settings import Settings

Structured = Literal["json_schema", "json_object", "prompt"]
"""How an endpoint takes a reply's schema."""


class EndpointSettings(Settings):
    """One URL of a model."""

    url: str = Field(description="up to and with /v1")
    api_key: SecretSource = Field(default="", description="${NAME} of an environment variable, or file:PATH")
    weight: float = Field(default=1.0, gt=0, le=1e6, description="its share of the load, beside the others")
    allow_http: bool = Field(default=False, description="send the key over plain http to another machine")

    @model_validator(mode="after")
    def _safe(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise ValueError("expected an http(s) URL without a user name, such as https://api.example.com/v1")
        if _link_local(parts.hostname):
            raise ValueError(f"{parts.hostname} is a link-local address, where clouds keep credentials; use another")
        if self.api_key and parts.scheme == "http" and not (_loopback(parts.hostname) or self.allow_http):
            raise ValueError(
                "a key over plain http to another machine can be read on the way; use https, or allow_http"
            )
        return self


class BatchSettings(Settings):
    """How requests are gathered under `mode: batch`. A batch holds what is in flight: raise `runtime.window`."""

    linger_s: float = Field(
        default=5.0, ge=0, le=86_400, description="seconds without a new request until a batch is sent"
    )
    poll_s: float = Field(default=30.0, gt=0, le=86_400, description="seconds between two looks at a batch")
    most_requests: int = Field(default=50_000, ge=1, le=50_000, description="requests in a batch")
    most_bytes: int = Field(default=190_000_000, ge=1_000, le=200_000_000, description="bytes of a batch's file")


class HostedSettings(Settings):
    """A model behind one or several OpenAI-compatible endpoints."""

    kind: Literal["hosted"] = "hosted"
    model: str = Field(min_length=1, description="the model's name at the endpoint")
    url: str = Field(default="", description="the endpoint, up to and with /v1; or `endpoints`")
    api_key: SecretSource = Field(default="", description="${NAME} of an environment variable, or file:PATH")
    allow_http: bool = Field(default=False, description="send the key over plain http to another machine")
    endpoints: tuple[EndpointSettings, ...] = Field(default=(), description="several that serve the same model")
    mode: Literal["live", "batch"] = Field(default="live", description="batch: the Batch API, cheaper, within a day")
    batch: BatchSettings = BatchSettings()
    structured: Literal["auto", Structured] = Field(
        default="auto", description="how a reply's schema is asked for; auto falls back where json_schema is refused"
    )
    params: Params = Params()
    price: Price = Price()
    rpm: float | None = Field(
        default=None, ge=0.001, le=1e9, description="requests a minute, for each endpoint, over all workers"
    )
    tpm: float | None = Field(
        default=None, ge=1, le=1e12, description="tokens a minute, for each endpoint, over all workers"
    )
    max_concurrency: int = Field(
        default=256, ge=2, le=100_000, description="most requests in flight at an endpoint, a worker"
    )
    patience: Patience = Patience()

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if bool(self.url) == bool(self.endpoints):
            raise ValueError("give either `url` or `endpoints`")
        if len({endpoint.url for endpoint in self.all_endpoints()}) < len(self.all_endpoints()):
            raise ValueError("two endpoints have one url; give each url once")
        if self.mode == "batch" and len(self.all_endpoints()) > 1:
            raise ValueError("mode: batch needs exactly one endpoint")
        return self

    def identity(self) -> dict[str, Any]:
        """The model and how it samples; where it is, what it costs and how fast it may be asked change no row."""
        return {"kind": self.kind, "model": self.model, "params": self.params.plain()}

    def all_endpoints(self) -> tuple[EndpointSettings, ...]:
        """The endpoints, at least one."""
        if not self.url:
            return self.endpoints
        return (EndpointSettings(url=self.url, api_key=self.api_key, allow_http=self.allow_http),)


def _link_local(host: str) -> bool:
    name = host.rstrip(".").lower()
    with suppress(OSError):  # 2852039166 and 0xA9FEA9FE are addresses too
        name = socket.inet_ntoa(socket.inet_aton(name))
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "metadata.google.internal"
    return (getattr(address, "ipv4_mapped", None) or address).is_link_local


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
