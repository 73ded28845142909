"""`foil doctor`'s look at the models of a job, or at one MODEL@URL."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foil.cluster.examining.endpoint import Examined
from foil.cluster.examining.questions import Trait, as_data, ask_all
from foil.cluster.job import load_job, settings_from
from foil.engine.errors import ModelError, TransientModelError
from foil.engine.models.endpoints import EndpointSettings, HostedSettings


@dataclass(frozen=True, slots=True)
class Examination:
    """What one endpoint of a model does. `failure`: why it could not be asked, or ""."""

    model: str
    url: str
    roles: tuple[str, ...]
    traits: tuple[Trait, ...]
    failure: str
    requests: int
    tokens: int
    usd: float

    def problems(self) -> list[str]:
        """Why no run should begin with it, a line each."""
        wrong = [f"{self.model} at {self.url}: {t.subject}: {t.finding}; Foil {t.foil}" for t in self.traits if t.wrong]
        return [self.failure, *wrong] if self.failure else wrong

    def data(self) -> dict[str, Any]:
        return {
            "model": self.model, "url": self.url, "roles": list(self.roles), "traits": [*map(as_data, self.traits)],
            "problems": self.problems(), "requests": self.requests, "tokens": self.tokens, "usd": round(self.usd, 6),
        }  # fmt: skip


def names_model(target: str) -> bool:
    """Whether a doctor's argument is MODEL@URL, and no file of a job."""
    return "@" in target and not Path(target).is_file()


def hosted_of(target: str, overrides: Sequence[str]) -> dict[tuple[str, ...], HostedSettings]:
    """The hosted models of a job or of MODEL@URL, each once, under the roles that ask it."""
    if names_model(target):
        model, at, url = target.rpartition("@http")
        if not at:
            model, _, url = target.partition("@")
        address = {"model": model, "url": f"http{url}" if at else url}
        pairs = (f"{name}={json.dumps(value)}" for name, value in address.items())
        return {(): settings_from([*overrides, *pairs], HostedSettings)}
    models = load_job(Path(target), overrides).models
    hosted = {role: settings for role, settings in models.items() if isinstance(settings, HostedSettings)}
    distinct = [model for place, model in enumerate(hosted.values()) if model not in list(hosted.values())[:place]]
    return {tuple(role for role, own in hosted.items() if own == model): model for model in distinct}


def examine(hosted: dict[tuple[str, ...], HostedSettings], long_prompt: int) -> list[Examination]:
    """What each endpoint of each model does; they are asked side by side."""

    async def all_of_them() -> list[Examination]:
        each = (
            _examined(endpoint, settings, roles, long_prompt)
            for roles, settings in hosted.items()
            for endpoint in settings.all_endpoints()
        )
        return await asyncio.gather(*each)

    return asyncio.run(all_of_them())


async def _examined(
    endpoint: EndpointSettings, settings: HostedSettings, roles: tuple[str, ...], long_prompt: int
) -> Examination:
    under = Examined(endpoint, settings, long_prompt)
    traits, failure = [], ""
    try:
        traits = await ask_all(under)
    except TransientModelError as error:
        text = str(error)
        is_answer = text.startswith(f"{endpoint.url} answered")
        failure = text if is_answer else f"{endpoint.url} does not answer: {text.removeprefix(f'{endpoint.url}: ')}"
    except ModelError as error:
        failure = str(error)
    finally:
        await under.client.close()
    counts = under.client.sends, under.tokens, under.usd
    return Examination(settings.model, endpoint.url, roles, tuple(traits), failure, *counts)
