"""The stage before any recipe for seeds without a query, as documents are: a model writes it for the seed's passages.

    (P1, P2, ...) -> Q    then the recipe, over the same seed with this query

No corpus says that the passages answer the query, or that others do not: such labels are `construction`, which judges
review. The topics have the attribute `query_for`: a passage, several passages of one document, or several documents.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from foil.engine.errors import Rejected
from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.protocols import Ask, Recipe
from foil.engine.topic import Passage, Seed, Topic
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.passages.answering import stems
from foil.prompts.passages.kinds import kind_of
from foil.prompts.passages.seed_material import distinct
from foil.prompts.render import load
from foil.prompts.sampling import writing
from foil.prompts.writing.checks import Problem
from foil.prompts.writing.examples import example_for
from foil.prompts.writing.material import WritingMaterial, cut_passage
from foil.prompts.writing.stage import Stages

VERSION = "1"
"""Raised when the same passages would get other queries."""
TEMPLATE = "writing/query"
_PASSAGE_CHARS = 4_000
_WORDS = (2, 30)
"""Content words at least, and words at most."""
_COPIED_WORDS = 8
_OF_THE_TEXT = re.compile(
    r"\b(?:(?:this|these|above|given|provided|both) (?:passage|text|document|article|section|page|paragraph|excerpt|"
    r"author|(?:code )?snippet)s?|the (?:passage|excerpt|author)s?|according to the)\b|"
    r"\A\s*(?:the|a) (?:text|page|document)s? (?:is|are|tells?|says?)\b",
    re.IGNORECASE,
)


class WrittenQuery:
    """Implements `engine.protocols.Recipe`: another recipe, over seeds that may lack a query.

    Rejected with `no_positive`, with the name of a check (`prompts.writing.checks`), and as the recipe does.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self.name = recipe, recipe.name
        self.fingerprint = sha256_hex(canonical_json([VERSION, load(TEMPLATE).digest, recipe.fingerprint]))

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        if seed.query.strip():
            return await self._recipe(seed, ask)
        query = await written_query(seed, ask)
        return [_as_written(topic, seed) for topic in await self._recipe(replace(seed, query=query), ask)]


async def written_query(seed: Seed, ask: Ask) -> str:
    """A query that all positives of the seed answer."""
    passages = tuple(cut_passage(p, _PASSAGE_CHARS) for p in distinct(seed.positives))
    if not passages:
        raise Rejected("no_positive", f"the seed {seed.id!r} has no passage with a text")
    material = WritingMaterial(seed, kind_of(passages[0]), passages, (), frozenset())
    example = example_for("text", material.number("example query"))
    texts = (example.p_plus, example.p1_minus) if len(passages) > 1 else (example.p_plus,)
    prompt = load(TEMPLATE).render(material.code, passages=passages, count=len(passages), example=example,
                                   example_texts=texts)  # fmt: skip
    return await Stages(material, ask, {}).text(
        writing(prompt, _WORDS[1]), "instruction_writer", lambda text: _problems(text, passages), one_line=True
    )


def _problems(text: str, passages: Sequence[Passage]) -> Iterator[Problem]:
    """What no query for the passages may be."""
    words, (least, most) = text.split(), _WORDS
    if text.isascii() and len(stems(text)) < least:
        advice = "It is vague. Name the subject, and what the person wants to know of it."
        yield Problem("too_short", f"it names no subject, or asks for nothing of it: {text!r}", advice)
    if len(words) > most:
        advice = f"It has {len(words)} words. Write one query of at most 15 words, and nothing else."
        yield Problem("too_long", f"the query has {len(words)} words", advice)
    if match := _OF_THE_TEXT.search(text):
        advice = f"It says {match[0]!r}, and the person has not seen any text. Name the subject itself."
        yield Problem("speaks_of_task", f"it says {match[0]!r}", advice)
    for passage in passages:
        whole_text = f"{passage.title}\n{passage.text}"
        if len(words) >= _COPIED_WORDS and fold_text(text).rstrip(".?!") in fold_text(whole_text):
            yield Problem("near_copy", f"it stands in a passage: {text!r}", "It is copied. Ask for it in other words.")
        if stems(text) and not stems(text) & stems(whole_text):
            advice = (
                f"It has nothing to do with the passage that begins with {passage.text[:60]!r}. Ask for what it tells."
            )
            yield Problem("not_a_query", f"it shares no word with a passage: {text!r}", advice)


def _as_written(topic: Topic, seed: Seed) -> Topic:
    """The topic, which says that its query was written, and that no corpus judged its labels."""
    judgments = tuple(replace(j, judge="construction") if j.judge == "seed" else j for j in topic.judgments)
    purpose = {"query_for": seed.attributes.get("query_for", "passage")}
    return replace(topic, judgments=judgments, attributes={**topic.attributes, **purpose})
