"""Whether anything answers at the address of a Ray head, found out in seconds: Ray itself waits long and in silence."""

import socket
from urllib.parse import urlsplit

from foil.engine.errors import ClusterUnreachableError

_CONNECT_S = 10.0
_DASHBOARD_PORT = 8265


def check_reachable(address: str, most_s: float = _CONNECT_S) -> None:
    """Raises ClusterUnreachableError unless something listens there within so many seconds. `local`, `auto` and bare
    names pass.

    `address`: HOST:PORT, ray://HOST:PORT or http://HOST[:PORT].
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    default = {"http": _DASHBOARD_PORT, "https": 443}.get(parts.scheme)
    try:
        host, port = parts.hostname, parts.port or default
        if host is None or port is None:
            return
        socket.create_connection((host, port), timeout=most_s).close()
    except (OSError, ValueError) as error:
        raise unreachable(address, error) from None


def unreachable(address: str, why: object) -> ClusterUnreachableError:
    """The error for an address at which no head answers."""
    return ClusterUnreachableError(
        f"no Ray head answers at {address}: {why}; start one with `ray start --head`, correct the address, or see that "
        "RAY_AUTH_MODE and its token are those of the cluster"
    )
