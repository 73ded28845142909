"""An `ask` that the character answers on the spot, as a model would: from the messages alone, read and checked."""

from dataclasses import dataclass, field

from foil.engine.flow.ask import schema_of
from foil.engine.protocols import Prompt
from foil.prompts.parse import parse_reply
from tests.support.models.character import Character


@dataclass
class CharacterAsk:
    """Keeps the prompts, and the types of what they ask for. A faulty reply is not corrected."""

    character: Character = field(default_factory=Character)
    prompts: list[Prompt] = field(default_factory=list)
    answers: list[type] = field(default_factory=list)
    calls = ()

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        self.prompts.append(prompt)
        self.answers.append(answer)
        turns = [{"role": turn.role, "content": turn.content} for turn in prompt.messages]
        schema = schema_of(answer)
        shape = {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}}
        body = {"model": "in-character", "messages": turns, **(shape if schema else {}), **prompt.params}
        text, _ = self.character(body, 0)
        parsed = parse_reply(text, answer)
        return check(parsed) if check else parsed

    async def votes(self, prompt, answer, *, role="writer"):
        return [await self(prompt, answer, role=role)]

    async def scored(self, prompt, answer, *, role="writer"):
        return await self(prompt, answer, role=role), None
