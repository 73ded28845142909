"""What the writing stages answer: questions as JSON, everything else as the text itself.

A text needs no JSON around it: small models break its quotes and line breaks, and a grammar slows a server down.
"""

import re
from typing import ClassVar

from pydantic import Field

from foil.engine.protocols import PlainAnswer
from foil.prompts.parse import StructuredReply

_FENCE = re.compile(r"```[\w+#-]*[ \t]*\n(.*?)\n?```", re.DOTALL)
_LABEL = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay)[,!.:][^\n]{0,80}\n+|here(?: is|'s)\b[^\n]{0,80}:\s*\n*|#+ [^\n]*\n+|"
    r"\**(?:the )?(?:new |other |second |search )?(?:instruction|query|passage|program|(?:worked )?solution|p2|text)"
    r"\**\s*:\**\s*)",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\n+(?:query of p1:|(?:other )?query:|(?:it )?must(?: not)? answer:|length: about \d)"
    r".*\Z|\n\n+(?:instruction|p1|must(?: not)?):.*\Z",
    re.IGNORECASE | re.DOTALL,
)
_QUOTES = {'"': '"', "“": "”", "'": "'"}


class Questions(StructuredReply):
    """What a passage answers besides its query, and what it leaves open. Of a reply that was cut, whole ones count."""

    READS_CUT: ClassVar[bool] = True

    answered: tuple[str, ...] = Field((), max_length=64, description="questions that it answers")
    open: tuple[str, ...] = Field((), max_length=64, description="questions that it leaves without an answer")


class Keywords(StructuredReply):
    """Words by which a search can be narrowed down, the best first."""

    keywords: tuple[str, ...] = Field(max_length=32)


class ConditionWording(StructuredReply):
    """A demand for a kind of text, and its opposite; each one sentence."""

    condition: str = Field(min_length=1, max_length=1000)
    reversal: str = Field(min_length=1, max_length=1000)


class WrittenText(PlainAnswer):
    """An instruction, a query or a passage."""


def without_fence(text: str) -> str:
    """Source code without the fence that stands around it, and what stands around that."""
    fences = _FENCE.findall(text)
    return str(max(fences, key=len)).strip("\n") if fences else text.strip("\n")


def without_wrapping(text: str) -> str:
    """Prose without what models put around it: a fence, a label, quotation marks, a repeated task behind it."""
    bare = without_fence(text).strip()
    while bare and (label := _LABEL.match(bare)) and label.end() < len(bare):
        bare = bare[label.end() :].strip()
    bare = _AFTER.sub("", bare).strip()
    if len(bare) > 1 and _QUOTES.get(bare[0]) == bare[-1] and bare.count(bare[0]) <= 2:
        bare = bare[1:-1].strip()
    return bare
