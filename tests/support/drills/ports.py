"""Ports for servers that are told theirs."""

import secrets
import socket

_PORTS = range(20_000, 32_768)
"""Below those that Linux gives to whoever asks for any (32,768 to 60,999), above those of Ray's workers (10,002 to
19,999): between our choice and the server's start nothing takes one."""


def free_ports(count: int) -> list[int]:
    """Different ones, each free at every address of this machine: a Ray head listens at more than one."""
    found: set[int] = set()
    while len(found) < count:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.add(port)
    return list(found)


def free_port() -> int:
    return free_ports(1)[0]
