"""Both ways that a request for a reply goes out by, for every drill with an endpoint."""

import pytest

from foil.engine.models.sending import endpoint_client


@pytest.fixture(params=["openai", "aiohttp"])
def each_way(request, monkeypatch):
    """Where the settings leave it open, all requests of this process go out this way."""
    few = {"openai": 10**9, "aiohttp": 0}[request.param]
    monkeypatch.setattr(endpoint_client, "FEW_IN_FLIGHT", few)
    return request.param
