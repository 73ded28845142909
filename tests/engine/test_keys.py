"""Keys: read from their place, cut out of what providers repeat, refused where a job would keep them."""

import pytest

from foil.engine.errors import UsageError
from foil.engine.keys import find_secret, know_key, read_key, scrub, scrub_reply
from foil.engine.requests import Reply

KEY = "sk-canary-0b7f3e55aa"


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", KEY)
    know_key("${FOIL_TEST_KEY}")


def test_every_text_of_a_reply_is_scrubbed(known):
    logprobs = {"content": [{"token": KEY[:4], "logprob": -0.1, "top_logprobs": []}]}
    reply = scrub_reply(Reply("1", f"my key is {KEY}", others=((f"{KEY}{KEY}", "stop"),), logprobs=logprobs))
    assert (reply.text, reply.others, reply.logprobs) == ("my key is ***", (("******", "stop"),), None)
    plain = Reply("1", "no key", logprobs=logprobs)
    assert scrub_reply(plain) is plain


def test_what_is_too_short_for_a_key_is_a_word(monkeypatch):
    monkeypatch.setenv("FOIL_TEST_KEY", "EMPTY")
    know_key("${FOIL_TEST_KEY}")
    assert scrub("EMPTY words") == "EMPTY words"


@pytest.mark.parametrize(
    "content", [b"", b"two words", b"sk-\r\nX-Injected: 1", b"\xff\xfe", b"x" * 20_000, "ключ".encode()]
)
def test_a_file_that_holds_no_key_is_refused_without_its_content(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a key") as raised:
        read_key(f"file:{path}")
    assert "Injected" not in str(raised.value)


@pytest.mark.parametrize("place", ["missing", ".", "a\0b", "~nobody-of-this-name/key"])
def test_a_key_file_that_cannot_be_read_is_named(tmp_path, place):
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(f"file:{place if place.startswith('~') else tmp_path / place}")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"api_key": "x"}, "api_key"),
        ({"headers": {"X-API-Key": "x"}}, "headers.X-API-Key"),
        ({"extra_headers": [{"Authorization": "x"}]}, "extra_headers.0.Authorization"),
        ({"apiKey": 1}, "apiKey"),
        ({"token": "x"}, "token"),
        ({"hf_token": "x"}, "hf_token"),
        ({"password": ""}, "password"),
        ({"a": {"note": f"use {KEY}"}}, "a.note"),
        ({"a": "Bearer abc"}, "a"),
        (
            {
                "max_tokens": 1, "stop_token_ids": [2], "eos_token": "</s>", "prompt_cache_key": "a", "top_k": 3,
                "skip_special_tokens": True, "min_p": 0.1, "author": "x",
            },
            "",
        ),
    ],
)  # fmt: skip
def test_secrets_are_found_by_their_names_and_forms(value, name):
    assert find_secret(value) == name
