"""A named template joins instruction and query into one text, and title and body into another.

Training, evaluation and export take the template that the model was trained with, so the order of the parts never
changes: InF-IR puts the instruction first, Promptriever and MTEB put it last.
"""

from dataclasses import dataclass

from engine.errors import UsageError

QueryPair = tuple[str, str]
"""(instruction, query), with "" for no instruction."""


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """`pair` joins {instruction} and {query}, `passage` joins {title} and {text}; an absent part leaves no blank."""

    name: str
    pair: str
    passage: str = "{title} {text}"

    @property
    def first_part(self) -> int:
        """The part that a formatted pair begins with: 0 the instruction, 1 the query."""
        return int(self.pair.index("{query}") < self.pair.index("{instruction}"))

    def format_pair(self, instruction: str, query: str) -> str:
        return self.pair.format(instruction=instruction, query=query).strip()

    def format_passage(self, title: str, text: str) -> str:
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
