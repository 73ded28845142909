"""How an instruction and a query become one text, and a title and a body another: one named template object.

Whoever encodes (trainer, evaluator, exporter) takes the template from the checkpoint, so that a model is never asked
in another order than it learnt: InF-IR puts the instruction first, Promptriever and MTEB put it last.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import UsageError


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """`pair` joins {instruction} and {query}, `passage` joins {title} and {text}; an absent part leaves no blank."""

    name: str
    pair: str
    passage: str = "{title} {text}"

    @property
    def leading(self) -> int:
        """What a fused pair begins with: 0 the instruction, 1 the query."""
        return int(self.pair.index("{query}") < self.pair.index("{instruction}"))

    def fuse(self, instruction: str, query: str) -> str:
        return self.pair.format(instruction=instruction, query=query).strip()

    def body(self, title: str, text: str) -> str:
        return self.passage.format(title=title, text=text).strip()


TEMPLATES = {
    template.name: template
    for template in (
        TextTemplate("query_instruction", "{query} {instruction}"),
        TextTemplate("instruction_query", "{instruction} {query}"),
    )
}


def template_named(name: str) -> TextTemplate:
    """The template of that name; UsageError with the known names otherwise."""
    if name not in TEMPLATES:
        raise UsageError(f"there is no template {name!r}; choose one of {', '.join(sorted(TEMPLATES))}")
    return TEMPLATES[name]
