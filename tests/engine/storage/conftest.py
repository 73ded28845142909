"""The stores that the laws are tried on: a folder, and buckets of the servers that are installed here."""

import os

import pytest

from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.object_store import ObjectStore
from tests.support.storage import servers

SERVERS = {
    "localbucket": (servers.localbucket, "localbucket"),
    "google": (servers.google, "localbucket"),
    "azurite": (servers.azurite, "azurite-blob"),
    "seaweedfs": (servers.seaweedfs, "weed"),
}
SCHEMES = {"google": "gs", "azurite": "az"}


@pytest.fixture(scope="session")
def server_of(tmp_path_factory):
    """The URL of a server by its name; it starts at the first question, and ends with the tests."""
    running, ended = {}, []

    def start(name: str) -> str:
        serve, program = SERVERS[name]
        if servers.program(program) is None:
            pytest.skip(f"{program} is not installed")
        if name not in running:
            context = serve(tmp_path_factory.mktemp(name) / "bucket")
            running[name] = context.__enter__()
            ended.append(context)
        return running[name]

    yield start
    for context in ended:
        context.__exit__(None, None, None)


@pytest.fixture
def make_store(server_of, tmp_path, monkeypatch):
    """Makes the store of a kind, each call the same one anew; what it keeps on this machine lies under tmp_path."""
    monkeypatch.setenv("FOIL_CACHE", str(tmp_path / "cache"))

    def make(kind: str):
        if kind == "local":
            return LocalStore(tmp_path / "run")
        for name, value in servers.environment(server_of(kind)).items():
            monkeypatch.setenv(name, value)
        return ObjectStore(f"{SCHEMES.get(kind, 's3')}://{servers.BUCKET}/{tmp_path.name}-{os.getpid()}", patience_s=30)

    return make


LONG = pytest.param("seaweedfs", marks=pytest.mark.long)  # it answers late now and then, and another at its side more


@pytest.fixture(params=["local", "localbucket", "google", "azurite", LONG])
def store(request, make_store):
    return make_store(request.param)
