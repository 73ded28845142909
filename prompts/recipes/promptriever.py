"""The recipe `promptriever`: an instruction of a given length and style, and passages that only it can tell apart.

    (query, P+) -> instruction of one of 4 lengths x 4 styles -> one passage that fits it, some that fit the query alone

              P+ (or generated)  N1 N2 N3
    (none,q)  +1                 +1 +1 +1      original: the query without an instruction
    (I,q)     +1                 -1 -1 -1

Promptriever, sections 2.1 and 2.2. The cell of the grid follows from the seed's hash, so the grid is balanced. A
passage fails in one of the ways of section 2.2: it leaves a demand out (`omission`), it answers what the instruction
rules out (`mentions_excluded`), or it treats another side of the query (`different_interpretation`). The validators
`judge_demands` and `judge_relevance` decide which written passages stay, and `judge_relevance` whether the written
positive replaces the seed's. A seed takes six requests where no reply is corrected: questions, the instruction, one
positive, three negatives.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from foil.engine.errors import FaultyReply, Rejected, UnreadableReplyError
from foil.engine.ids import canonical_json
from foil.engine.protocols import Ask
from foil.engine.settings import Settings
from foil.engine.topic import Passage, Seed, Topic
from foil.prompts.constraints.instructions import LENGTHS, STYLES, Length, Style
from foil.prompts.demands import Demands, dump_demands
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.render import load, recipe_fingerprint
from foil.prompts.writing.checks import CHECKS_DESCRIPTION, OnFail, Reason, problem_of
from foil.prompts.writing.contrast import (
    TEMPLATES,
    ContrastWriter,
    GridCell,
    PassageTask,
    cell_of,
    contrast_of,
    length_of,
)
from foil.prompts.writing.frames import FRAMES_DESCRIPTION
from foil.prompts.writing.material import WritingMaterial, writing_material

VERSION = "21"
"""Raised when the same seed, settings and templates would give other topics."""


class PromptrieverSettings(Settings):
    """How Promptriever's topics are made."""

    kind: Literal["promptriever"] = "promptriever"
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of a passage; a longer positive is cut at a sentence"
    )
    lengths: tuple[Length, ...] = Field(LENGTHS, min_length=1, description="the length formats of the grid")
    styles: tuple[Style, ...] = Field(STYLES, min_length=1, description="the styles of the grid")
    candidates: int = Field(
        3, ge=1, le=8, description="most instruction negatives that are written; each fails in another way"
    )
    positive: bool = Field(True, description="write a positive as well, in the manner of the negatives")
    negatives: int = Field(3, ge=0, le=1_000, description="seed negatives kept in the topic")
    frames: bool = Field(True, description=FRAMES_DESCRIPTION)
    checks: dict[Reason, OnFail] = Field(default_factory=dict, description=CHECKS_DESCRIPTION)


class Promptriever:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `too_long`, or the name of a check (`prompts.writing.checks`). A written
    passage that no turn mends is left out and named in the topic's attribute `dropped`; `no_negative` where none is
    left.
    """

    name = "promptriever"

    def __init__(self, settings: PromptrieverSettings) -> None:
        self._settings = settings
        self.fingerprint = recipe_fingerprint(VERSION, [load(name).digest for name in TEMPLATES], settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        material = writing_material(seed, passage_chars=settings.passage_chars)
        cell = cell_of(material.number("promptriever"), settings.lengths, settings.styles)
        writer = ContrastWriter(material, ask, settings.checks, frames=settings.frames)
        questions = await writer.questions(material.positive)
        demands, opposite = contrast_of(questions, material, cell)
        instruction = await writer.instruction(demands, cell)
        topic = _Topic(material, writer)
        for task in _tasks(demands, questions.open or opposite.demands, seed.query, settings):
            await topic.write(task)
        return [topic.build(instruction, demands, cell, settings)]


def _tasks(
    demands: Demands, open_questions: Sequence[str], query: str, settings: PromptrieverSettings
) -> list[PassageTask]:
    """The positive, then the negatives, each failing in a way of its own (section 2.2): what the instruction wants it
    leaves out, or what the instruction bans it tells. Without a demand only the second is a way to fail."""
    tasks = [PassageTask("generated_positive", query, demands.demands, demands.bans)] if settings.positive else []
    ways: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
    if demands.demands:
        ways.append(("omission", demands.demands[1:], demands.demands[:1]))
    if demands.bans:
        ways.append(("mentions_excluded", (*demands.demands, *demands.bans), ()))
    if demands.demands:
        ways += [("different_interpretation", (question,), demands.demands) for question in open_questions]
    for category, must, must_not in ways[: settings.candidates]:
        tasks.append(PassageTask("instruction_negative", query, must, must_not, category))
    return tasks


class _Topic:
    """The passages of one topic as they are written; `dropped` says why some were left out."""

    def __init__(self, material: WritingMaterial, writer: ContrastWriter) -> None:
        self._material, self._writer = material, writer
        self._written: list[Passage] = []
        self._dropped: list[str] = []

    async def write(self, task: PassageTask) -> None:
        """One passage, unlike those before it."""
        try:
            self._written.append(await self._writer.passage(task, self._written))
        except (FaultyReply, UnreadableReplyError) as fault:
            self._dropped.append(f"{task.category or task.role}: {problem_of(fault)}")

    def build(self, instruction: str, demands: Demands, cell: GridCell, settings: PromptrieverSettings) -> Topic:
        """The matrix of the method."""
        material, topic = self._material, TopicBuilder(Promptriever.name, self._material.seed)
        topic.add_passages(material.positive)
        positives = topic.add_new([p for p in self._written if p.role == "generated_positive"], 1)
        violations = topic.add_new([p for p in self._written if p.role == "instruction_negative"], settings.candidates)
        if not violations:
            raise Rejected("no_negative", "; ".join(self._dropped))
        negatives = topic.add_new(material.negatives, settings.negatives)
        original = topic.add_intent("original")
        topic.judge(original, "seed", (material.positive, 1), *((p, -1) for p in negatives))
        topic.judge(original, "construction", *((p, 1) for p in (*positives, *violations)))
        instructed = topic.add_intent(
            "instructed",
            instruction,
            demands=dump_demands(*demands),
            length_format=length_of(instruction),
            style=cell.style,
        )
        topic.judge(instructed, "construction", (material.positive, 1), *((p, 1) for p in positives))
        topic.judge(instructed, "construction", *((p, -1) for p in violations))
        dropped = {"dropped": canonical_json(self._dropped)} if self._dropped else {}
        return topic.build(rows="promptriever", **self._writer.topic_attributes(), **dropped)
