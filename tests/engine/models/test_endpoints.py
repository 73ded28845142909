"""Where a model may be: no key in a URL, no host that keeps credentials, nothing that two readers read differently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.local.local_vllm import LocalVllmSettings
from tests.support.fuzzing import fuzzed

METADATA = [
    "169.254.169.254", "169.254.169.254.", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]", "[fe80::1]", "[fd00:ec2::254]", "[FD00:0EC2:0::254]", "[fd20:ce::254]", "100.100.100.200",
    "1684301000", "[::ffff:100.100.100.200]", "metadata.google.internal", "METADATA.google.internal.", "metadata.goog",
    "168.63.129.16", "192.0.0.192",
]  # fmt: skip


@pytest.mark.parametrize("host", METADATA)
def test_hosts_that_keep_credentials_are_refused(host):
    for url in (f"http://{host}/v1", f"https://{host}:8080/v1"):
        with pytest.raises(ValidationError, match="link-local or a cloud's metadata service"):
            HostedSettings(model="m", url=url)


WRONG = [
    ("https://a.example/v1\r\nX-Injected: 1", "expected an http"),
    ("https://a.example\n", "expected an http"),
    ("https://a.exa mple/v1", "expected an http"),
    ("https://a.example\\@b.example/v1", "expected an http"),
    ("http://169.254.169%2e254/v1", "expected an http"),
    ("http://bücher.example/v1", "expected an http"),
    ("http://[fe80::1%25eth0]/v1", "expected an http"),
    ("https://a.example:99999999/v1", "port"),
    ("https://a.example:0/v1", "port"),
    ("https://a.example:x/v1", "port"),
    ("https://:80/v1", "host"),
    ("https://[::1/v1", "host or port"),
    ("https://[1.2.3]/v1", "host or port"),
    ("file:///etc/passwd", "expected an http"),
    ("https://" + "a" * 3000, "expected an http"),
    ("https://user:sk-canary-1@a.example/v1", "without a user name"),
    ("https://:sk-canary-1@a.example/v1", "without a user name"),
    ("https://@a.example/v1", "without a user name"),
    ("https://a.example/v1?key=sk-canary-1", r"without \? or #"),
    ("https://a.example/v1?token=canary", r"without \? or #"),
    ("https://a.example/v1#canary", r"without \? or #"),
    ("https://a.example/sk-canary-0123456789ab/v1", "seems to hold a key"),
]


@pytest.mark.parametrize(("url", "message"), WRONG)
def test_a_url_that_is_none_or_holds_a_key_is_refused(url, message):
    for place in ({"url": url}, {"endpoints": [{"url": url}]}):
        with pytest.raises(ValidationError, match=message) as refused:
            HostedSettings.model_validate({"model": "m", **place})
        assert all("canary" not in error["msg"] for error in refused.value.errors())


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1", "http://127.0.0.1:8000/v1", "http://localhost:1/v1", "http://[::1]:8000/v1",
        "HTTPS://api.example.com:65535", "http://10.0.0.7/a/b~c_d-e.f/v1/", "http://host_with_underscore:8080/v1",
    ],
)  # fmt: skip
def test_plain_urls_are_taken(url):
    assert HostedSettings(model="m", url=url).all_endpoints()[0].url == url


@pytest.mark.parametrize("host", ["169.254.169.25480", "256.1.1.1", "10.0.0.07"])
def test_four_numbers_that_are_no_address_are_refused(host):
    with pytest.raises(ValidationError, match="IPv4 address and is none"):
        HostedSettings(model="m", url=f"http://{host}/v1")


PARTS = [
    "http://",
    "https://",
    "a.example",
    "[::1]",
    "169.254.169.254",
    ":",
    "80",
    "@",
    "/v1",
    "?k=",
    "#",
    "%",
    "[",
    "\n",
]


@fuzzed(400)
@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=7).map("".join))
def test_any_url_is_refused_or_makes_a_client(url):
    try:
        settings = HostedSettings(model="m", url=url)
    except ValidationError:
        return
    client = next(iter(Hosted(settings)._clients.values()))
    url = client.client().base_url
    assert not url.userinfo
    assert url.host != "169.254.169.254"


def test_secrets_are_refused_among_what_is_passed_on():
    for extra in ({"api_key": "canary"}, {"metadata": {"headers": {"Authorization": "canary"}}}):
        with pytest.raises(ValidationError, match="looks like a secret"):
            HostedSettings.model_validate({"model": "m", "url": "https://a.example/v1", "params": {"extra": extra}})
    with pytest.raises(ValidationError, match="hf_token looks like a secret"):
        LocalVllmSettings(kind="local_vllm", model="m", engine_args={"hf_token": "canary"})
