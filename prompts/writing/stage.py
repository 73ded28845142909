"""One stage of writing: a prompt, its typed answer, the checks of it, and the marks that a topic keeps of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel

from foil.engine.protocols import Ask, Prompt
from foil.prompts.untrusted_text import as_meant, reply_as_meant
from foil.prompts.writing.answers import WrittenText, without_fence, without_wrapping
from foil.prompts.writing.checks import AnswerChecks, OnFail, Problem, Reason, ask_checked, text_problems, texts_of
from foil.prompts.writing.material import WritingMaterial

A = TypeVar("A", bound=BaseModel)
_CODE_ECHO = 16
"""Words in a row of a program that may not be those of the example: short runs are idioms of the language."""


def _nothing(_: object) -> Iterable[Problem]:
    return ()


class Stages:
    """Asks for the parts of one seed's topic. `marks` are the problems that were let pass."""

    def __init__(self, material: WritingMaterial, ask: Ask, policy: Mapping[Reason, OnFail]) -> None:
        self.material, self._ask, self._policy = material, ask, policy
        self.marks: set[str] = set(material.marks)

    def topic_attributes(self) -> dict[str, str]:
        """What the topic says of its making: the marks, where there are any."""
        return {"marks": ", ".join(sorted(self.marks))} if self.marks else {}

    async def answer(
        self,
        prompt: Prompt,
        answer: type[A],
        role: str,
        *,
        mend: Callable[[A], A] = lambda reply: reply,
        problems: Callable[[A], Iterable[Problem]] = _nothing,
    ) -> A:
        """A JSON answer, mended and checked, none of whose texts is taken from the prompt's example."""

        def faults(reply: A) -> Iterator[Problem]:
            yield from problems(reply)
            for text in texts_of(reply):
                yield from (p for p in text_problems(text, prompt) if p.reason == "echo")

        checks = AnswerChecks(lambda reply: mend(reply_as_meant(reply, self.material.texts)), faults, self._policy)
        return await ask_checked(self._ask, prompt, answer, checks, role=role, marks=self.marks)

    async def text(
        self,
        prompt: Prompt,
        role: str,
        problems: Callable[[str], Iterable[Problem]],
        *,
        keeps_fences: bool = False,
        one_line: bool = False,
    ) -> str:
        """A plain text, freed of what stands around it, that passes the checks of every text and those given.

        `one_line`: what stands below its first line is cut off.
        """
        is_code = self.material.kind == "code" and role == "passage_writer"

        def mended(reply: WrittenText) -> WrittenText:
            meant = as_meant(reply.text, self.material.texts)
            bare = meant.strip() if keeps_fences else without_fence(meant) if is_code else without_wrapping(meant)
            return WrittenText(text=without_wrapping(bare.partition("\n")[0]) if one_line else bare)

        def faults(written: WrittenText) -> Iterator[Problem]:
            yield from text_problems(written.text, prompt, _CODE_ECHO if is_code else None)
            if written.text.strip():
                yield from problems(written.text)

        checks = AnswerChecks(mended, faults, self._policy)
        written = await ask_checked(self._ask, prompt, WrittenText, checks, role=role, marks=self.marks)
        return written.text
