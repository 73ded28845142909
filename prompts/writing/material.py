"""A seed as the writing stages see it: its passages as they are, cut where they are too long.

Nothing here decides whether a passage answers: a model reads it, and judges do. A text that reads like a broken page is
used last, and the topic is marked `unreadable`.
"""

from dataclasses import dataclass
from functools import cached_property

from foil.engine.errors import Rejected
from foil.engine.ids import sha256_hex
from foil.engine.texts.words import CUTTING_PLACE
from foil.engine.topic import Passage, Seed
from foil.prompts.constraints.families import Kind
from foil.prompts.passages.kinds import kind_of
from foil.prompts.passages.readable import flaw_of
from foil.prompts.passages.seed_material import distinct
from foil.prompts.untrusted_text import nonce

_NOUNS: dict[str, str] = {"code": "program", "mathematics": "worked solution"}


@dataclass(frozen=True, eq=False)
class WritingMaterial:
    """`positives` and `negatives` are distinct; the first positive is the recipe's P+."""

    seed: Seed
    kind: Kind
    positives: tuple[Passage, ...]
    negatives: tuple[Passage, ...]
    marks: frozenset[str]

    @property
    def positive(self) -> Passage:
        return self.positives[0]

    @property
    def noun(self) -> str:
        """What a text of this kind is called in a prompt."""
        return _NOUNS.get(self.kind, "passage")

    @property
    def language(self) -> str:
        """The programming language of P+, "" where it is no code."""
        return self.positive.attributes.get("language", "") if self.kind == "code" else ""

    @cached_property
    def code(self) -> str:
        """The code of the fences in all prompts of this seed."""
        return nonce(self.texts, "writer")

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts of strangers that prompts of this seed may show."""
        excluded = [p for p in self.seed.negatives if p.role == "instruction_negative"]
        return (self.seed.query, *(text for p in (*self.seed.positives, *excluded) for text in (p.title, p.text)))

    def number(self, purpose: str) -> int:
        """A number of 64 bits that follows from the seed and the purpose alone."""
        return int(sha256_hex(f"{purpose}\x1f{self.seed.corpus}\x1f{self.seed.id}")[:16], 16)


def writing_material(seed: Seed, *, passage_chars: int) -> WritingMaterial:
    """The material of a seed. Raises Rejected (`empty_query`, `no_positive`, `too_long` where all code is cut off).

    Prose of more than `passage_chars` characters is cut at the end of a sentence and says so (`edited_from`); longer
    code is left out, since a part of a program is no solution.
    """
    if not seed.query.strip():
        raise Rejected("empty_query", f"the seed {seed.id!r} has no query")
    positives = distinct(seed.positives)
    if not positives:
        raise Rejected("no_positive", f"the seed {seed.id!r} has no relevant passage with a text")
    fitting = [p for p in positives if len(p.text) <= passage_chars or kind_of(p) != "code"]
    if not fitting:
        least = min(len(p.text) for p in positives)
        raise Rejected("too_long", f"the shortest solution has {least} characters, more than {passage_chars}")
    ordered = sorted(fitting, key=lambda p: bool(flaw_of(p)))
    marks = {"unreadable"} if flaw_of(ordered[0]) else set()
    return WritingMaterial(
        seed,
        kind_of(ordered[0]),
        tuple(cut_passage(p, passage_chars) for p in ordered),
        tuple(cut_passage(p, passage_chars) for p in distinct(seed.negatives) if p.role != "instruction_negative"),
        frozenset(marks),
    )


def cut_passage(passage: Passage, characters: int) -> Passage:
    """The passage, cut at the end of a sentence where it is longer."""
    if len(passage.text) <= characters:
        return passage
    ends = [match.end() for match in CUTTING_PLACE.finditer(passage.text, 0, characters)]
    text = passage.text[: ends[-1] if ends else characters].rstrip()
    return Passage(
        text,
        passage.role,
        title=passage.title,
        source_id=passage.source_id,
        edited_from=passage.id,
        attributes=passage.attributes,
    )
