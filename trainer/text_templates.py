"""A named template joins instruction and query into one text, and title and body into another.

Training, evaluation and export take the template that the model was trained with, so the order of the parts never
changes: InF-IR puts the instruction first, Promptriever and MTEB put it last. `prefixes` is the form of E5 and
RepLLaMA, `instruct` that of E5-mistral and Qwen3-Embedding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from foil.engine.errors import UsageError

QueryPair = tuple[str, str]
"""(instruction, query), with "" for no instruction."""
CUT = "queries"
"""What of a pair that is too long is cut (`model.fitted_texts`); it was the instruction once, so digests hold it."""


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """`pair` joins {instruction} and {query}, `passage` joins {title} and {text}; an absent part leaves no blank.

    `bare` is the form of a query without an instruction, where it is another one.
    """

    name: str
    pair: str
    passage: str = "{title} {text}"
    bare: str = ""

    @property
    def first_part(self) -> int:
        """The part that a formatted pair begins with: 0 the instruction, 1 the query."""
        return int(self.pair.index("{query}") < self.pair.index("{instruction}"))

    def format_pair(self, instruction: str, query: str) -> str:
        form = self.pair if instruction or not self.bare else self.bare
        return form.format(instruction=instruction, query=query).strip()

    def format_pairs(self, pairs: Sequence[QueryPair]) -> list[str]:
        return [self.format_pair(*pair) for pair in pairs]

    def format_passage(self, title: str, text: str) -> str:
        return self.passage.format(title=title, text=text).strip()

    def format_passages(self, passages: Sequence[tuple[str, str]]) -> list[str]:
        return [self.format_passage(*passage) for passage in passages]


class TextForms(Protocol):
    """What forms texts: a template, or one whose texts are cut to what a model reads (`model.fitted_texts`)."""

    def format_pairs(self, pairs: Sequence[QueryPair]) -> list[str]: ...

    def format_passages(self, passages: Sequence[tuple[str, str]]) -> list[str]: ...


OWN = "own"
"""The template of a model whose configuration names prompts; `behind_prompts` makes it when the model is loaded."""
TEMPLATES = {
    template.name: template
    for template in (
        TextTemplate("query_instruction", "{query} {instruction}"),
        TextTemplate("instruction_query", "{instruction} {query}"),
        TextTemplate("prefixes", "query: {query} {instruction}", "passage: {title} {text}"),
        TextTemplate("instruct", "Instruct: {instruction}\nQuery:{query}", bare="{query}"),
        TextTemplate(OWN, "{query} {instruction}"),
    )
}


def template_named(name: str) -> TextTemplate:
    """The template of that name; UsageError with the known names otherwise."""
    if name not in TEMPLATES:
        raise UsageError(f"there is no template {name!r}; choose one of {', '.join(sorted(TEMPLATES))}")
    return TEMPLATES[name]


def behind_prompts(template: TextTemplate, prompts: Mapping[str, str | None]) -> TextTemplate:
    """The template behind the prompts of a model (`query`, and `document` or `passage`), as mteb puts them.

    >>> behind_prompts(template_named("query_instruction"), {"query": "query: ", "document": ""}).format_pair("I", "Q")
    'query: Q I'
    """
    query, passage = (
        next((prompt.replace("{", "{{").replace("}", "}}") for key in keys if (prompt := prompts.get(key))), "")
        for keys in (("query",), ("document", "passage"))
    )
    pair, text = query + template.pair, passage + template.passage
    return replace(template, name="prompts of the model", pair=pair, passage=text) if query or passage else template
