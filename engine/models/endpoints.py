"""Where a hosted model is, and how it is to be used: the `models` section of a job."""

import ipaddress
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, model_validator

from foil.engine.answer_forms import Structured
from foil.engine.keys import looks_like_key
from foil.engine.model_traits import Patience
from foil.engine.models.params import Params, Price
from foil.engine.settings import SecretSource, Settings, secret_in_job

_LONGEST_URL = 2000
_URL = re.compile(rf"(?=.{{1,{_LONGEST_URL}}}$)https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]+", re.IGNORECASE)
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_FOUR_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_METADATA_NAMES = {"metadata", "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"}
_METADATA_ADDRESSES = {"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"}
_HOLD_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "64:ff9b::/96")))


class EndpointSettings(Settings):
    """One URL of a model."""

    url: str = Field(description="up to and with /v1")
    api_key: SecretSource = Field("", description="${NAME} of an environment variable, or file:PATH")
    weight: float = Field(1.0, gt=0, le=1e6, description="its share of the load, against the others")
    allow_http: bool = Field(False, description="send the key over plain http to another machine")

    @model_validator(mode="after")
    def _safe(self) -> Self:
        parts = _checked_url(self.url)
        if self.api_key and parts.scheme == "http" and not (_loopback(parts.hostname or "") or self.allow_http):
            raise ValueError(
                "a key over plain http to another machine can be read on the way; use https, or allow_http"
            )
        return self


class BatchSettings(Settings):
    """How requests are gathered under `mode: batch`. A batch holds what is in flight: raise `runtime.window`."""

    linger_s: float = Field(5.0, ge=0, le=86_400, description="seconds without a new request until a batch is sent")
    poll_s: float = Field(30.0, gt=0, le=86_400, description="seconds between two looks at a batch")
    most_requests: int = Field(50_000, ge=1, le=50_000, description="requests in a batch")
    most_bytes: int = Field(190_000_000, ge=1_000, le=200_000_000, description="bytes of a batch's file")


class HostedSettings(Settings):
    """A model behind one or several OpenAI-compatible endpoints."""

    kind: Literal["hosted"] = "hosted"
    model: str = Field(min_length=1, description="the model's name at the endpoint")
    url: str = Field("", description="the endpoint, up to and with /v1; or `endpoints`")
    api_key: SecretSource = Field("", description="${NAME} of an environment variable, or file:PATH")
    allow_http: bool = Field(False, description="send the key over plain http to another machine")
    endpoints: tuple[EndpointSettings, ...] = Field((), description="several that serve the same model")
    mode: Literal["live", "batch"] = Field("live", description="batch: the Batch API, cheaper, within a day")
    batch: BatchSettings = BatchSettings()
    structured: Literal["auto", Structured] = Field(
        "auto", description="how a reply's JSON is asked for; auto chooses by what it sees (docs/models.md)"
    )
    params: Params = Params()
    price: Price = Price()
    most_reply_bytes: int = Field(
        4 << 20, ge=1024, le=256 << 20, description="bytes of a reply, decoded, that are read; more fails"
    )
    rpm: float | None = Field(
        None, ge=0.001, le=1e9, description="requests a minute, for each endpoint, over all workers"
    )
    tpm: float | None = Field(None, ge=1, le=1e12, description="tokens a minute, for each endpoint, over all workers")
    max_concurrency: int = Field(256, ge=2, le=100_000, description="most requests in flight at an endpoint, a worker")
    client: Literal["auto", "openai", "aiohttp"] = Field(
        "auto",
        description="what sends a request for a reply; auto: the openai client while fewer than 64 are in flight, "
        "then aiohttp, which takes a third of the CPU",
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


def _checked_url(url: str) -> SplitResult:
    """The parts of an endpoint's URL. Raises an error that does not repeat it: a key may be anywhere in it."""
    if not _URL.fullmatch(url):
        raise ValueError(
            "expected an http(s) URL such as https://api.example.com/v1, of letters, digits and .-_~/: without blanks "
            f"or %, at most {_LONGEST_URL:,} characters"
        )
    if "@" in url.split("/")[2]:
        raise secret_in_job("expected a URL without a user name or password")
    if "?" in url or "#" in url:
        raise secret_in_job("expected a URL that ends with its path (usually /v1), without ? or #")
    try:
        parts = urlsplit(url)
        readable = _PLACE.fullmatch(parts.netloc) and parts.hostname and parts.port != 0
    except ValueError:
        readable = False
    if not readable:
        raise ValueError("the host or port of the URL cannot be read; a port is a number from 1 to 65535")
    if looks_like_key(url):
        raise secret_in_job("the URL seems to hold a key")
    if _keeps_credentials(parts.hostname or ""):
        raise ValueError(
            "the host is link-local or a cloud's metadata service, where machines keep credentials; use another"
        )
    if _FOUR_NUMBERS.fullmatch(parts.hostname or "") and not _is_address(parts.hostname or ""):
        raise ValueError("the host has the form of an IPv4 address and is none: four numbers up to 255, without zeros")
    return parts


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.IPv4Address(host))
    return False


def _keeps_credentials(host: str) -> bool:
    name = host.rstrip(".").lower()
    with suppress(OSError):  # 2852039166 and 0xA9FEA9FE are addresses too
        name = socket.inet_ntoa(socket.inet_aton(name))
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name in _METADATA_NAMES
    return any(each.is_link_local or str(each) in _METADATA_ADDRESSES for each in _addresses(address))


def _addresses(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The address, and the IPv4 address that it may stand for."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour:
            yield address.sixtofour
        if address.ipv4_mapped or any(address in network for network in _HOLD_IPV4):
            yield ipaddress.IPv4Address(address.packed[-4:])


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
