"""A model's responses to IFEval's prompts, as many as MAIR's sub-tasks take (arXiv 2410.10127, section 5.4).

    prompt -> choices of one request after another -> until `followers` follow all of its instructions and
              `candidates` less these do not, or `most` are drawn

MAIR drew from gpt-3.5-turbo until it had 100, of which 10 follow. A response that was cut, or is empty, is none.
"""

import asyncio
from collections.abc import Sequence

from pydantic import Field

from foil.engine.requests import Message, Reply, Request, ending_of
from foil.trainer.evaluate.benchmarks.making.ifeval import VerifiablePrompt
from foil.trainer.evaluate.benchmarks.making.ifeval_checks import follows_all
from foil.trainer.evaluate.systems.llm_replies import Ask
from foil.trainer.evaluate.systems.system import SystemSettings


class RespondingSettings(SystemSettings):
    """How many responses a model gives to each prompt, and how it draws them."""

    candidates: int = Field(100, ge=2, le=10_000, description="responses wanted of a prompt")
    followers: int = Field(10, ge=1, le=10_000, description="of these that follow all of its instructions")
    most: int = Field(300, ge=1, le=100_000, description="responses drawn of a prompt, whatever they follow")
    choices: int = Field(10, ge=1, le=1_000, description="responses that one request asks for (`n`)")
    temperature: float = Field(1.0, ge=0, le=100, description="of the draws")
    max_tokens: int = Field(1_024, ge=1, le=10**6, description="of a response; one that is cut is left out")


async def respond(
    prompts: Sequence[VerifiablePrompt], settings: RespondingSettings, ask: Ask, model: str
) -> list[dict[str, bool]]:
    """For each prompt its different responses in the order drawn, with whether they follow all instructions."""

    async def draw(prompt: VerifiablePrompt) -> dict[str, bool]:
        responses: dict[str, bool] = {}
        for number in range(-(-settings.most // settings.choices)):
            if is_enough(responses, settings):
                break
            reply = await ask(_request(prompt, settings, model, number))
            for text in _whole(reply):
                responses[text] = follows_all(text, prompt.ids, prompt.arguments)
        return responses

    return list(await asyncio.gather(*map(draw, prompts)))


def is_enough(responses: dict[str, bool], settings: RespondingSettings) -> bool:
    """Whether a query can have all the candidates of both kinds that are wanted."""
    following = sum(responses.values())
    return following >= settings.followers and len(responses) - following >= settings.candidates - settings.followers


def _request(prompt: VerifiablePrompt, settings: RespondingSettings, model: str, number: int) -> Request:
    """The request number `number` of a prompt; its seed sets it apart from the others."""
    params = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "n": settings.choices,
              "seed": number}  # fmt: skip
    return Request(model, (Message("user", prompt.prompt),), params)


def _whole(reply: Reply) -> list[str]:
    choices = [(reply.text, reply.finish_reason), *reply.others]
    return [text for text, reason in choices if text.strip() and ending_of(reason) == "whole"]
