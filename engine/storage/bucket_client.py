"""The client of a bucket, made from its URL; who we are is found as the cloud's own tools find it:
variables, profile, metadata of the machine, web identity.
"""

import configparser
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_REQUEST_S = 120
_CLIENT_S = 5.0
"""Seconds for which the client itself tries a request again."""


def connect(url: str, patience_s: float) -> "Client":
    """The client of a bucket's URL, which itself tries a request again for a short while."""
    from obstore.store import from_url

    retry: Any = {  # short, since a signal waits for it to end; `_repeat` has the patience
        "max_retries": 10,
        "retry_timeout": timedelta(seconds=min(patience_s, _CLIENT_S)),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    }
    options: Any = {  # the scheme of the endpoint decides on encryption
        "allow_http": True, "timeout": timedelta(seconds=_REQUEST_S), "connect_timeout": timedelta(seconds=10),
    }  # fmt: skip
    more: Any = {**_profile(os.environ), "disable_bulk_delete": True} if url.startswith("s3:") else {}
    return from_url(url, client_options=options, retry_config=retry, **more)


def read_object(client: "Client", key: str) -> bytes | None:
    """The bytes of an object; None where there is none."""
    import obstore

    try:
        return bytes(obstore.get(client, key).bytes())
    except FileNotFoundError:
        return None


def size_of(client: "Client", key: str) -> int | None:
    """The size of an object in bytes; None where there is none."""
    import obstore

    try:
        return obstore.head(client, key)["size"]
    except FileNotFoundError:
        return None


def refusals() -> tuple[type[Exception], ...]:
    """What the client raises where another attempt is of no use. FileNotFoundError of a put: there is no bucket."""
    from obstore import exceptions

    return (
        FileNotFoundError, NotImplementedError, exceptions.InvalidPathError, exceptions.NotSupportedError,
        exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.UnknownConfigurationKeyError,
    )  # fmt: skip


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    """What AWS's files say of the profile, where the variables hold no key. Those need another tool's program (SSO,
    `credential_process`) are not read: such a tool can put the keys into variables.
    """
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {}
    name = environment.get("AWS_PROFILE") or "default"
    files = configparser.ConfigParser(interpolation=None)
    home = Path("~/.aws").expanduser()
    with suppress(configparser.Error):
        files.read(
            [
                environment.get("AWS_CONFIG_FILE") or home / "config",
                environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials",
            ],
            encoding="utf-8",
        )
    settings = {**_section(files, f"profile {name}"), **_section(files, name)}
    variables = {"region": "AWS_REGION", "endpoint_url": "AWS_ENDPOINT_URL"}
    names = {
        "aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key",
        "aws_session_token": "session_token", "region": "region", "endpoint_url": "endpoint",
    }  # fmt: skip
    return {
        client_name: settings[aws_name]
        for aws_name, client_name in names.items()
        if aws_name in settings and not environment.get(variables.get(aws_name, ""))
    }


def _section(files: configparser.ConfigParser, name: str) -> dict[str, str]:
    return dict(files[name]) if files.has_section(name) else {}
